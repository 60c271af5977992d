#!/usr/bin/env bash
# Compares Headlight's models with Hugging Face's transformers, both ways, in a virtual environment of its own
# (target/huggingface). Arguments: a model or run directory to check, and a text in its vocabulary; without them a small
# model is trained.
# HEADLIGHT names the program, PYTHON the interpreter that makes the environment.
set -euo pipefail
cd "$(dirname "$0")/.."
room=target/huggingface
program=${HEADLIGHT:-}
if [ -z "$program" ]; then
    cargo build --release --locked --quiet
    program=target/release/headlight
fi
mkdir -p "$room"
if ! "$room/venv/bin/python" -c 'import numpy, safetensors, torch, transformers' 2>/dev/null; then
    "${PYTHON:-python3}" -m venv "$room/venv"
    "$room/venv/bin/pip" install --quiet numpy safetensors torch transformers
fi
model=${1:-}
if [ -z "$model" ]; then
    model=$room/run
    [ -d "$model" ] || "$program" train --preset tiny --steps 100 --out "$model"
fi
text=()
[ -z "${2:-}" ] || text=(--text "$2")
exec "$room/venv/bin/python" scripts/huggingface.py --program "$program" --model "$model" --room "$room" "${text[@]}"

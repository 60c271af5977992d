#!/usr/bin/env bash
# Trains a GPT on whatever adapter is here; arguments go to `headlight train`.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
exec cargo run --release --locked -- train "$@"

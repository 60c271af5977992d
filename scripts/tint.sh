#!/usr/bin/env bash
# Passes the assembled text of every shader through Tint, the compiler behind browsers' WebGPU.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v tint >/dev/null || { echo "tint is not installed: nothing was checked" >&2; exit 0; }
texts=$(mktemp -d)
trap 'rm -r "$texts"' EXIT
HEADLIGHT_SHADER_TEXTS="$texts" cargo test --quiet --locked --test shaders -- --exact browsers_get_a_text_of_every_shader >/dev/null
count=0
for text in "$texts"/*.wgsl; do
    tint --format wgsl "$text" >/dev/null || { echo "Tint rejects $(basename "$text")" >&2; exit 1; }
    count=$((count + 1))
done
[ "$count" -gt 0 ] || { echo "no shader text was written" >&2; exit 1; }
echo "Tint accepts all $count shader texts"

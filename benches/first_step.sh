#!/usr/bin/env bash
# Seconds from the start of the program to the end of the first training step of `tiny`: once with an empty shader cache
# (Mesa's drivers), then with what that run left in it.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --release --locked --quiet
room=$(mktemp -d)
trap 'rm -r "$room"' EXIT
export MESA_SHADER_CACHE_DIR="$room/cache"
for name in cold warm warm_again; do
    began=$(date +%s.%N)
    target/release/headlight train --preset tiny --stop-after 1 --evaluation-batches 1 --out "$room/$name" >/dev/null
    awk -v began="$began" -v ended="$(date +%s.%N)" -v name="$name" 'BEGIN { printf "%-10s %.2f s\n", name, ended - began }'
done

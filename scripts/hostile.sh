#!/usr/bin/env bash
# What each refusal of a hostile file takes: seconds and peak memory of the program, the longest first.
set -euo pipefail
cd "$(dirname "$0")/.."
report=$(mktemp)
trap 'rm "$report"' EXIT
HEADLIGHT_HOSTILE_REPORT="$report" cargo test --quiet --locked --test cli -- --test-threads=1 hostile:: >/dev/null
echo "seconds  MiB  case"
sort -rn "$report" | awk -F '\t' '{ printf "%7.3f %4.0f  %s\n", $1, $2 / 1024, $3 }'

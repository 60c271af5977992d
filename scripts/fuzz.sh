#!/usr/bin/env bash
# Fuzzes the readers of files: scripts/fuzz.sh [SECONDS [TARGET...]], ten minutes a target where nothing is said.
# What a target cannot stand is left in fuzz/artifacts/TARGET: put it into fuzz/findings/TARGET, where the tests run it.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-600}
[ "$#" -eq 0 ] || shift
targets=("$@")
[ "${#targets[@]}" -gt 0 ] || targets=(tensor_file config_json tokenizer_json settings_toml trainer_state)

cargo fuzz --version >/dev/null 2>&1 || cargo install cargo-fuzz --version 0.13.2 --locked --debug --quiet
for target in "${targets[@]}"; do
    echo "== $target"
    mkdir -p "fuzz/corpus/$target"
    folders=("fuzz/corpus/$target" "fuzz/seeds/$target")
    [ ! -d "fuzz/findings/$target" ] || folders+=("fuzz/findings/$target")
    # A stable compiler has no sanitizers. Safe code needs none here: what is looked for are panics, time and memory.
    cargo fuzz run --sanitizer none "$target" "${folders[@]}" -- \
        -max_total_time="$seconds" -timeout=1 -rss_limit_mb=200 -max_len=65536 -print_final_stats=1 \
        -dict="fuzz/dictionaries/$target.dict"
done

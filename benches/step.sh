#!/usr/bin/env bash
# One step of the `nano` preset in Headlight and in PyTorch, in turn, so that both see the same machine. PYTHON names an
# interpreter with torch.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-3}
cargo build --release --locked --quiet
room=$(mktemp -d)
trap 'rm -r "$room"' EXIT
for round in $(seq "$rounds"); do
    target/release/headlight train --preset nano --stop-after 60 --evaluate-every 0 --evaluation-batches 1 \
        --sample-every 0 --log-every 20 --out "$room/$round" >/dev/null
    # The last line of the metrics: steps 41 to 60, after everything is compiled.
    tail -n 1 "$room/$round/metrics.jsonl" |
        sed -E 's/.*"tokens_per_second":([0-9.]+).*/\1/' |
        awk '{ printf "headlight %.1f ms a step\n", 1000 * 12 * 64 / $1 }'
    printf 'pytorch   ' && "${PYTHON:-python3}" benches/pytorch_step.py --steps 60
done

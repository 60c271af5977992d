#!/usr/bin/env bash
# Kills a training run N times (30) at random moments, resumes it after each, and compares what comes out with a run
# that was left alone: weights, moments, best model, samples and measurements must be equal, bit for bit.
#
#   scripts/kill.sh [N] [flags of `headlight train`, such as --attention naive --device cpu]
#
# HEADLIGHT names the program (target/release/headlight, built if it is missing), SEED the draw of the moments (1),
# STEPS the steps of the run (20 a kill). Exit code 1 if anything differs, or if the run ended before the last kill.
set -euo pipefail
cd "$(dirname "$0")/.."

kills=${1:-30}
case "$kills" in
'' | *[!0-9]*)
    echo "usage: scripts/kill.sh [N] [flags of headlight train]" >&2
    exit 2
    ;;
esac
[ $# -eq 0 ] || shift
program=${HEADLIGHT:-target/release/headlight}
if [ -z "${HEADLIGHT:-}" ] && [ ! -x "$program" ]; then
    cargo build --release --locked
fi
program=$(realpath "$program")
steps=${STEPS:-$((kills * 20))}
seed=${SEED:-1}
RANDOM=$seed

room=$(mktemp -d)
child=
finish() {
    # Only what this script started.
    [ -z "$child" ] || kill -9 "$child" 2>/dev/null || true
    rm -rf "$room"
}
trap finish EXIT

# A checkpoint after every third step: a good part of the time is spent writing one, and many kills meet it.
flags=(--data builtin:names --corpus-bytes 20000 --layers 2 --heads 2 --width 32 --context-length 32 --batch 4
    --accumulation 3 --steps "$steps" --warm-up 5 --log-every 1 --evaluate-every 5 --evaluation-batches 2
    --sample-every 10 --sample-length 20 --checkpoint-every 3 "$@")

now() { date +%s%N; }
# Milliseconds as seconds.
seconds() { printf '%d.%03d' $(($1 / 1000)) $(($1 % 1000)); }
steps_told() { [ -f "$1/metrics.jsonl" ] && grep -c '}$' "$1/metrics.jsonl" || true; }

# The run that is left alone tells how long a start and a step take here.
"$program" train "${flags[@]}" --out "$room/warm" --stop-after 1 >/dev/null
began=$(now)
"$program" train "${flags[@]}" --out "$room/start" --stop-after 1 >/dev/null
start=$((($(now) - began) / 1000000))
began=$(now)
"$program" train "${flags[@]}" --out "$room/whole" >"$room/printed"
whole=$((($(now) - began) / 1000000))
head -n 1 "$room/printed"
echo "$steps steps in $(seconds $whole) s, of which $(seconds $start) s to start; $kills kills, seed $seed"
echo

# Up to a start and the time of 1 / N of the steps: half of the steps are left for after the last kill.
longest=$((start + (whole - start) / kills))
printf '%5s  %9s  %10s  %10s  %s\n' kill after "last told" checkpoint "left half done"
killed=0
anew=0
while [ "$killed" -lt "$kills" ]; do
    if [ -d "$room/run" ]; then
        command=(train --resume "$room/run")
    else
        command=(train "${flags[@]}" --out "$room/run")
    fi
    delay=$((RANDOM * longest / 32768))
    "$program" "${command[@]}" >"$room/printed" 2>"$room/errors" &
    child=$!
    sleep "$(seconds $delay)"
    kill -9 "$child" 2>/dev/null || true
    status=0
    wait "$child" 2>/dev/null || status=$?
    child=
    if [ "$status" -eq 0 ]; then
        echo "the run was through before kill $((killed + 1)): repeat with a larger STEPS than $steps" >&2
        exit 1
    elif [ "$status" -ne 137 ]; then
        echo "the run ended with exit code $status before kill $((killed + 1)):" >&2
        cat "$room/errors" >&2
        exit 1
    fi
    killed=$((killed + 1))
    told=$(($(steps_told "$room/run") - 1))
    [ "$told" -ge 0 ] || told=-
    # Where the swap of two checkpoints was cut, the newest is under another name.
    checkpoint=-
    for place in last last.new last.old; do
        if [ -f "$room/run/$place/trainer.json" ]; then
            checkpoint=$(sed -n 's/^ *"step": \([0-9]*\),$/\1/p' "$room/run/$place/trainer.json")
            break
        fi
    done
    half=
    for name in last.partial last.new last.old best.partial best.new best.old; do
        [ ! -e "$room/run/$name" ] || half="$half $name"
    done
    for path in "$room/run/"*.partial "$room/run/"*.partial/*.partial; do
        [ ! -f "$path" ] || half="$half ${path#"$room/run/"}"
    done
    if [ "$checkpoint" = - ] && [ -d "$room/run" ]; then
        # Before its first checkpoint a run has nothing to go on from.
        rm -r "$room/run"
        anew=$((anew + 1))
        half="$half (begun anew)"
    fi
    printf '%5d  %7s s  %10s  %10s  %s\n' $killed "$(seconds $delay)" "$told" "$checkpoint" "${half# }"
done
if [ -d "$room/run" ]; then
    "$program" train --resume "$room/run" >"$room/printed"
else
    "$program" train "${flags[@]}" --out "$room/run" >"$room/printed"
fi

# What was measured, without the time it took.
for run in run whole; do
    sed 's/,"tokens_per_second".*//' "$room/$run/metrics.jsonl" >"$room/$run.measured"
done
different=0
compare() {
    if cmp -s "$room/$2" "$room/$3"; then
        printf '%-28s %10d bytes  equal\n' "$1" "$(wc -c <"$room/$3")"
    else
        printf '%-28s DIFFERENT\n' "$1"
        different=1
    fi
}
echo
for file in last/model.safetensors last/optimizer.safetensors best/model.safetensors samples.txt; do
    compare "$file" "run/$file" "whole/$file"
done
compare "metrics.jsonl without times" run.measured whole.measured
left=$(find "$room/run" -name '*.partial' -o -name '*.new' -o -name '*.old')
if [ -n "$left" ]; then
    echo "left behind: $left"
    different=1
fi
echo
if [ "$different" -ne 0 ]; then
    echo "DIFFERENT after $kills kills"
    exit 1
fi
echo "equal, bit for bit, after $kills kills ($anew of them before the first checkpoint)"

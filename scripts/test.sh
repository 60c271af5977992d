#!/usr/bin/env bash
# Runs every test, on the software adapter where there is no GPU. HEADLIGHT_REQUIRE_GPU=1 makes a missing adapter a
# failure instead of ignored tests; arguments go to `cargo test`.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
# Mesa's device selection prints an error that is none where there is no desktop session.
[ -n "${XDG_RUNTIME_DIR:-}" ] || export NODEVICE_SELECT=1
exec cargo test --locked "$@"

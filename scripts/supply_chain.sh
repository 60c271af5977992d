#!/usr/bin/env bash
# Holds every dependency against deny.toml. Licences, versions and sources need only the crates themselves; the list of
# known faults is a git repository that not every machine can reach, and is left out where it cannot be fetched.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! cargo deny --version >/dev/null 2>&1; then
    # Unoptimised it is built in two minutes instead of many, and still checks in two seconds.
    CARGO_PROFILE_DEV_DEBUG=0 cargo install cargo-deny --version 0.20.2 --locked --debug --quiet
fi

# The crates of every platform, not of this one alone.
cargo fetch --locked --quiet
cargo deny --offline check bans licenses sources
if timeout 120 cargo deny fetch db >/dev/null 2>&1; then
    cargo deny check --disable-fetch advisories
else
    echo "advisories: not checked, the RustSec database cannot be fetched from here"
fi

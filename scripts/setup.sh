#!/usr/bin/env bash
# Makes sure that there is a compiler and something to run shaders on. Installs packages on Debian and Ubuntu only;
# macOS (Metal) and Windows (DX12) bring their driver along.
set -euo pipefail

fail() {
    echo "setup: $*" >&2
    exit 1
}

command -v cargo >/dev/null || fail "Rust is missing: install it from https://rustup.rs (version 1.95 or newer)"

case "$(uname -s)" in
Linux) ;;
*) exit 0 ;;
esac

missing=()
command -v cc >/dev/null || missing+=(build-essential)
if ! find /usr/share/vulkan/icd.d /etc/vulkan/icd.d -name '*.json' 2>/dev/null | grep -q .; then
    # Mesa brings drivers for AMD and Intel GPUs and, for machines without a GPU, the software adapter lavapipe.
    missing+=(mesa-vulkan-drivers)
fi
if ! ldconfig -p 2>/dev/null | grep -q 'libvulkan\.so\.1'; then
    missing+=(libvulkan1)
fi
[ "${#missing[@]}" -eq 0 ] && exit 0

command -v apt-get >/dev/null || fail "please install: ${missing[*]} (or what your distribution calls them)"
as_root=()
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || fail "please install as root: apt-get install ${missing[*]}"
    as_root=(sudo)
fi
echo "setup: installing ${missing[*]}"
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${missing[@]}" >/dev/null

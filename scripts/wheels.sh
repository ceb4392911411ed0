#!/usr/bin/env bash
# Builds dist/: manylinux_2_17 wheels for x86-64 and aarch64, and the source distribution.
#
#   scripts/wheels.sh [x86_64|aarch64|sdist]...     all three if none is named
#
# zig, from PyPI, links against glibc 2.17, so that the wheels import on every Linux since 2012. Each
# wheel's tags, symbol versions and use of the stable ABI are checked with auditwheel and abi3audit.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bin=$PWD/${VENV:-.venv}/bin
export PATH=$bin:$PATH # maturin looks for zig in the environment's Python

say() { printf '== %s\n' "$*"; }

# The std of the other architecture: rustup's, or that of Debian's second Rust (see cross.sh).
use_rust_for() {
    if command -v rustup >/dev/null && rustup target add "$1" 2>/dev/null; then
        return
    fi
    scripts/cross.sh toolchain
    export CARGO=/usr/bin/cargo RUSTC=/usr/bin/rustc
}

build() {
    local target=$1-unknown-linux-gnu
    rm -f dist/raptors_arrow-*manylinux_2_17_"$1"*.whl
    say "wheel for $target"
    (
        use_rust_for "$target"
        maturin build --release --locked --quiet --zig --target "$target" \
            --compatibility manylinux_2_17 --out dist
    )
    local wheel
    wheel=$(echo dist/raptors_arrow-*manylinux_2_17_"$1"*.whl)
    auditwheel show "$wheel"
    auditwheel show "$wheel" | tr '\n' ' ' | grep -q "\"manylinux_2_17_$1\"" || {
        echo "wheels.sh: $wheel needs a newer glibc than 2.17" >&2
        exit 1
    }
    abi3audit --strict --report "$wheel" >/dev/null
    say "$wheel: $(stat -c %s "$wheel") bytes"
}

mkdir -p dist
for what in "${@:-x86_64 aarch64 sdist}"; do
    for one in $what; do
        case $one in
        sdist) say "source distribution" && maturin sdist --out dist ;;
        x86_64 | aarch64) build "$one" ;;
        *) echo "wheels.sh: expected x86_64, aarch64 or sdist, got $one" >&2 && exit 2 ;;
        esac
    done
done

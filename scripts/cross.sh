#!/usr/bin/env bash
# Checks, from x86-64 Debian, the two platforms that the build machine is not:
#
#   aarch64 Linux   builds the Rust tests and runs them under qemu
#   aarch64 macOS   type-checks the library (std is built from source; nothing is linked or run)
#
# Uses Debian's own Rust, which has the aarch64 std and the std sources, and leaves rustup's alone.
# As root it installs the packages that are missing; otherwise it says which to install and fails.
# Everything built goes to target/cross. CARGO_BUILD_JOBS and RUST_TEST_THREADS work as usual.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf '== %s\n' "$*"; }
die() { printf 'cross.sh: %s\n' "$*" >&2; exit 1; }

packages=(
    rustc-web cargo-web rust-web-src libstd-rust-web-dev:arm64
    gcc-aarch64-linux-gnu libc6-dev-arm64-cross libc6:arm64 qemu-user
)

command -v dpkg-query >/dev/null || die "needs Debian and its packages: ${packages[*]}"
[[ $(dpkg --print-architecture) == amd64 ]] || die "needs an amd64 Debian, this one is $(dpkg --print-architecture)"

missing=()
for package in "${packages[@]}"; do
    status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) || true
    [[ $status == installed ]] || missing+=("$package")
done

if ((${#missing[@]})); then
    ((EUID == 0)) || die "not root, so install these first (after dpkg --add-architecture arm64): ${missing[*]}"
    say "installing ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    dpkg --add-architecture arm64
    apt-get update -qq
    apt-get install -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

# By path: a rustup cargo or rustc is usually first on PATH, and knows neither target.
cargo=/usr/bin/cargo
export RUSTC=/usr/bin/rustc
export CARGO_TARGET_DIR=target/cross
say "toolchain: $("$RUSTC" --version), $("$cargo" --version)"

# The golden hashes are the point: every function on every type, to the bit. The conformance run is
# left to the native tests, for time.
# No -L for qemu: with -L /usr/aarch64-linux-gnu it takes that loader but the libc of libc6:arm64,
# another build of it, and the first thread that is started hangs. Without, both are libc6:arm64's.
say "aarch64 Linux: building the tests and running them under qemu"
# qemu 7.2 itself aborts (qemu_plugin_vcpu_init_hook) when a child forked off a thread starts threads,
# a ten-line C program included. So this one test cannot run here, and forks on aarch64 stay untested.
skipped=a_forked_child_computes_with_a_pool_of_its_own
say "aarch64 Linux: NOT run, qemu aborts on it: $skipped"
CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER=qemu-aarch64 \
RAPTORS_TEST_QUICK=1 \
    "$cargo" test --locked --target aarch64-unknown-linux-gnu --lib --test golden --test edges \
    --test views --test registry --test buffers --test processes -- --skip "$skipped"

say "aarch64 macOS: type-checking the library"
RUSTC_BOOTSTRAP=1 "$cargo" check --locked -Z build-std --target aarch64-apple-darwin --lib

say "both passed; not run: $skipped, and the conformance tests"

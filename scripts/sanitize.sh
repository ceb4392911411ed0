#!/bin/sh
# The Rust tests under AddressSanitizer with LeakSanitizer, and those of threads under
# ThreadSanitizer. Needs the nightly toolchain, whose standard library is not instrumented:
# ThreadSanitizer does not see what std's locks order when they are contended, so it is told about
# them (scripts/tsan.supp).
set -eu
cd "$(dirname "$0")/.."

HOST=$(rustc -vV | sed -n 's/^host: //p')

run() { # sanitizer, flags, cargo arguments
    sanitizer=$1 flags=$2
    shift 2
    RUSTFLAGS="-Zsanitizer=$sanitizer $flags" cargo +nightly test --locked --quiet \
        --target "$HOST" --target-dir "target/$sanitizer" "$@"
}

case ${1:-all} in address | all)
    # guard_pages has an allocator and a signal handler of its own.
    RAPTORS_TEST_QUICK=1 run address "" --lib --test buffers --test conformance --test edges \
        --test extremes --test interrupts --test processes --test views
    ;;
esac
case ${1:-all} in thread | all)
    TSAN_OPTIONS="suppressions=$PWD/scripts/tsan.supp halt_on_error=1" \
        run thread "-Cunsafe-allow-abi-mismatch=sanitizer" --lib --test buffers --test processes \
        -- dispatch buffer calls outputs --skip fork
    ;;
esac

#!/usr/bin/env bash
# Imports an aarch64 wheel in Debian's Python for arm64, under qemu, and makes a few calls.
#
#   scripts/test_wheel_aarch64.sh WHEEL
#
# The packages of that Python are unpacked into target/aarch64-python; installed, they would take the
# place of the machine's own. As root on Debian it installs qemu-user and libc6:arm64 if they are missing.
set -euo pipefail
wheel=$(realpath "$1")
cd "$(dirname "${BASH_SOURCE[0]}")/.."
scripts/cross.sh packages qemu-user libc6:arm64

root=$PWD/target/aarch64-python
version=3.11
if [[ ! -x $root/usr/bin/python$version ]]; then
    mkdir -p "$root"
    (
        cd "$root"
        # The warning that root downloads without a sandbox is no fault.
        apt-get download -qq "python$version-minimal:arm64" "libpython$version-minimal:arm64" \
            "libpython$version-stdlib:arm64" libexpat1:arm64 zlib1g:arm64 2>/dev/null
        for package in *.deb; do dpkg -x "$package" .; done
        rm -- *.deb
    )
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m zipfile -e "$wheel" "$work"
libraries=$root/lib/aarch64-linux-gnu:$root/usr/lib/aarch64-linux-gnu
PYTHONHOME=$root/usr PYTHONPATH=$work RAPTORS_PROFILE=off \
    qemu-aarch64 -E LD_LIBRARY_PATH="$libraries" "$root/usr/bin/python$version" - <<'PYTHON'
from array import array

import raptors_arrow as ra

info = ra.build_info()
assert info["arch"] == "aarch64" and info["simd"] == "neon", info
x = array("d", range(600_000))
assert ra.sum(x) == 600_000 * 599_999 / 2
assert ra.mean(x, axis=0, width=3).rows == 3
assert ra.max(ra.sum(ra.scale(array("f", [1, 2, 3, 4]), 2, width=2), axis=0)) == 12.0
nearest = ra.top_k(array("d", [1, 0, 0, 1]), array("d", [0, 2]), k=1, width=2)
assert ra.sum(nearest.indices) == 1 and ra.sum(nearest.scores) == 1.0
try:
    ra.scale(array("b", [100]), 2)
except OverflowError as error:
    assert "row 0" in str(error)
else:
    raise AssertionError("int8 overflow was not noticed")
print(f"aarch64: {len(ra.list_functions())} functions, {info['simd']}, {info['target']}")
PYTHON

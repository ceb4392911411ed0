#!/bin/sh
# Builds the wheel and runs the Python tests against it, in a clean environment for each of CPython
# 3.11, 3.12 and 3.13 that can be found; those that cannot are named.
#
#   scripts/test_wheel.sh [pytest arguments]
set -eu

cd "$(dirname "$0")/.."
VENV=${VENV:-.venv}
PROJECT=$(pwd)
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT

"$VENV/bin/maturin" build --release --quiet --out "$WORK/dist"
WHEEL=$(echo "$WORK"/dist/*.whl)

# A Python of a version: on the PATH, or the newest of it that pyenv has.
find_python() {
    if command -v pyenv >/dev/null 2>&1 || [ -d "${PYENV_ROOT:-$HOME/.pyenv}/versions" ]; then
        for candidate in "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$1".*/bin/python; do
            [ -x "$candidate" ] && found=$candidate
        done
    fi
    [ -n "${found:-}" ] || found=$(command -v "python$1" || true)
    # A shim on the PATH may stand for a version that is not there.
    if [ -n "$found" ] && "$found" -c "import sys; sys.exit('%d.%d' % sys.version_info[:2] != '$1')" 2>/dev/null; then
        echo "$found"
    fi
}

missing=""
for version in 3.11 3.12 3.13; do
    python=$(found=""; find_python "$version")
    if [ -z "$python" ]; then
        missing="$missing $version"
        continue
    fi
    echo "== CPython $("$python" -c 'import platform; print(platform.python_version())')"
    env=$WORK/$version
    "$python" -m venv "$env"
    # Only what the tests import: not maturin, and not the source tree.
    "$env/bin/python" -m pip install --quiet --disable-pip-version-check \
        "$WHEEL" $("$VENV/bin/python" scripts/extra.py dev | tr ' ' '\n' | grep -v '^maturin')
    (cd "$WORK" && "$env/bin/python" -m pytest -q -c "$PROJECT/pyproject.toml" \
        -p no:cacheprovider "$PROJECT/tests/python" "$@")
done

[ -z "$missing" ] || echo "not found here, so not tested: CPython$missing"

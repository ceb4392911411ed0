#!/bin/sh
# Runs the Python tests against a wheel, in a clean environment for each of CPython 3.11 to 3.14 that
# can be found; those that cannot are named.
#
#   scripts/test_wheel.sh WHEEL [pytest arguments]
set -eu

WHEEL=$(realpath "$1")
shift
cd "$(dirname "$0")/.."
VENV=${VENV:-.venv}
PROJECT=$(pwd)
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT

# Windows keeps the programs of an environment elsewhere.
bin_of() {
    if [ -d "$1/Scripts" ]; then echo "$1/Scripts"; else echo "$1/bin"; fi
}

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
for version in 3.11 3.12 3.13 3.14; do
    python=$(found=""; find_python "$version")
    if [ -z "$python" ]; then
        missing="$missing $version"
        continue
    fi
    echo "== CPython $("$python" -c 'import platform; print(platform.python_version())')"
    env=$WORK/$version
    "$python" -m venv "$env"
    bin=$(bin_of "$env")
    # Only what the tests import: no tools, and not the source tree.
    "$bin/python" -m pip install --quiet --disable-pip-version-check "$WHEEL" \
        $("$(bin_of "$VENV")/python" scripts/extra.py dev | tr ' ' '\n' |
            grep -Ev '^(maturin|mypy|pyright|ruff)')
    (cd "$WORK" && "$bin/python" -m pytest -q -c "$PROJECT/pyproject.toml" \
        -p no:cacheprovider "$PROJECT/tests/python" "$@")
done

[ -z "$missing" ] || echo "not found here, so not tested: CPython$missing"

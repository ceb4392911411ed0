#!/usr/bin/env bash
# Prints the path of a Chromium or Chrome. On Debian, as root, it installs one if there is none.
set -euo pipefail

find_browser() {
    if [[ -n ${CHROMIUM:-} ]]; then
        echo "$CHROMIUM"
        return
    fi
    command -v chromium || command -v chromium-browser || command -v google-chrome
}

if ! find_browser >/dev/null; then
    if ((EUID != 0)) || ! command -v apt-get >/dev/null; then
        echo "browser.sh: needs Chromium: install it, or name one with CHROMIUM" >&2
        exit 1
    fi
    export DEBIAN_FRONTEND=noninteractive
    { apt-get update -qq && apt-get install -qq --no-install-recommends chromium fonts-dejavu-core; } >/dev/null
fi
find_browser

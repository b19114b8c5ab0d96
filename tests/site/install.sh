#!/usr/bin/env bash
# Installs what the tests of the site need and Python's packages don't hold: Chromium, Java, npm, and npm's packages.
# What can't be installed here is named; the tests that need it are skipped, or fail under FAILUREMAP_REQUIRE=all.
set -euo pipefail
cd "$(dirname "$0")"

missing=()
command -v chromium chromium-browser google-chrome > /dev/null || missing+=(chromium)
command -v npm > /dev/null || missing+=(npm)
command -v java > /dev/null || missing+=(default-jre-headless)
if [ "${#missing[@]}" -gt 0 ] && [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; then
    echo "installing ${missing[*]} (once)"
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" \
        > /dev/null && missing=() || true
fi
if [ "${#missing[@]}" -gt 0 ]; then
    echo "absent: ${missing[*]}; tests of the site that need them are skipped. Install them and run make again."
fi
if command -v npm > /dev/null; then
    npm ci --ignore-scripts --silent
    touch node_modules/.failuremap-installed
fi

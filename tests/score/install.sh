#!/bin/sh
# Installs bubblewrap, which the score shuts candidates in, where root can; otherwise says what to install.
command -v bwrap >/dev/null && exit 0
advice="bubblewrap is absent: nothing can be scored, and the tests of the box are skipped. Install it: sudo apt install bubblewrap"
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "$advice"
    exit 0
fi
echo "installing bubblewrap (once)"
export DEBIAN_FRONTEND=noninteractive
apt-get install -y -qq bubblewrap >/dev/null 2>&1 && exit 0
{ apt-get update -qq && apt-get install -y -qq bubblewrap; } >/dev/null 2>&1 || echo "$advice"

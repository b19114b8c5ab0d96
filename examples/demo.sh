#!/usr/bin/env bash
# Audit a wrong training job and its repaired form; succeed only if the audit tells them apart.
set -uo pipefail
cd "$(dirname "$0")/.."

expect() { # expect EXIT_CODE SCRIPT
    echo "\$ failuremap audit --nproc 2 -- $2"
    failuremap audit --nproc 2 -- "$2"
    local code=$?
    echo "exit code $code"
    echo
    if [ "$code" != "$1" ]; then
        echo "demo: $2: exit code $code, expected $1" >&2
        exit 1
    fi
}

expect 1 examples/ddp_counts_ignored.py
expect 0 examples/ddp_counts_weighted.py
echo "demo: the wrong job was named (exit code 1), the repaired one is right (exit code 0)"

#!/usr/bin/env bash
# Audit a wrong training job and its repaired form; succeed only if the audit tells them apart.
set -uo pipefail
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

expect() { # expect EXIT_CODE OUTCOME SCRIPT
    local verdict="$folder/verdict.json" code
    rm -f "$verdict"
    echo "\$ failuremap audit --nproc 2 -- $3"
    failuremap audit --nproc 2 --json "$verdict" -- "$3"
    code=$?
    echo "exit code $code"
    echo
    # The exit code alone would not do: a Python that cannot start also ends with 1.
    if [ "$code" != "$1" ] || ! grep -q "\"outcome\": \"$2\"" "$verdict"; then
        echo "demo: $3: expected the verdict '$2' and exit code $1" >&2
        exit 1
    fi
}

expect 1 wrong examples/ddp_counts_ignored.py
expect 0 right examples/ddp_counts_weighted.py
echo "demo: the wrong job is named (exit code 1), the repaired one is right (exit code 0)"

#!/usr/bin/env bash
# Prints the commands that README.md shows: the content of its ```sh blocks, in order. CI runs them.
set -euo pipefail
awk '/^```sh$/ { inside = 1; next } /^```$/ { inside = 0 } inside' "$(dirname "$0")/../README.md"

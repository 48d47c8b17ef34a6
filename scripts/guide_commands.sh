#!/usr/bin/env bash
# Prints the commands of README.md and of the guide: the content of their ```sh blocks, in order. CI runs them from the
# root of the repository. The pages of the guide are taken in the order of docs/src/SUMMARY.md.
#
#   bash -euo pipefail -x <(scripts/guide_commands.sh)
#
# The commands of a file run in a subshell, so that a variable that one page exports does not change the next page.
set -euo pipefail
cd "$(dirname "$0")/.."

commands() {
    awk '/^```sh$/ { inside = 1; next } /^```$/ { inside = 0 } inside' "$1"
}

pages=$(grep -o '(.*\.md)' docs/src/SUMMARY.md | tr -d '()')
for file in README.md $(printf 'docs/src/%s\n' $pages); do
    found=$(commands "$file")
    if [ -n "$found" ]; then
        printf 'echo "commands of %s" >&2\n(\n%s\n)\n' "$file" "$found"
    fi
done

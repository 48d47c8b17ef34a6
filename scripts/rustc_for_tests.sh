#!/usr/bin/env bash
# A RUSTC_WRAPPER that compiles tests, and crates with their unit tests, without optimizations: the compiler then takes a
# seventh of the time for some. Other builds of libraries and programs are as before. Overflow is unchecked, as in a release.
rustc=$1
shift
for argument; do
    if [ "$argument" = --test ]; then
        set -- "$@" -C opt-level=0 -C debug-assertions=off -C overflow-checks=off
        break
    fi
done
exec "$rustc" "$@"

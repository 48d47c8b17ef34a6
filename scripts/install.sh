#!/bin/sh
# Installs the programs of this folder, which scripts/make_release.sh has packed:
#
#   ./install.sh [--all-names] [PREFIX]     default: /usr/local for root, else ~/.local
#
# PREFIX/bin gets the program `edgecut`, and with --all-names also links named `train`, `partition-graph`, `launch` and
# `sampling-server`. Uninstall; with --all-names also remove the links:
#
#   cd PREFIX && rm -r bin/edgecut lib/edgecut share/man/man1/edgecut* share/bash-completion/completions/edgecut \
#       share/zsh/site-functions/_edgecut share/fish/vendor_completions.d/edgecut.fish
#   rm bin/train bin/partition-graph bin/launch bin/sampling-server
set -eu
usage() { echo "usage: install.sh [--all-names] [PREFIX]" >&2; exit 2; }
all_names=
prefix=
for word in "$@"; do
    case "$word" in
        --all-names) all_names=yes ;;
        -* | "") usage ;;
        *) [ -z "$prefix" ] || usage; prefix=$word ;;
    esac
done
if [ -n "$prefix" ]; then :; elif [ "$(id -u)" = 0 ]; then prefix=/usr/local; else prefix=$HOME/.local; fi
# The path starts where the caller is.
case "$prefix" in /*) ;; *) prefix=$PWD/$prefix ;; esac
cd "$(dirname "$0")"

sha256sum --check --quiet SHA256SUMS || { echo "error: the files are damaged: unpack the tarball again" >&2; exit 1; }
# The dynamic linker tells that the C library of this machine is too old.
bin/edgecut --version >/dev/null || { echo "error: the programs do not run on this machine" >&2; exit 1; }
if [ -n "$all_names" ]; then
    for file in lib/edgecut/*; do
        name=$prefix/bin/${file##*/}
        if [ "$(readlink "$name")" != "../$file" ] && { [ -e "$name" ] || [ -L "$name" ]; }; then
            echo "error: $name exists and is not Edgecut's: remove it, or install without --all-names" >&2
            exit 1
        fi
    done
fi
man=share/man/man1
bash=share/bash-completion/completions
zsh=share/zsh/site-functions
fish=share/fish/vendor_completions.d
for folder in bin lib/edgecut $man $bash $zsh $fish; do mkdir -p "$prefix/$folder"; done
# A program that runs cannot be written, but a new file takes its name.
for file in bin/edgecut lib/edgecut/* $man/*; do
    cp "$file" "$prefix/$file.new"
    mv "$prefix/$file.new" "$prefix/$file"
done
cp share/completions/edgecut.bash "$prefix/$bash/edgecut"
cp share/completions/edgecut.zsh "$prefix/$zsh/_edgecut"
cp share/completions/edgecut.fish "$prefix/$fish/edgecut.fish"
if [ -n "$all_names" ]; then
    for file in lib/edgecut/*; do ln -sf "../$file" "$prefix/bin/${file##*/}"; done
fi
"$prefix/bin/edgecut" --version
case ":$PATH:" in
    *":$prefix/bin:"*) ;;
    *) echo "add $prefix/bin to PATH: export PATH=$prefix/bin:\$PATH" ;;
esac

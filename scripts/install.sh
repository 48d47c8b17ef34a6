#!/bin/sh
# Installs the programs of this folder, which scripts/make_release.sh has packed:
#
#   ./install.sh [--all-names] [PREFIX]     default: /usr/local for root, else ~/.local
#
# PREFIX/bin gets the program `edgecut`, and with --all-names also `train`, `partition-graph`, `launch` and
# `sampling-server`. Uninstall: rm -r PREFIX/bin/edgecut PREFIX/lib/edgecut PREFIX/share/man/man1/edgecut*
set -eu
cd "$(dirname "$0")"
all_names=
if [ "${1:-}" = --all-names ]; then
    all_names=yes
    shift
fi
case "${1:-}" in
    -*) echo "usage: install.sh [--all-names] [PREFIX]" >&2; exit 2 ;;
esac
if [ $# -gt 0 ]; then prefix=$1; elif [ "$(id -u)" = 0 ]; then prefix=/usr/local; else prefix=$HOME/.local; fi

sha256sum --check --quiet SHA256SUMS || { echo "error: the files are damaged: unpack the tarball again" >&2; exit 1; }
# The dynamic linker tells that the C library of this machine is too old.
bin/edgecut --version >/dev/null || { echo "error: the programs do not run on this machine" >&2; exit 1; }
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

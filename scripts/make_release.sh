#!/usr/bin/env bash
# Makes a tarball of the programs with an install script, and its SHA-256 sum:
#
#   scripts/make_release.sh [FOLDER]            default: target/release-files
#   scripts/make_release.sh --programs FOLDER   only the programs; prints the environment of the build, as the Python
#                                               package needs it
#   scripts/make_release.sh --check [--glibc VERSION] FILE...
#                                               only print the glibc that programs need; an error if it is newer than VERSION
#
# The programs run on every x86-64 or AArch64 CPU and choose faster instructions when they start. With Zig as the C
# compiler and linker (`zig`, or `python3 -m ziglang` after `pip install ziglang`), they run with glibc 2.17 or newer.
# Without it they need the glibc of this machine, or an older one whose symbols suffice. The output says which.
#
# The archive of the same programs always has the same bytes. ZIG= (empty) builds without Zig.
# EDGECUT_PROGRAMS names a folder with programs that are built already, which are packed as they are, for a test.
set -euo pipefail
usage() { echo "usage: make_release.sh [FOLDER] | --programs FOLDER | --check [--glibc VERSION] FILE..." >&2; exit 2; }
action=pack
limit=
case "${1:-}" in
    --check | --programs) action=${1#--}; shift ;;
esac
if [ "$action" = check ] && [ "${1:-}" = --glibc ]; then
    [ $# -gt 1 ] || usage
    limit=$2
    shift 2
fi
# Paths start where the caller is.
paths=()
for path in "$@"; do
    case "$path" in -* | "") usage ;; esac
    paths+=("$(realpath --canonicalize-missing --no-symlinks "$path")")
done
case "$action" in
    check) [ ${#paths[@]} -gt 0 ] || usage ;;
    programs) [ ${#paths[@]} = 1 ] || usage ;;
    pack) [ ${#paths[@]} -le 1 ] || usage ;;
esac
[ -z "${EDGECUT_PROGRAMS:-}" ] || EDGECUT_PROGRAMS=$(realpath --canonicalize-existing "$EDGECUT_PROGRAMS")
[ -z "${CARGO_TARGET_DIR:-}" ] || CARGO_TARGET_DIR=$(realpath --canonicalize-missing "$CARGO_TARGET_DIR")
cd "$(dirname "$0")/.."
root=$PWD
programs=(edgecut train partition-graph launch sampling-server)
packages=(-p edgecut-command -p edgecut-train -p edgecut-partition-graph -p edgecut-launch -p edgecut-server)
oldest_glibc=2.17

# Prints the newest glibc version whose symbols the files need, nothing if they need none.
glibc_of() { objdump --dynamic-syms "$@" | sed -n 's/.*GLIBC_\([0-9][0-9.]*\).*/\1/p' | sort --unique --version-sort | tail -1; }

# Prints what the files need. An error if that is a glibc newer than `limit`, unless it is empty.
check() {
    local needed
    needed=$(glibc_of "$@")
    if [ -z "$needed" ]; then
        echo "the programs need no glibc"
        return
    fi
    echo "the programs need glibc $needed or newer, and: $(objdump --private-headers "$@" | awk '/NEEDED/ { print $2 }' | sort -u | tr '\n' ' ')"
    if [ -n "$limit" ] && [ "$(printf '%s\n' "$needed" "$limit" | sort --version-sort | tail -1)" != "$limit" ]; then
        echo "error: a symbol of glibc $needed is used, newer than $limit" >&2
        exit 1
    fi
}

if [ "$action" = check ]; then
    check "${paths[@]}"
    exit
fi

[ -z "${EDGECUT_PROGRAMS:-}" ] || ZIG=
zig=${ZIG-$(command -v zig || { python3 -c 'import ziglang' 2>/dev/null && echo "python3 -m ziglang"; } || true)}
host=$(rustc --version --verbose | awk '/^host:/ { print $2 }')
[ -z "$zig" ] || limit=$oldest_glibc
target_dir=${CARGO_TARGET_DIR:-$root/target}/release-build
cargo_home=${CARGO_HOME:-$HOME/.cargo}
tools=$target_dir/tools
mkdir -p "$tools"

# Both compilers of programs get the flags here, so cargo does not see them: its names of crates, which are parts of
# symbols, would depend on the folder. RUSTFLAGS, which is set and empty, replaces flags of any configuration, such as
# target-cpu=native.
remapped=("$target_dir=/target" "$root=/edgecut" "$cargo_home=/cargo")
printf '#!/usr/bin/env bash\nexec "$@" %s\n' "$(printf -- ' --remap-path-prefix=%q' "${remapped[@]}")" >"$tools/rustc-wrapper"
chmod +x "$tools/rustc-wrapper"
export RUSTC_WRAPPER=$tools/rustc-wrapper RUSTFLAGS=
CFLAGS=$(printf -- '-ffile-prefix-map=%s ' "${remapped[@]}")
export CFLAGS
if [ -n "${EDGECUT_PROGRAMS:-}" ]; then
    echo "packing the programs in $EDGECUT_PROGRAMS"
elif [ -n "$zig" ]; then
    # Zig's own names of targets have the version of glibc. The flag of crates for the target would contradict it.
    cat >"$tools/cc" <<END
#!/usr/bin/env bash
kept=()
for word in "\$@"; do
    case "\$word" in --target=*) ;; *) kept+=("\$word") ;; esac
done
exec $zig cc -target ${host%%-*}-linux-gnu.$oldest_glibc -fno-sanitize=undefined "\${kept[@]}"
END
    chmod +x "$tools/cc"
    export PATH=$tools:$PATH
    echo "linking for glibc $oldest_glibc with $($zig version | sed 's/^/Zig /')"
else
    rm -f "$tools/cc"
    echo "linking for the glibc of this machine with $(cc --version | head -1)"
fi
# A commit with changes, which new files are too, is no commit.
EDGECUT_COMMIT=$(git rev-parse HEAD 2>/dev/null || true)
[ -z "$EDGECUT_COMMIT" ] || [ -z "$(git status --porcelain)" ] || EDGECUT_COMMIT="${EDGECUT_COMMIT:0:12} with changes"
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
export EDGECUT_COMMIT SOURCE_DATE_EPOCH
if [ -n "${EDGECUT_PROGRAMS:-}" ]; then
    folder=$EDGECUT_PROGRAMS
else
    folder=$target_dir/release
    CARGO_PROFILE_RELEASE_STRIP=symbols CARGO_PROFILE_RELEASE_INCREMENTAL=false CARGO_TARGET_DIR=$target_dir \
        cargo build --release --locked --bins "${packages[@]}"
fi
built=("${programs[@]/#/$folder/}")
check "${built[@]}"

if [ "$action" = programs ]; then
    mkdir -p "${paths[0]}"
    install --target-directory "${paths[0]}" "${built[@]}"
    # The environment of the build, for a build of the Python module.
    for name in PATH RUSTC_WRAPPER RUSTFLAGS CFLAGS EDGECUT_COMMIT SOURCE_DATE_EPOCH; do
        echo "export $name=${!name}"
    done
    echo "export CARGO_TARGET_DIR=$target_dir"
    echo "export CARGO_PROFILE_RELEASE_INCREMENTAL=false"
    exit
fi

out=${paths[0]:-$root/target/release-files}
version=$("$folder/edgecut" --version | cut -d' ' -f2)
name=edgecut-$version-$host
stage=$target_dir/stage
rm -rf "${stage:?}"
mkdir -p "$stage/$name/bin" "$stage/$name/lib/edgecut" "$stage/$name/share/completions" "$out"
install --target-directory "$stage/$name/bin" "${built[0]}"
install --target-directory "$stage/$name/lib/edgecut" "${built[@]:1}"
install --mode 644 --target-directory "$stage/$name" LICENSE-MIT LICENSE-APACHE
install scripts/install.sh "$stage/$name/install.sh"
"$folder/edgecut" man "$stage/$name/share/man/man1"
for shell in bash zsh fish; do
    "$folder/edgecut" completions $shell >"$stage/$name/share/completions/edgecut.$shell"
done
(cd "$stage/$name" && find . -type f ! -name SHA256SUMS | sort | xargs sha256sum >SHA256SUMS)
tar --create --directory "$stage" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
    --mode=u=rwX,go=rX "$name" | gzip --no-name --best >"$out/$name.tar.gz"
(cd "$out" && sha256sum "$name.tar.gz" | tee "$name.tar.gz.sha256")

#!/usr/bin/env bash
# Installs Edgecut in a bare Debian, without Rust and a compiler, and goes from two tables to predictions there:
#
#   scripts/bare_root.sh FILE [SUITE]
#
# FILE is an archive of make_release.sh or a wheel of `pip wheel ./python`. SUITE is a release of Debian; the default is the
# release of this machine. It prints the commands with their seconds. It needs root, debootstrap and Debian's packages.
# BARE_ROOT names a folder that debootstrap has made already; it is copied first.
set -euo pipefail
[ $# -ge 1 ] && [ $# -le 2 ] || { echo "usage: bare_root.sh FILE [SUITE]" >&2; exit 2; }
file=$(realpath --canonicalize-existing "$1")
suite=${2:-$(. /etc/os-release && echo "$VERSION_CODENAME")}
command -v debootstrap >/dev/null || [ -n "${BARE_ROOT:-}" ] || {
    echo "error: debootstrap is missing: apt-get install debootstrap" >&2
    exit 1
}
folder=$(mktemp --directory)
root=$folder/root
clean_up() {
    umount "$root/proc" "$root/dev/shm" 2>/dev/null || true
    # Nothing of this machine may be mounted below a folder that is removed.
    if ! grep --quiet " $root/" /proc/mounts; then rm -rf "$folder"; fi
}
trap clean_up EXIT
more=
case "$file" in *.whl) more=--include=python3,python3-pip,python3-venv ;; esac
if [ -n "${BARE_ROOT:-}" ]; then
    cp --archive "$BARE_ROOT" "$root"
else
    debootstrap --variant=minbase $more "$suite" "$root" >"$folder/debootstrap.log" || {
        tail -20 "$folder/debootstrap.log" >&2
        exit 1
    }
fi
mountpoint --quiet "$root/proc" || mount -t proc proc "$root/proc"
mkdir -p "$root/dev/shm" "$root/work"
mountpoint --quiet "$root/dev/shm" || mount -t tmpfs tmpfs "$root/dev/shm"
cp "$file" "$root/work/"

cat >"$root/work/run.sh" <<'END'
set -eu
cd /work
for tool in rustc cargo cc gcc; do
    if command -v $tool >/dev/null; then echo "error: the root is not bare: it has $tool" >&2; exit 1; fi
done
case "$1" in
    *.whl)
        python3 -m venv /work/venv
        /work/venv/bin/python -m pip install --quiet --no-index --no-deps "$1"
        PATH=/work/venv/bin:$PATH
        ;;
    *)
        tar xf "$1"
        edgecut-*/install.sh /usr/local
        ;;
esac
export PATH
edgecut --version
# People in three groups, who mostly know people of their own group. The group of some is not known.
awk 'BEGIN {
    srand(1); print "id,age,group" >"people.csv"; print "from,to" >"knows.csv"
    for (n = 0; n < 1500; n++) {
        group = n % 3
        printf "p%d,%d,%s\n", n, 20 + 15 * group + int(rand() * 15), (rand() < 0.7) ? substr("abc", group + 1, 1) : "" >"people.csv"
        for (k = 0; k < 3; k++) {
            other = int(rand() * 500) * 3 + ((rand() < 0.8) ? group : int(rand() * 3))
            if (other != n) printf "p%d,p%d\n", n, other >"knows.csv"
        }
    }
}'
cat >graph.yaml <<'YAML'
version: gconstruct-v0.1
nodes:
  - node_type: person
    format: {name: csv}
    files: people.csv
    node_id_col: id
    features:
      - {feature_col: age, transform: {name: z_score}}
    labels:
      - {label_col: group, task_type: classification, split_pct: [0.6, 0.2, 0.2]}
edges:
  - relation: [person, knows, person]
    format: {name: csv}
    files: knows.csv
    source_id_col: from
    dest_id_col: to
YAML
start=$(date +%s.%N)
step() {
    echo "[$(echo "$start $(date +%s.%N)" | awk '{ printf "%5.1f", $2 - $1 }') s] \$ $*"
    "$@"
}
step edgecut partition --conf graph.yaml --dataset people --num-partitions 2 --to-undirected
parts=data/partitions/people/2-parts
step edgecut train node --dataset-root-dir $parts --nproc-per-node 2 --num-neighbors 15,10 \
    --num-epochs 10 --lr 0.01 --save-model model.safetensors
step edgecut predict --dataset-root-dir $parts --load-model model.safetensors --format csv --out predictions >said
cat said
accuracy=$(sed -n 's/.*test \([0-9]*\)\.[0-9]* %.*/\1/p' said)
[ "$accuracy" -ge 60 ] || { echo "error: a test accuracy of $accuracy %, expected at least 60 %" >&2; exit 1; }
step head -n 4 predictions/predictions-00000-of-00001.csv
rows=$(wc -l <predictions/predictions-00000-of-00001.csv)
[ "$rows" = 1501 ] || { echo "error: $rows lines of predictions, expected 1501" >&2; exit 1; }
step edgecut verify $parts
END
seconds=$SECONDS
chroot "$root" /usr/bin/env --ignore-environment PATH=/usr/local/bin:/usr/bin:/bin HOME=/root sh /work/run.sh "/work/${file##*/}"
echo "$(. "$root/etc/os-release" && echo "$PRETTY_NAME"): ${file##*/} was installed and used in $((SECONDS - seconds)) s"

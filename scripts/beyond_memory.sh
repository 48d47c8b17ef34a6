#!/bin/sh
# Generates a graph, and partitions it within a limit of memory, in a cgroup of about the same size.
#
#   scripts/beyond_memory.sh FOLDER NODES DEGREE FEATURES LIMIT [FLAGS...]
#   scripts/beyond_memory.sh /data/large 5000000 16 32 512MiB --method ldg
#   PARTS=2 TRAIN=3072MiB scripts/beyond_memory.sh /data/large 5000000 16 32 512MiB
#
# Build the programs first: cargo build --release --bins && cargo build --release --example generate_npy
# LIMIT has the unit MiB. FLAGS are flags of partition-graph. The cgroup has an eighth more memory than LIMIT, which it
# shares with the page cache. PARTS is the number of parts, 4 by default. With TRAIN, a process per part then trains for two
# epochs in a cgroup of that size of its own. Without root or a writable memory cgroup, the program runs outside of a cgroup, and
# `peak_anonymous_bytes` of its output shows its memory.
set -eu
folder=$1 nodes=$2 degree=$3 features=$4 limit=$5
shift 5
mebibytes=${limit%MiB}
bin=${CARGO_TARGET_DIR:-target}/release
if [ ! -e "$folder/graph/edge_index.npy" ]; then
    mkdir -p "$folder"
    time "$bin/examples/generate_npy" "$folder/graph" --avg-num-nodes "$nodes" --avg-degree "$degree" \
        --num-channels "$features" --train-fraction 0.001 --valid-fraction 0.0002 --scratch-dir "$folder"
    # Almost all nodes are in the test, which would take hours.
    rm -f "$folder/graph/test_idx.npy"
fi
# Prints a cgroup of $1 bytes of memory, with the name $2, or nothing if there is no writable memory cgroup.
make_cgroup() {
    for root in /sys/fs/cgroup/memory /sys/fs/cgroup; do
        mkdir "$root/$2" 2>/dev/null || continue
        if echo "$1" >"$root/$2/memory.limit_in_bytes" 2>/dev/null || echo "$1" >"$root/$2/memory.max" 2>/dev/null; then
            echo "$root/$2"
            return
        fi
        rmdir "$root/$2"
    done
    echo "no writable memory cgroup: running without" >&2
}

# Runs a command in the cgroup $1, if it is not empty.
run_in() {
    sh -c 'if [ -n "$1" ]; then echo $$ >"$1/cgroup.procs"; fi; shift; exec "$@"' sh "$@"
}

# Prints the largest memory of a cgroup, and removes it.
end_cgroup() {
    [ -n "$1" ] || return 0
    for file in memory.max_usage_in_bytes memory.peak; do
        [ ! -e "$1/$file" ] || echo "largest memory of the cgroup, with the page cache: $(cat "$1/$file") bytes" >&2
    done
    rmdir "$1"
}

group=$(make_cgroup $((mebibytes * 1048576 / 8 * 9)) "edgecut-$$")
set -- --dataset graph --dataset-dir "$folder/graph" --output-dir "$folder/parts" --overwrite --num-partitions "${PARTS:-4}" \
    --memory-limit "$limit" --scratch-dir "$folder/scratch" "$@"
"$bin/partition-graph" "$@" --plan
run_in "$group" "$bin/partition-graph" "$@" --json
end_cgroup "$group"
[ -n "${TRAIN:-}" ] || exit 0
rank=0
groups=
trainers=
while [ $rank -lt "${PARTS:-4}" ]; do
    group=$(make_cgroup $((${TRAIN%MiB} * 1048576)) "edgecut-$$-$rank")
    groups="$groups $group"
    run_in "$group" env RANK=$rank WORLD_SIZE="${PARTS:-4}" MASTER_ADDR=127.0.0.1 "$bin/train" node \
        --dataset-root-dir "$folder/parts" --num-neighbors 15,10,5 --batch-size 1024 --num-epochs 2 --num-threads 1 \
        --num-workers 1 &
    trainers="$trainers $!"
    rank=$((rank + 1))
done
failed=0
for trainer in $trainers; do
    wait "$trainer" || failed=1
done
for group in $groups; do
    end_cgroup "$group"
done
exit $failed

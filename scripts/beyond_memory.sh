#!/bin/sh
# Generates a graph, and partitions it within a limit of memory, in a cgroup of about the same size.
#
#   scripts/beyond_memory.sh FOLDER NODES DEGREE FEATURES LIMIT [FLAGS...]
#   scripts/beyond_memory.sh /data/large 5000000 16 32 512MiB --method ldg
#
# Build the programs first: cargo build --release --bins && cargo build --release -p edgecut-graph --example generate_npy
# LIMIT has the unit MiB. FLAGS are flags of partition-graph. The cgroup has an eighth more memory than LIMIT, which it
# shares with the page cache. Without root or a writable memory cgroup, the program runs outside of a cgroup, and
# `peak_anonymous_bytes` of its output shows its memory.
set -eu
folder=$1 nodes=$2 degree=$3 features=$4 limit=$5
shift 5
mebibytes=${limit%MiB}
bin=${CARGO_TARGET_DIR:-target}/release
if [ ! -e "$folder/graph/edge_index.npy" ]; then
    mkdir -p "$folder"
    time "$bin/examples/generate_npy" "$folder/graph" --avg-num-nodes "$nodes" --avg-degree "$degree" \
        --num-channels "$features" --scratch-dir "$folder"
fi
bytes=$((mebibytes * 1048576 / 8 * 9))
for root in /sys/fs/cgroup/memory /sys/fs/cgroup; do
    group=$root/edgecut-$$
    mkdir "$group" 2>/dev/null || continue
    if echo "$bytes" >"$group/memory.limit_in_bytes" 2>/dev/null || echo "$bytes" >"$group/memory.max" 2>/dev/null; then
        break
    fi
    rmdir "$group"
done
[ -d "$group" ] || { echo "no writable memory cgroup: running without" >&2; group=; }
set -- --dataset graph --dataset-dir "$folder/graph" --output-dir "$folder/parts" --overwrite --num-partitions 4 \
    --memory-limit "$limit" --scratch-dir "$folder/scratch" "$@"
"$bin/partition-graph" "$@" --plan
sh -c 'if [ -n "$1" ]; then echo $$ >"$1/cgroup.procs"; fi; shift; exec "$@"' sh "$group" "$bin/partition-graph" "$@" --json
if [ -n "$group" ]; then
    for file in memory.max_usage_in_bytes memory.peak; do
        [ ! -e "$group/$file" ] || echo "largest memory of the cgroup, with the page cache: $(cat "$group/$file") bytes" >&2
    done
    rmdir "$group"
fi

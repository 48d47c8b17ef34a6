#!/usr/bin/env bash
# Trains with the graph on servers, all on this machine: starts the servers, then the trainers, and ends the servers.
#
#   scripts/run_server_client.sh             build, generate a graph, partition it in two, start two servers, and train
#                                            with two processes
#   scripts/run_server_client.sh FLAGS...    the same with these flags of `train node` instead of the default ones
#
# Variables: DATASET_ROOT_DIR (the N-parts folder; one server per part), NPROC_PER_NODE (trainers, 2), SERVER_PORT (the
# port of the first server, 29600; the others follow). EDGECUT_BIN names a folder with the built programs; without it
# they are built first. Ctrl-C ends every process that it started.
#
# On a cluster, start `sampling-server` and `train` on their own nodes (docs/src/servers.md).
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)

if [ -n "${EDGECUT_BIN:-}" ]; then
    bin=$EDGECUT_BIN
else
    (cd "$here" && cargo build --release --workspace --bin partition-graph --bin sampling-server --bin train)
    bin=${CARGO_TARGET_DIR:-$here/target}/release
fi

if [ -z "${DATASET_ROOT_DIR:-}" ]; then
    DATASET_ROOT_DIR=$here/data/partitions/fake/2-parts
    "$bin/partition-graph" --dataset fake --root-dir "$here/data" --num-partitions 2 --overwrite
fi
parts=("$DATASET_ROOT_DIR"/part_*/)
if [ ! -d "${parts[0]}" ]; then
    echo "error: $DATASET_ROOT_DIR has no part_0: give the N-parts folder that partition-graph wrote" >&2
    exit 2
fi

port=${SERVER_PORT:-29600}
list=()
for number in "${!parts[@]}"; do
    list+=("127.0.0.1:$((port + number))")
done
EDGECUT_SERVERS=$(IFS=,; echo "${list[*]}")
export EDGECUT_SERVERS

servers=()
end_servers() {
    [ ${#servers[@]} -eq 0 ] && return
    kill "${servers[@]}" 2>/dev/null || true
    wait "${servers[@]}" 2>/dev/null || true
}
trap end_servers EXIT
for number in "${!parts[@]}"; do
    "$bin/sampling-server" --dataset-root-dir "$DATASET_ROOT_DIR" --server-rank "$number" &
    servers+=($!)
done

if [ $# -eq 0 ]; then
    set -- --model sage --hidden-channels 64 --num-neighbors 10,5 --batch-size 64 --num-epochs 20 --lr 0.005
fi
# `train` waits until the servers listen.
"$bin/train" node --nproc-per-node "${NPROC_PER_NODE:-2}" "$@"

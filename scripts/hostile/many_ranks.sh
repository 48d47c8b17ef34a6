#!/usr/bin/env bash
# Trains several jobs, each with many processes that all connect at once while other programs keep every core busy.
# Fails at the first job that fails.
#
#   scripts/hostile/many_ranks.sh [JOBS]      the number of jobs, 3 by default
#
# RANKS is the number of processes, 32 by default. EDGECUT_BIN names a folder with the built programs; without it they
# are built first. Parts and logs go to a temporary folder, which is kept if a job fails.
set -euo pipefail

here=$(cd "$(dirname "$0")/../.." && pwd)
jobs=${1:-3}
ranks=${RANKS:-32}
if [ -z "${EDGECUT_BIN:-}" ]; then
    (cd "$here" && cargo build --release --bin partition-graph --bin train)
    EDGECUT_BIN=${CARGO_TARGET_DIR:-$here/target}/release
fi
work=$(mktemp -d)
busy=()
failed=1

finish() {
    for pid in "${busy[@]}"; do
        kill "$pid" 2>/dev/null || true
    done
    if [ "$failed" -eq 0 ]; then
        rm -rf "$work"
    else
        echo "failed: logs are in $work" >&2
    fi
}
trap finish EXIT

"$EDGECUT_BIN/partition-graph" --dataset fake --root-dir "$work" --avg-num-nodes 20000 --avg-degree 10 --method random \
    --num-partitions "$ranks" >"$work/partition.log"
for _ in $(seq $((2 * $(nproc)))); do
    (while :; do :; done) &
    busy+=($!)
done
for job in $(seq "$jobs"); do
    "$EDGECUT_BIN/train" node --dataset-root-dir "$work/partitions/fake/$ranks-parts" --nproc-per-node "$ranks" \
        --num-neighbors 3,3 --hidden-channels 8 --batch-size 64 --num-epochs 1 --num-workers 1 --num-threads 1 \
        --rendezvous-timeout 600 --rpc-timeout 300 >"$work/job-$job.log" 2>&1
    echo "job $job of $jobs: $ranks ranks trained"
done
failed=0

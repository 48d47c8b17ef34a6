#!/usr/bin/env bash
# Trains on one node of a job, starts a whole job, or, without arguments, runs all steps on this machine.
#
#   scripts/run_dist.sh                       build, generate a graph, partition it in two, train with two processes
#   scripts/run_dist.sh FLAGS...              run this node; the flags are those of `train node`
#   NUM_NODES=2 NODE_RANK=0 ... run_dist.sh   the same with variables; each sets the flag of its name
#   IP_CONFIG=ip_config.yaml ... run_dist.sh  without NODE_RANK: run all nodes of that file with `launch`
#
# Variables: DATASET_ROOT_DIR (or DATASET: data/partitions/DATASET/NUM_NODES-parts) NUM_NODES NODE_RANK NPROC_PER_NODE
# MASTER_ADDR MASTER_PORT (or DDP_PORT) IP_CONFIG TOKEN_FILE MODEL HIDDEN_CHANNELS NUM_NEIGHBORS EVAL_NUM_NEIGHBORS
# BATCH_SIZE NUM_EPOCHS LR WEIGHT_DECAY DROPOUT SEED CONCURRENCY NUM_WORKERS METRICS SAVE_MODEL; for `launch` also
# WORKSPACE SSH_PORT SSH_USERNAME LOG_DIR. EDGECUT_TOKEN holds the job's shared secret; `launch` generates one.
# EDGECUT_BIN names a folder with the built programs; without it they are built first.
# Ctrl-C ends every process that it started.
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)

if [ -n "${EDGECUT_BIN:-}" ]; then
    bin=$EDGECUT_BIN
else
    (cd "$here" && cargo build --release --workspace --bin partition-graph --bin train --bin launch)
    bin=${CARGO_TARGET_DIR:-$here/target}/release
fi

if [ -n "${DATASET:-}" ] && [ -z "${DATASET_ROOT_DIR:-}" ]; then
    if [ -n "${IP_CONFIG:-}" ] && [ -z "${NUM_NODES:-}" ]; then
        echo "error: DATASET needs NUM_NODES beside IP_CONFIG, or give DATASET_ROOT_DIR" >&2
        exit 2
    fi
    DATASET_ROOT_DIR=data/partitions/$DATASET/${NUM_NODES:-1}-parts
fi
: "${MASTER_PORT:=${DDP_PORT:-}}"

# Sets `flags` to the flags for those of the named variables that are set.
flags_of() {
    local name flag
    flags=()
    for name in "$@"; do
        if [ -n "${!name:-}" ]; then
            flag=${name//_/-}
            flags+=("--${flag,,}" "${!name}")
        fi
    done
}

training=(DATASET_ROOT_DIR MODEL HIDDEN_CHANNELS NUM_NEIGHBORS EVAL_NUM_NEIGHBORS BATCH_SIZE NUM_EPOCHS LR WEIGHT_DECAY
    DROPOUT SEED CONCURRENCY NUM_WORKERS METRICS SAVE_MODEL)

if [ -n "${IP_CONFIG:-}" ] && [ -z "${NODE_RANK:-}" ]; then
    flags_of IP_CONFIG NUM_NODES NPROC_PER_NODE MASTER_ADDR MASTER_PORT WORKSPACE SSH_PORT SSH_USERNAME LOG_DIR
    launch=("${flags[@]}")
    flags_of "${training[@]}"
    exec "$bin/launch" "${launch[@]}" --sync-binary --copy-parts -- "$bin/train" node ${flags[@]+"${flags[@]}"} "$@"
fi

flags_of "${training[@]}" NUM_NODES NODE_RANK NPROC_PER_NODE MASTER_ADDR MASTER_PORT IP_CONFIG TOKEN_FILE
if [ $# -gt 0 ] || [ ${#flags[@]} -gt 0 ]; then
    exec "$bin/train" node ${flags[@]+"${flags[@]}"} "$@"
fi

data=$here/data
parts=$data/partitions/fake/2-parts
"$bin/partition-graph" --dataset fake --root-dir "$data" --num-partitions 2 --overwrite
exec "$bin/train" node --dataset-root-dir "$parts" --nproc-per-node 2 --model sage --hidden-channels 64 \
    --num-neighbors 10,5 --batch-size 64 --num-epochs 20 --lr 0.005 --metrics "$data/metrics.jsonl" \
    --save-model "$data/model.safetensors"

#!/usr/bin/env bash
# The checks of a machine with an NVIDIA GPU, with one summary: the kernels against the CPU's, bandwidth, accuracy, and
# epoch times on the CPU and on the GPU.
#
#   scripts/gpu.sh DATA [RESULTS]
#
# DATA is the folder with the datasets cora and amazon-photo (see scripts/accuracy.sh). RESULTS is the output folder,
# gpu-results by default. PyG is timed too if python3 has torch_geometric and torch sees the GPU.
set -euo pipefail
cd "$(dirname "$0")/.."
data=${1:?usage: scripts/gpu.sh DATA [RESULTS]}
results=${2:-gpu-results}
mkdir -p "$results"

say() { printf '\n== %s\n' "$1" | tee -a "$results/summary.txt"; }
keep() { tee -a "$results/summary.txt"; }

cargo build --release --locked -p edgecut-partition-graph
cargo build --release --locked -p edgecut-train --features cuda
train=target/release/train

say "kernels and whole runs against the CPU"
EDGECUT_REQUIRE=1 EDGECUT_MAY_LACK=data,torch cargo test --locked -p edgecut-gpu -p edgecut-gnn -p edgecut-trainer -p edgecut-train --features edgecut-train/cuda \
    --test gpu --test sampling --test features 2>&1 | keep

say "bandwidth of the aggregation against a copy (goal: 0.60)"
cargo run --release --locked -p edgecut-gpu --features cuda --example aggregation_bandwidth 2>&1 | keep

say "accuracy on the CPU and on the GPU"
for device in cpu cuda; do
    echo "$device" | keep
    RANKS=1 TRAIN_FLAGS="--device $device" EDGECUT_BIN=target/release scripts/accuracy.sh "$data" cora amazon-photo | keep
done

say "epochs of the generated graph with 600,000 nodes: GraphSAGE, 256 hidden, fan-outs 15,10,5, batches of 1024"
graph="$results/fake-600k"
[ -e "$graph/META.json" ] || target/release/partition-graph --dataset fake --num-partitions 1 --avg-num-nodes 600000 \
    --num-channels 100 --output-dir "$graph"
epochs() {
    local name=$1
    shift
    "$train" node --dataset-root-dir "$graph" --num-neighbors 15,10,5 --hidden-channels 256 --batch-size 1024 \
        --num-epochs 5 --metrics "$results/$name.jsonl" "$@" 2>&1 | sed "s/^/$name: /" | keep
}
epochs cpu --device cpu
epochs gpu --device cuda
epochs gpu-bf16 --device cuda --mixed-precision bf16 --feature-precision bf16
epochs gpu-graph --device cuda --graph-on-device --gpu-cache-bytes 4GiB

say "PyG on the same GPU"
if python3 -c 'import torch, torch_geometric; assert torch.cuda.is_available()' 2>/dev/null; then
    python3 benches/peers/pyg_gpu.py "$graph" 2>&1 | keep
else
    echo "not timed: python3 has no torch_geometric, or torch sees no GPU" | keep
fi

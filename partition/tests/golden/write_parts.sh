#!/usr/bin/env bash
# Writes golden parts of both datasets with the program $1 to the folder $2, which must not exist.
set -euo pipefail
program=$(realpath "$1")
cd "$(dirname "$0")"
flags="--num-partitions 2 --method random --seed 7"
"$program" --dataset homogeneous --dataset-dir datasets/homogeneous --output-dir "$2/homogeneous" $flags --hotness in-degree
"$program" --dataset heterogeneous --dataset-dir datasets/heterogeneous --output-dir "$2/heterogeneous" $flags \
    --feature-dtype int8

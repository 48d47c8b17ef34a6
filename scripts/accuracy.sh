#!/usr/bin/env bash
# Test accuracy on real data, with one rank and with two: mean and standard deviation over seeds 0 to 4.
#
#   scripts/accuracy.sh DATA_DIR [SET...]
#
# DATA_DIR holds cora, amazon-photo and citation-dblp in OGB's raw CSV layout. Parts and results go to a temporary folder.
# EDGECUT_BIN names a folder with the built programs; without it they are built first. SEEDS changes the seeds.
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
data=$(cd "$1" && pwd)
shift
sets=${*:-cora amazon-photo citation-dblp}
seeds=${SEEDS:-0 1 2 3 4}
if [ -z "${EDGECUT_BIN:-}" ]; then
    (cd "$here" && cargo build --release --bin partition-graph --bin train)
    EDGECUT_BIN=${CARGO_TARGET_DIR:-$here/target}/release
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Seeds per step over all ranks: so two ranks take the same steps as one, on half the seeds each.
declare -A batch=([cora]=1024 [amazon-photo]=512 [citation-dblp]=512)
declare -A split=([cora]=public [amazon-photo]=random-60-20-20 [citation-dblp]=random-60-20-20)
declare -A flags=(
    [cora]="--model gcn --hidden-channels 16 --num-neighbors=-1,-1 --num-epochs 200 --lr 0.01 --weight-decay 0.0005
            --dropout 0.5 --input-dropout 0.5 --normalize-features"
    [amazon-photo]="--model sage --hidden-channels 128 --num-neighbors 15,10 --eval-num-neighbors=-1,-1
            --num-epochs 20 --lr 0.003 --dropout 0.5"
    [citation-dblp]="--model sage --hidden-channels 128 --num-neighbors 15,10 --eval-num-neighbors=-1,-1
            --num-epochs 8 --lr 0.003 --dropout 0.5"
)

printf '%-15s %5s  %-20s %s\n' set ranks "test accuracy, %" "seconds per run"
for set in $sets; do
    for ranks in 1 2; do
        parts=$work/partitions/$set/$ranks-parts
        "$EDGECUT_BIN/partition-graph" --dataset "$set" --dataset-dir "$data/$set" --root-dir "$work" \
            --num-partitions "$ranks" --split "${split[$set]}" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
        start=$(date +%s.%N)
        for seed in $seeds; do
            # The flags are several words each.
            # shellcheck disable=SC2086
            "$EDGECUT_BIN/train" node --dataset-root-dir "$parts" --nproc-per-node "$ranks" --json --seed "$seed" \
                --batch-size $((${batch[$set]} / ranks)) \
                ${flags[$set]} 2>"$work/log" || { cat "$work/log" >&2; exit 1; }
        done | awk -v set="$set" -v ranks="$ranks" -v start="$start" '
            match($0, /"test_acc":[0-9.]+/) {
                x = 100 * substr($0, RSTART + 11, RLENGTH - 11)
                n++; sum += x; squares += x * x
            }
            END {
                mean = sum / n
                "date +%s.%N" | getline now
                printf "%-15s %5d  %5.2f ± %-11.2f %.1f\n", set, ranks, mean, sqrt(squares / n - mean * mean), (now - start) / n
            }'
    done
done

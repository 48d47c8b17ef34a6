#!/usr/bin/env bash
# Test accuracy on real data with one rank and with two: mean and standard deviation over seeds 0 to 4. For tolokers it
# is the ROC AUC over splits; for the knowledge graph kg-wn18rr the filtered mean reciprocal rank; for the graph
# datasets MUTAG and IMDB-BINARY the accuracy over ten folds, by both protocols of train graph.
#
#   scripts/accuracy.sh DATA_DIR [SET...]
#
# DATA_DIR holds the datasets in OGB's raw CSV layout (cora-gat uses cora, hetero-dblp-hgt uses hetero-dblp), graph
# datasets in tu/, and kg-wn18rr as triples. kg-wn18rr takes long, and runs only if it is named. Parts and results go to a
# temporary folder. EDGECUT_BIN names a folder with the built programs; without it they are built first. SEEDS changes
# the seeds, RANKS the numbers of ranks, and TRAIN_FLAGS adds flags of train (--device cuda).
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
data=$(cd "$1" && pwd)
shift
sets=${*:-cora cora-gat amazon-photo citation-dblp tolokers hetero-dblp hetero-dblp-hgt rdf-aifb MUTAG IMDB-BINARY}
if [ -z "${EDGECUT_BIN:-}" ]; then
    (cd "$here" && cargo build --release --workspace --bin partition-graph --bin train)
    EDGECUT_BIN=${CARGO_TARGET_DIR:-$here/target}/release
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Seeds per step over all ranks, so that two ranks take the same steps as one, on half the seeds each.
declare -A task=([kg-wn18rr]=link [MUTAG]=graph [IMDB-BINARY]=graph)
declare -A batch=([amazon-photo]=512 [citation-dblp]=512 [hetero-dblp]=128 [hetero-dblp-hgt]=128)
declare -A splits=([cora]=public [cora-gat]=public [amazon-photo]=random-60-20-20 [citation-dblp]=random-60-20-20
    [tolokers]="official-0 official-1 official-2" [hetero-dblp]=random-24-6-70
    [hetero-dblp-hgt]=random-24-6-70 [rdf-aifb]=rgcn)
declare -A seeds=([tolokers]=0)
declare -A partition_flags=([rdf-aifb]=--add-reverse-edges [kg-wn18rr]=--add-reverse-edges)
declare -A flags=(
    [cora]="--model gcn --hidden-channels 16 --num-neighbors=-1,-1 --num-epochs 200 --lr 0.01 --weight-decay 0.0005
            --dropout 0.5 --input-dropout 0.5 --normalize-features"
    [cora-gat]="--model gat --heads 8 --hidden-channels 64 --num-neighbors=-1,-1 --num-epochs 200 --lr 0.005
            --weight-decay 0.0005 --dropout 0.6 --input-dropout 0.6 --attention-dropout 0.6 --normalize-features"
    [amazon-photo]="--model sage --hidden-channels 128 --num-neighbors 15,10 --eval-num-neighbors=-1,-1
            --num-epochs 20 --lr 0.003 --dropout 0.5"
    [citation-dblp]="--model sage --hidden-channels 128 --num-neighbors 15,10 --eval-num-neighbors=-1,-1
            --num-epochs 8 --lr 0.003 --dropout 0.5"
    [tolokers]="--model sage --encoder-decoder --residual --layer-norm --hidden-channels 64 --num-neighbors 5,5,5
            --eval-num-neighbors=-1,-1,-1 --num-epochs 40 --eval-every 2 --lr 0.005 --dropout 0.2 --metric roc-auc"
    [hetero-dblp]="--model sage --residual --layer-norm --hidden-channels 64 --num-neighbors=-1,-1 --num-epochs 30
            --lr 0.003 --weight-decay 0.0001 --dropout 0.5 --input-dropout 0.7"
    [hetero-dblp-hgt]="--model hgt --heads 4 --residual --layer-norm --hidden-channels 64
            --num-neighbors=appears_in=0,0;has_term=0,0;-1,-1 --num-epochs 40 --lr 0.005 --lr-schedule cosine
            --label-smoothing 0.1 --weight-decay 0.001 --dropout 0.5 --input-dropout 0.8 --attention-dropout 0.2"
    [rdf-aifb]="--model rgcn --hidden-channels 64 --num-neighbors=-1,-1 --num-epochs 30 --lr 0.01
            --weight-decay 0.0005 --dropout 0.5"
    [kg-wn18rr]="--model embedding --decoder complex --hidden-channels 400 --loss softmax --num-negatives 1000
            --shared-negatives --in-batch-negatives --n3-weight 0.1 --eval-negatives all --num-epochs 8 --eval-every 8
            --lr 0.05 --lr-schedule cosine --dropout 0"
    [MUTAG]="--hidden-channels 32 --num-epochs 100"
    [IMDB-BINARY]="--lr 0.003 --num-epochs 60"
)

# Runs a program, and shows its messages only if it fails.
quietly() {
    "$@" 2>"$work/log" || { cat "$work/log" >&2; exit 1; }
}

# Cross-validates a graph dataset by both protocols.
# shellcheck disable=SC2086
cross_validate() {
    local set=$1 ranks=$2 protocol start
    for protocol in validation best-mean-epoch; do
        start=$(date +%s.%N)
        quietly "$EDGECUT_BIN/train" graph --dataset "$set" --dataset-root-dir "$data/tu" --folds 10 --protocol "$protocol" \
            --nproc-per-node "$ranks" --batch-size $((32 / ranks)) --json ${flags[$set]} ${TRAIN_FLAGS:-} |
            awk -v set="$set" -v ranks="$ranks" -v start="$start" -v protocol="$protocol" '
                function value(name) {
                    if (!match($0, "\"" name "\":[0-9.]+")) exit 1
                    return substr($0, RSTART + length(name) + 3, RLENGTH - length(name) - 3) * 100
                }
                {
                    "date +%s.%N" | getline now
                    printf "%-15s %5d  %5.2f ± %-11.2f %.1f (%s)\n", set, ranks, value("mean"), value("deviation"), now - start, protocol
                }'
    done
}

printf '%-15s %5s  %-20s %s\n' set ranks "test, %" "seconds per run"
# Unquoted: flags, splits and seeds are several words.
# shellcheck disable=SC2086
for set in $sets; do
    # The dataset of a set that is named by its model too.
    dataset=${set%-gat}
    dataset=${dataset%-hgt}
    for ranks in ${RANKS:-1 2}; do
        if [ "${task[$set]:-}" = graph ]; then
            cross_validate "$set" "$ranks"
            continue
        fi
        parts=$work/$set/$ranks-parts
        for split in ${splits[$set]:-all}; do
            quietly "$EDGECUT_BIN/partition-graph" --dataset "$set" --dataset-dir "$data/$dataset" \
                --output-dir "$parts/$split" --num-partitions "$ranks" \
                ${splits[$set]:+--split "$split"} ${partition_flags[$set]:-} >"$work/report"
        done
        start=$(date +%s.%N)
        for split in ${splits[$set]:-all}; do
            for seed in ${SEEDS:-${seeds[$set]:-0 1 2 3 4}}; do
                quietly "$EDGECUT_BIN/train" "${task[$set]:-node}" --dataset-root-dir "$parts/$split" --nproc-per-node "$ranks" --json \
                    --seed "$seed" --batch-size $((${batch[$set]:-1024} / ranks)) ${flags[$set]} ${TRAIN_FLAGS:-}
            done
        done | awk -v set="$set" -v ranks="$ranks" -v start="$start" '
            match($0, /("test_metric":|"test":.*"mrr":)[0-9.]+/) {
                x = substr($0, RSTART, RLENGTH)
                sub(/.*:/, "", x)
                x *= 100
                n++; sum += x; squares += x * x
            }
            END {
                if (!n) exit 1
                mean = sum / n
                variance = squares / n - mean * mean
                deviation = variance > 0 ? sqrt(variance) : 0
                "date +%s.%N" | getline now
                printf "%-15s %5d  %5.2f ± %-11.2f %.1f\n", set, ranks, mean, deviation, (now - start) / n
            }'
    done
done

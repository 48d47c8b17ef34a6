# Jobs of three ranks on a small graph, for the scripts beside this file; they source it.
#
# EDGECUT_BIN names a folder with the built programs [default: target/release].

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
bin=${EDGECUT_BIN:-${CARGO_TARGET_DIR:-$here/target}/release}
ranks=3
# The longest time in which a job has to start, in seconds.
start_within=120

work=$(mktemp -d)
pids=()
failed=0

# Ends all ranks. A suspended process is resumed first, so that it ends as well.
end_ranks() {
    for pid in ${pids[@]+"${pids[@]}"}; do
        kill -CONT "$pid" 2>/dev/null || true
        kill -KILL "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done
    pids=()
}

make_graph() {
    "$bin/partition-graph" --dataset fake --root-dir "$work" --num-partitions $ranks --avg-num-nodes 2000 >/dev/null 2>&1
}

# start_rank RANK MASTER_ADDR WRAPPER...: starts a rank of a job that does not end by itself.
start_rank() {
    local rank=$1 master=$2
    shift 2
    EDGECUT_TOKEN=$token "$@" "$bin/train" node --dataset-root-dir "$work/partitions/fake/$ranks-parts" \
        --num-nodes $ranks --node-rank "$rank" --master-addr "$master" --master-port 29500 --num-neighbors 10,5 \
        --batch-size 32 --num-epochs 1000000 --num-threads 1 --num-workers 1 >"$work/out-$rank" 2>"$work/err-$rank" &
    pids[rank]=$!
}

# Waits until rank 0 has reported an epoch: data flows on all connections.
wait_until_training() {
    local deadline=$((SECONDS + start_within))
    until grep -qi "epoch" "$work/out-0" "$work/err-0"; do
        if [ $SECONDS -ge $deadline ] || ! kill -0 "${pids[0]}" 2>/dev/null; then
            echo "the job does not train:" >&2
            cat "$work"/err-* >&2
            return 1
        fi
        sleep 0.2
    done
}

is_running() {
    kill -0 "$1" 2>/dev/null
}

# all_ended SECONDS RANK...: waits until these ranks have ended, for that time at most.
all_ended() {
    local deadline=$((SECONDS + $1)) rank running=1
    shift
    while [ $running = 1 ] && [ $SECONDS -le $deadline ]; do
        running=0
        for rank in "$@"; do
            if is_running "${pids[rank]}"; then running=1; fi
        done
        sleep 0.1
    done
    [ $running = 0 ]
}

# check RANK PATTERN: the error of a rank has to match.
check() {
    if ! grep -qE "$2" "$work/err-$1"; then
        echo "FAILED: rank $1 does not say \"$2\", but:" >&2
        tail -n 5 "$work/err-$1" >&2
        failed=1
    fi
}

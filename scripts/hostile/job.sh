# Functions for jobs of three ranks on a small graph. The scripts in this folder source this file.
#
# EDGECUT_BIN names a folder with the built programs [default: target/release].

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
bin=${EDGECUT_BIN:-${CARGO_TARGET_DIR:-$here/target}/release}
ranks=3
# The time limit for the start of a job, in seconds.
start_within=120

work=$(mktemp -d)
pids=()
failed=0

# Ends all ranks. A suspended process is resumed first, so that its end is not delayed.
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

# start_rank RANK MASTER_ADDR WRAPPER...: starts a rank of a job that never ends by itself.
start_rank() {
    local rank=$1 master=$2
    shift 2
    # Remove the output of an earlier job now: the new process may do so only after `wait_until_training` has read it.
    rm -f "$work/out-$rank" "$work/err-$rank"
    EDGECUT_TOKEN=$token "$@" "$bin/train" node --dataset-root-dir "$work/partitions/fake/$ranks-parts" \
        --num-nodes $ranks --node-rank "$rank" --master-addr "$master" --master-port 29500 --num-neighbors 10,5 \
        --batch-size 32 --num-epochs 1000000 --num-threads 1 --num-workers 1 >"$work/out-$rank" 2>"$work/err-$rank" &
    pids[rank]=$!
}

# Waits until rank 0 has reported an epoch, so that data has flowed on all connections.
wait_until_training() {
    local deadline=$((SECONDS + start_within))
    until grep -qi "epoch" "$work/out-0" "$work/err-0" 2>/dev/null; do
        if [ $SECONDS -ge $deadline ] || ! kill -0 "${pids[0]}" 2>/dev/null; then
            echo "the job has not finished an epoch:" >&2
            cat "$work"/err-* >&2
            return 1
        fi
        sleep 0.2
    done
}

is_running() {
    kill -0 "$1" 2>/dev/null
}

# all_ended SECONDS RANK...: waits at most SECONDS until these ranks have ended.
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

# check RANK PATTERN: checks that the error of a rank matches the pattern.
check() {
    if ! grep -qE "$2" "$work/err-$1"; then
        echo "FAILED: the error of rank $1 does not match \"$2\":" >&2
        tail -n 5 "$work/err-$1" >&2
        failed=1
    fi
}

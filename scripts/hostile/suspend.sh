#!/usr/bin/env bash
# Suspends a training job with default flags. After a suspension of the whole job for 15 seconds it must continue. When
# a single rank is suspended, the other ranks must end and name it.
#
#   scripts/hostile/suspend.sh
#
# Needs the built programs. Exit status: 0 all checks passed, 1 a check failed.
set -euo pipefail
# shellcheck source=scripts/hostile/job.sh
. "$(dirname "$0")/job.sh"

trap 'end_ranks; rm -rf "$work"' EXIT

start_job() {
    for rank in $(seq 0 $((ranks - 1))); do start_rank "$rank" 127.0.0.1 env; done
    wait_until_training
}

make_graph
token=$(head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n')

start_job
for pid in "${pids[@]}"; do kill -STOP "$pid"; done
sleep 15
for pid in "${pids[@]}"; do
    kill -CONT "$pid"
    # The nodes of a real job do not resume at the same moment either.
    sleep 1
done
# Timeouts that restart when the suspension ends take up to 12 seconds.
sleep 15
for rank in $(seq 0 $((ranks - 1))); do
    if ! is_running "${pids[rank]}"; then
        echo "FAILED: rank $rank has ended after the suspension: $(tail -n 1 "$work/err-$rank")" >&2
        failed=1
    fi
done
if [ $failed = 0 ]; then echo "the whole job, suspended for 15 s: continues"; fi
end_ranks

for stopped in $(seq 0 $((ranks - 1))); do
    start_job
    kill -STOP "${pids[stopped]}"
    others=$(seq 0 $((ranks - 1)) | grep -v "^$stopped$")
    # shellcheck disable=SC2086
    if ! all_ended 15 $others; then
        echo "FAILED: ranks still run 15 s after rank $stopped was suspended" >&2
        failed=1
    fi
    for rank in $others; do check "$rank" "rank $stopped at [0-9.:]+ failed: no sign of life"; done
    echo "rank $stopped, suspended alone: $(tail -n 1 "$work/err-${others%%[^0-9]*}")"
    end_ranks
done
exit $failed

#!/usr/bin/env bash
# Cuts each link of a training job, one direction at a time, and checks that all ranks end within 15 seconds with an
# error that names both ends of the link. The ranks run with default flags in network namespaces of this machine.
#
#   scripts/hostile/cut_link.sh
#
# Needs root, `ip` and the built programs. Exit status: 0 all checks passed, 1 a check failed, 77 cannot run here.
set -euo pipefail
# shellcheck source=scripts/hostile/job.sh
. "$(dirname "$0")/job.sh"

net=ecl$$
within=15

if [ "$(id -u)" != 0 ] || ! ip netns add "$net" 2>/dev/null; then
    echo "SKIPPED: network namespaces need root and the program ip" >&2
    exit 77
fi

clean_up() {
    end_ranks
    for rank in $(seq 0 $((ranks - 1))); do ip netns del "$net-$rank" 2>/dev/null || true; done
    ip netns del "$net" 2>/dev/null || true
    rm -rf "$work"
}
trap clean_up EXIT

# send FROM TO MAC: sends the packets from one rank to another to this MAC address. An address that no card has cuts the
# link.
send() {
    ip -n "$net-$1" neigh replace "10.97.0.$(($2 + 1))" lladdr "$3" dev eth0 nud permanent
}

mac() {
    printf '02:00:00:00:01:%02x' "$1"
}

ip -n "$net" link add name lan type bridge
ip -n "$net" link set lan up
for rank in $(seq 0 $((ranks - 1))); do
    ip netns add "$net-$rank"
    ip -n "$net" link add "v$rank" type veth peer name eth0 netns "$net-$rank"
    ip -n "$net" link set "v$rank" master lan up
    ip -n "$net-$rank" link set eth0 address "$(mac "$rank")"
    ip -n "$net-$rank" addr add "10.97.0.$((rank + 1))/24" dev eth0
    ip -n "$net-$rank" link set eth0 up
    ip -n "$net-$rank" link set lo up
done

make_graph
token=$(head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n')
for from in $(seq 0 $((ranks - 1))); do
    for to in $(seq 0 $((ranks - 1))); do
        if [ "$from" = "$to" ]; then continue; fi
        # Restore all links for the next job.
        for one in $(seq 0 $((ranks - 1))); do
            for other in $(seq 0 $((ranks - 1))); do
                if [ "$one" != "$other" ]; then send "$one" "$other" "$(mac "$other")"; fi
            done
        done
        for rank in $(seq 0 $((ranks - 1))); do
            start_rank "$rank" 10.97.0.1 ip netns exec "$net-$rank"
        done
        wait_until_training
        send "$from" "$to" 02:00:00:00:01:ff
        start=$SECONDS
        if all_ended $within $(seq 0 $((ranks - 1))); then
            echo "rank $from -> rank $to: all ranks ended after $((SECONDS - start)) s: $(tail -n 1 "$work/err-0")"
        else
            echo "FAILED: rank $from -> rank $to: ranks still run after $within s" >&2
            tail -n 2 "$work"/err-* >&2
            failed=1
        fi
        for rank in $(seq 0 $((ranks - 1))); do
            check "$rank" "rank $from"
            check "$rank" "rank $to"
            check "$rank" "no data reached rank ($from from rank $to|$to from rank $from)"
        done
        end_ranks
    done
done
exit $failed

#!/usr/bin/env python3
"""Compares the predictions of `train node --plan-cluster` with trainings on several ranks.

    benches/scaling.py WORK [--bin target/release] [--ranks 2,4,8] [--links 1gbit,100mbit,1gbit:1000] [--cores 0.2] [--epochs 3]
                       [--num-nodes 200000] [--avg-degree 20] [--train-flags FLAGS]

Each rank has a network namespace, a link of the given bandwidth and of a delay in microseconds (RATE:DELAY), and a share of a core.
For each link, the costs are measured by two processes on this machine with the same share, without namespaces. Then each number of
ranks trains the same model in parts of its own, and the median of the epochs after the first one is compared with the prediction.
Writes a table, and results.json with machine, date and commit to WORK, where graphs are kept. Needs root and iproute2."""

import argparse
import datetime
import json
import os
import secrets
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "peers"))

from compare import commit, machine
from cpu_share import CpuShare
from two_namespaces import Machines, bytes_per_second

NEVER = 1_000_000
"""More epochs than a run has before it is ended: the last one would evaluate the model."""
PORT = 11111
TRAIN_FLAGS = "--num-neighbors 15,10 --hidden-channels 128 --batch-size 512 --concurrency 2"
COLUMNS = (
    "link", "ranks", "epoch s", "predicted", "ratio", "k rows of other parts", "predicted", "MB of memory", "predicted",
    "bound by", "throttled", "load",
)  # fmt: skip


def parts(args: argparse.Namespace, ranks: int) -> Path:
    """Makes the parts for a number of ranks, unless they exist. Returns their folder."""
    root = args.work / f"{args.num_nodes}-{args.avg_degree}"
    made = root / "partitions/fake" / f"{ranks}-parts"
    if not made.exists():
        sizes = [f"--avg-num-nodes={args.num_nodes}", f"--avg-degree={args.avg_degree}", "--num-channels=100"]
        run([args.bin / "partition-graph", "--dataset=fake", *sizes, f"--num-partitions={ranks}", f"--root-dir={root}"])
    return made


def run(command: list[object]) -> str:
    """Runs a command and returns its output."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command[0]}: {done.stderr.strip()}")
    return done.stdout


def train_command(args: argparse.Namespace, folder: Path) -> list[str]:
    """Returns the command that trains on parts."""
    threads = ["--num-threads=1", "--num-workers=1", "--device=cpu"]
    return [str(args.bin / "train"), "node", f"--dataset-root-dir={folder}", *threads, *args.train_flags.split()]


def planned(args: argparse.Namespace, rate: str, delay_us: float) -> dict:
    """Measures the costs on two processes, and returns them with the predictions for all numbers of ranks."""
    command = train_command(args, parts(args, 2)) + [
        "--nproc-per-node=2",
        "--plan-cluster",
        f"--plan-nodes={','.join(map(str, args.ranks))}",
        f"--plan-gbit={bytes_per_second(rate) * 8 / 1e9}",
        f"--plan-delay-us={delay_us}",
        f"--plan-cores={args.cores}",
        f"--plan-steps={args.plan_steps}",
        "--json",
    ]
    share = CpuShare(f"scaling{os.getpid()}", 2 * args.cores)
    try:
        return json.loads(run(share.command(command)))
    finally:
        share.remove()


def trained(args: argparse.Namespace, ranks: int, rate: str, delay_us: float) -> dict:
    """Trains on ranks in namespaces until they have finished the epochs. Returns the costs of an epoch."""
    metrics = args.work / "metrics.jsonl"
    metrics.unlink(missing_ok=True)
    command = train_command(args, parts(args, ranks)) + [
        f"--num-nodes={ranks}",
        "--node-rank={rank}",
        "--master-addr={addr0}",
        f"--master-port={PORT}",
        f"--num-epochs={NEVER}",
        f"--eval-every={NEVER}",
        f"--metrics={metrics}",
        "--quiet",
    ]
    with Machines(ranks, rate, delay_us, args.cores) as machines:
        machines.start(command)
        epochs = followed(machines, metrics, args.epochs)
        throttled = statistics.mean(share.throttled() for share in machines.shares)
    measured = epochs[1:]
    last = measured[-1]
    return {
        "epoch_seconds": statistics.median(epoch["seconds"] for epoch in measured),
        # Replies only, without requests and gradients.
        "reply_bytes": last["remote_bytes"] / ranks,
        "remote_rows": last["remote_nodes"] / ranks,
        "memory_bytes": max(rank["memory_bytes"] for rank in last["ranks"]),
        "throttled": throttled,
        "load": os.getloadavg()[0],
    }


def followed(machines: Machines, metrics: Path, count: int) -> list[dict]:
    """Waits for `count` epochs in the file of metrics, and returns them."""
    while True:
        if any(process.poll() is not None for process in machines.ranks):
            machines.wait(10)
            raise RuntimeError("a rank has ended before its last epoch")
        lines = metrics.read_text().splitlines(keepends=True) if metrics.exists() else []
        epochs = [json.loads(line) for line in lines if line.endswith("\n")]
        epochs = [line for line in epochs if line["event"] == "epoch"]
        if len(epochs) >= count:
            return epochs[:count]
        time.sleep(0.2)


def row(link: str, found: dict) -> list[str]:
    """Formats the comparison of a number of ranks."""
    measured, predicted = found["measured"], found["predicted"]
    ratio = predicted["epoch_seconds"] / measured["epoch_seconds"]
    return [
        link,
        str(found["ranks"]),
        f"{measured['epoch_seconds']:.2f}",
        f"{predicted['epoch_seconds']:.2f}",
        f"{ratio:.2f}",
        f"{measured['remote_rows'] / 1e3:.1f}",
        f"{predicted['remote_rows'] * predicted['epoch_steps'] / 1e3:.1f}",
        f"{measured['memory_bytes'] / 1e6:.0f}",
        f"{predicted['memory_bytes'] / 1e6:.0f}",
        predicted["bound"],
        f"{100 * measured['throttled']:.0f} %",
        f"{measured['load']:.1f}",
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--bin", type=Path, default=HERE.parent / "target/release")
    parser.add_argument("--ranks", type=lambda text: [int(number) for number in text.split(",")], default=[2, 4, 8])
    parser.add_argument("--links", default="1gbit,100mbit,1gbit:1000", help="RATE or RATE:DELAY_US, several by commas")
    parser.add_argument("--cores", type=float, default=0.2, help="cores of each rank")
    parser.add_argument("--epochs", type=int, default=3, help="the first one is not measured")
    parser.add_argument("--plan-steps", type=int, default=40)
    parser.add_argument("--num-nodes", type=int, default=200_000)
    parser.add_argument("--avg-degree", type=int, default=20)
    parser.add_argument("--train-flags", default=TRAIN_FLAGS)
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    # The ranks need a shared secret beyond the loopback interface.
    os.environ["EDGECUT_TOKEN"] = secrets.token_hex(16)
    date = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    head = {"machine": machine(), "date": date, "commit": commit(), "setting": {k: str(v) for k, v in vars(args).items()}}
    results = []
    rows = [list(COLUMNS), ["---"] * len(COLUMNS)]
    for link in args.links.split(","):
        rate, _, delay = link.partition(":")
        delay_us = float(delay or 0)
        for ranks in args.ranks:
            # The cuts of all parts are known to the plan.
            parts(args, ranks)
        plan = planned(args, rate, delay_us)
        for ranks, predicted in zip(args.ranks, plan["predictions"]):
            measured = trained(args, ranks, rate, delay_us)
            found = {"link": link, "ranks": ranks, "measured": measured, "predicted": predicted}
            found["profile"] = plan["profile"]
            results.append(found)
            rows.append(row(link, found))
            # Written after each run, so that an interruption loses no earlier results.
            (args.work / "results.json").write_text(json.dumps(head | {"runs": results}, indent=1) + "\n")
    for cells in rows:
        print(f"| {' | '.join(cells)} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Runs one rank of Edgecut, `train node` or `bench gather`, with one thread for sampling and one for computing.

Start it once per rank through two_namespaces.py, with two ranks. In training, rank 0 writes a line of metrics at the end of
each epoch, at which this script reads its CPU time and network bytes; the other rank reports only its memory. What `train`
prints is for people, so it is only passed on."""

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from measure import (
    Pass,
    add_accuracy_flag,
    cpu_seconds,
    fanouts,
    interface_bytes,
    peak_rss_mb,
    peak_rss_mb_of,
    process_started_at,
    report,
    seconds_until,
    summary,
)
from two_namespaces import INTERFACE

PORT = 29511
POLL_INTERVAL_S = 0.002


def train_command(args: argparse.Namespace, metrics: Path) -> list[str]:
    """Returns the command `train node` of this rank. The first epoch is a warm-up, and only the last one is evaluated,
    unless the training is one up to an accuracy."""
    num_epochs = args.passes + 1 if args.until_accuracy is None else args.passes
    flags = {
        "dataset-root-dir": args.parts,
        "num-nodes": 2,
        "node-rank": args.rank,
        "master-addr": args.addr0,
        "master-port": PORT,
        "num-workers": 1,
        "num-threads": 1,
        "num-neighbors": ",".join(map(str, args.num_neighbors)),
        "hidden-channels": args.hidden_channels,
        "batch-size": args.batch_size,
        "eval-num-neighbors": ",".join(map(str, args.num_neighbors)),
        "num-epochs": num_epochs,
        "eval-every": num_epochs if args.until_accuracy is None else 1,
        "dropout": 0,
        "lr": 0.003,
        "metrics": metrics,
    }
    return [str(args.bin / "train"), "node", *(f"--{name}={value}" for name, value in flags.items()), *args.train]


def seeds_per_epoch(parts: Path) -> float:
    """Returns the mean number of training nodes per rank. The numbers differ slightly, but ranks step together."""
    meta = json.loads((parts / "META.json").read_text())
    return meta["node_types"][0]["split_sizes"][0] / meta["num_parts"]


def has_ended(process: subprocess.Popen) -> bool:
    """Returns whether a process has ended. It is not waited for, so that its CPU time stays readable."""
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def epochs_of(process: subprocess.Popen, metrics: Path) -> Iterator[dict]:
    """Yields the metrics of each epoch as soon as `train` has written them, until it ends."""
    num_read = 0
    while True:
        ended = has_ended(process)
        lines = metrics.read_text().splitlines(keepends=True) if metrics.exists() else []
        lines = [line for line in lines if line.endswith("\n")]
        for line in lines[num_read:]:
            record = json.loads(line)
            if record["event"] == "epoch":
                yield record
        num_read = len(lines)
        if ended:
            return
        time.sleep(POLL_INTERVAL_S)


def follow(process: subprocess.Popen, metrics: Path, seeds: float) -> tuple[list[Pass], float, int]:
    """Returns each epoch as a pass, the end of the first one in seconds of `time.time()`, and the peak MB."""
    passes, first_end, peak = [], 0.0, 0
    counters = (0.0, 0)
    for epoch in epochs_of(process, metrics):
        first_end = first_end or time.time()
        # With two ranks, the bytes that one sends are those that the other receives: half of the sum is the mean.
        now = (cpu_seconds(process.pid), sum(interface_bytes(INTERFACE)) / 2)
        passes.append(
            Pass(
                wall=epoch["seconds"],
                wait=epoch["sample_wait_seconds"],
                step=epoch["compute_seconds"],
                cpu=now[0] - counters[0],
                seeds=seeds,
                remote_nodes=epoch["remote_nodes"] / 2,
                received_bytes=now[1] - counters[1],
            )
        )
        counters, peak = now, max(peak, peak_rss_mb_of(process.pid))
    return passes, first_end, peak


def train_until_accurate(args: argparse.Namespace, folder: Path) -> int:
    """Trains up to the wanted accuracy, and reports the seconds of training. Epochs after it are run but not counted."""
    metrics = folder / "metrics.jsonl"
    if status := subprocess.run(train_command(args, metrics), check=False).returncode:
        return abs(status)
    if args.rank > 0:
        return 0
    records = [json.loads(line) for line in metrics.read_text().splitlines()]
    epochs = [record for record in records if record["event"] == "epoch"]
    accuracies = [epoch["valid_metric"] for epoch in epochs]
    until_s = seconds_until(accuracies, [epoch["seconds"] for epoch in epochs], args.until_accuracy)
    reached = next(number for number, accuracy in enumerate(accuracies) if accuracy >= args.until_accuracy)
    report("edgecut", rank=0, until_s=until_s, epochs=reached + 1, accuracy=accuracies[reached])
    return 0


def run_train(args: argparse.Namespace, folder: Path) -> int:
    """Trains and reports."""
    metrics = folder / "metrics.jsonl"
    seeds = seeds_per_epoch(args.parts)
    process = subprocess.Popen(train_command(args, metrics))
    passes, first_end, peak = follow(process, metrics, seeds)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        return 1
    whole_peak = round(usage.ru_maxrss * 1024 / 1e6)
    if args.rank > 0:
        report("edgecut", rank=args.rank, peak_rss_mb=whole_peak)
        return 0
    if len(passes) != args.passes + 1:
        print(f"train wrote metrics of {len(passes)} epochs, expected {args.passes + 1}", file=sys.stderr)
        return 1
    # The first batch arrives at the latest by the end of the first of the epoch's equal steps.
    steps = math.ceil(seeds / args.batch_size)
    first_batch = first_end - passes[0].wall * (1 - 1 / steps) - process_started_at()
    figures = summary(passes, args.batch_size)
    report("edgecut", rank=0, mode="train", **figures, first_batch_s=round(first_batch, 2), peak_rss_mb=peak or whole_peak)
    return 0


def run_gather(args: argparse.Namespace, folder: Path) -> int:
    """Samples, gathers features and reports. The bytes per batch are those of the whole run, including the warm-up and
    the start of the job, divided by all of its batches."""
    records = folder / "records.json"
    flags = {
        "json": records,
        "threads": 1,
        "reps": args.passes,
        "data": args.parts,
        "num-neighbors": ",".join(map(str, args.num_neighbors)),
        "batch-size": args.batch_size,
        "batches": args.num_batches,
    }
    place = {"RANK": args.rank, "WORLD_SIZE": 2, "MASTER_ADDR": args.addr0, "MASTER_PORT": PORT}
    environment = os.environ | {name: str(value) for name, value in place.items()}
    command = [str(args.bin / "bench"), "gather", *(f"--{name}={value}" for name, value in flags.items())]
    if status := subprocess.run(command, env=environment, check=False).returncode:
        return abs(status)
    record = next(r for r in json.loads(records.read_text()) if r["name"].startswith("sampling + features"))
    batches = args.num_batches * (args.passes + 1)
    details = record["details"]
    report(
        "edgecut",
        rank=args.rank,
        mode="gather",
        batch_s=record["median_s"],
        cpu_s=record["cpu_s"],
        remote_nodes_per_batch=details.get("remote_nodes_per_batch", 0),
        received_mb_per_batch=round(interface_bytes(INTERFACE)[0] / batches / 1e6, 3),
        first_batch_s=details.get("first_batch_s", 0),
        peak_rss_mb=peak_rss_mb(resource.RUSAGE_CHILDREN),
    )
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=Path, required=True, help="the folder of Edgecut's programs")
    parser.add_argument("--parts", type=Path, required=True, help="the folder with the parts of Edgecut")
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--addr0", required=True, help="address of rank 0")
    parser.add_argument("--mode", choices=["gather", "train"], default="train")
    parser.add_argument("--num-neighbors", type=fanouts, default="15,10,5", help="fan-outs, the hop at the seeds first")
    parser.add_argument("--hidden-channels", type=int, default=256)
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--num-batches", type=int, default=20, help="batches per pass in mode gather")
    parser.add_argument("--passes", type=int, default=3, help="timed passes, after one warm-up pass")
    parser.add_argument("--train", action="append", default=[], help="a further flag of `train`, as --train=--FLAG=VALUE")
    add_accuracy_flag(parser)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if args.until_accuracy is not None:
            return train_until_accurate(args, Path(folder))
        return (run_train if args.mode == "train" else run_gather)(args, Path(folder))


if __name__ == "__main__":
    sys.exit(main())

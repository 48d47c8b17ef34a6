"""Clocks and counters of all scripts, and the single line of JSON in which each of them reports."""

import argparse
import json
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
MODES = ("sample", "gather", "train")


def add_batch_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of every script that makes batches. OMP_NUM_THREADS sets the number of threads."""
    parser.add_argument("--data", type=Path, required=True, help="the folder with the graph's .npy files")
    parser.add_argument("--mode", choices=MODES, default="sample", help="each mode includes the modes before it")
    parser.add_argument("--num-neighbors", type=fanouts, default="15,10,5", help="fan-outs, the hop at the seeds first")
    parser.add_argument("--batch-size", type=int, default=1024, help="seeds per batch and rank")
    parser.add_argument("--hidden-channels", type=int, default=256)
    parser.add_argument("--num-batches", type=int, default=0, help="batches per pass and rank; 0: all seeds once")
    parser.add_argument("--passes", type=int, default=3, help="timed passes, after one that warms up")


def add_accuracy_flag(parser: argparse.ArgumentParser) -> None:
    """Adds the flag of scripts that train up to an accuracy."""
    parser.add_argument(
        "--until-accuracy",
        type=float,
        help="train until this share of the validation nodes is right, at most --passes epochs; evaluations are not timed",
    )


def seconds_until(accuracies: list[float], seconds: list[float], wanted: float) -> float:
    """Returns the seconds of training up to the first epoch with the wanted accuracy."""
    reached = next((epoch for epoch, accuracy in enumerate(accuracies, 1) if accuracy >= wanted), None)
    if reached is None:
        sys.exit(f"error: the accuracies {accuracies} of {len(accuracies)} epochs are below {wanted}: raise --passes")
    return sum(seconds[:reached])


def fanouts(text: str) -> list[int]:
    """Parses `15,10,5`."""
    return [int(number) for number in text.split(",")]


@dataclass
class Pass:
    """One pass over the batches. Times are seconds."""

    wall: float = 0.0
    wait: float = 0.0
    """Waiting for batches."""
    step: float = 0.0
    """Forward pass, backward pass and optimizer."""
    cpu: float = 0.0
    batches: int = 0
    seeds: int = 0
    edges: int = 0
    input_nodes: int = 0
    remote_nodes: float = 0
    """Input nodes whose features came from another rank."""
    received_bytes: float = 0
    """Bytes that this rank's network interface received."""
    first_batch_at: float = 0.0
    """The time of the first batch, in seconds of `time.time()`."""
    _lap: float = 0.0

    def _since_last_lap(self) -> float:
        now = time.perf_counter()
        seconds, self._lap = now - self._lap, now
        return seconds

    def restart_lap(self) -> None:
        """Excludes the time since the last lap from `wait` and `step`."""
        self._since_last_lap()

    def got_batch(self, seeds: int, edges: int, input_nodes: int) -> None:
        """Records that a batch has arrived, with its features if the mode includes them."""
        self.wait += self._since_last_lap()
        self.first_batch_at = self.first_batch_at or time.time()
        self.batches += 1
        self.seeds += seeds
        self.edges += edges
        self.input_nodes += input_nodes

    def did_step(self) -> None:
        """Records that a training step on the batch is done."""
        self.step += self._since_last_lap()


def run_passes(
    one_pass: Callable[[Pass], None], timed: int, pids: tuple[int, ...] = (), interface: str | None = None
) -> list[Pass]:
    """Runs one warm-up pass and `timed` more. Returns all passes in order.

    CPU seconds are those of this process, its children and the processes `pids`. Bytes are those that `interface`
    received.
    """
    passes = []
    for _ in range(timed + 1):
        this, cpu, received = Pass(), cpu_seconds(os.getpid(), *pids), received_bytes(interface)
        start = time.perf_counter()
        this.restart_lap()
        one_pass(this)
        this.wall = time.perf_counter() - start
        this.cpu = cpu_seconds(os.getpid(), *pids) - cpu
        this.received_bytes = received_bytes(interface) - received
        passes.append(this)
    return passes


def summary(passes: list[Pass], batch_size: int) -> dict[str, float]:
    """Returns the medians over the passes after the first one, scaled to `batch_size` seeds, so that batches of other
    sizes count proportionally. Fields that end in `_s` are seconds.
    """

    def median(value: Callable[[Pass], float], digits: int = 5) -> float:
        return round(statistics.median(value(p) for p in passes[1:]), digits)

    def per_batch(value: Callable[[Pass], float], digits: int = 5) -> float:
        return median(lambda p: value(p) * batch_size / p.seeds, digits)

    return {
        "batch_s": per_batch(lambda p: p.wall),
        "wait_s": per_batch(lambda p: p.wait),
        "step_s": per_batch(lambda p: p.step),
        "cpu_s": per_batch(lambda p: p.cpu),
        "seeds_per_s": median(lambda p: p.seeds / p.wall, 1),
        "edges_per_batch": per_batch(lambda p: p.edges, 0),
        "input_nodes_per_batch": per_batch(lambda p: p.input_nodes, 0),
        "remote_nodes_per_batch": per_batch(lambda p: p.remote_nodes, 0),
        "received_mb_per_batch": per_batch(lambda p: p.received_bytes / 1e6, 3),
        "seeds_per_pass": passes[-1].seeds,
    }


def stat_fields(pid: int) -> list[str]:
    """Returns the fields of `/proc/PID/stat` after the name, starting with the state."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def cpu_seconds(*pids: int) -> float:
    """Returns the CPU seconds of the processes and their descendants, including ended ones that were waited for."""
    stats = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stats[int(entry.name)] = stat_fields(int(entry.name))
            except (FileNotFoundError, ProcessLookupError):
                continue  # The process has ended meanwhile.
    family = set(pids)
    while True:
        children = {pid for pid, fields in stats.items() if int(fields[1]) in family} - family
        if not children:
            break
        family |= children
    ticks = sum(sum(map(int, stats[pid][11:15])) for pid in family if pid in stats)
    return ticks / TICKS_PER_SECOND


def interface_bytes(interface: str) -> tuple[int, int]:
    """Returns the bytes that a network interface of this process's namespace received and sent."""
    for line in Path("/proc/net/dev").read_text().splitlines():
        name, _, counters = line.partition(":")
        if name.strip() == interface:
            return int(counters.split()[0]), int(counters.split()[8])
    raise ValueError(f"there is no network interface {interface}")


def received_bytes(interface: str | None) -> int:
    """Returns the bytes that the interface received, or 0 without an interface."""
    return interface_bytes(interface)[0] if interface else 0


def peak_rss_mb(who: int = resource.RUSAGE_SELF) -> int:
    """Returns the largest resident set, in MB (10^6 bytes), of this process or of its largest ended child."""
    return round(resource.getrusage(who).ru_maxrss * 1024 / 1e6)


def peak_rss_mb_of(pid: int) -> int:
    """Returns the largest resident set, in MB, of another running process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return round(int(line.split()[1]) * 1024 / 1e6)
    return 0


def process_started_at() -> float:
    """Returns the start time of this process, in seconds of `time.time()`."""
    boot = time.time() - float(Path("/proc/uptime").read_text().split()[0])
    return boot + int(stat_fields(os.getpid())[19]) / TICKS_PER_SECOND


def report(who: str, **figures: object) -> None:
    """Prints the line that the driver reads."""
    print(json.dumps({"who": who, **figures}), flush=True)

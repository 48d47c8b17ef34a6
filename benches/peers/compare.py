#!/usr/bin/env python3
"""Runs Edgecut and its rivals alternately on the same graph, and prints a comparison.

    compare.py --bin target/release --envs ENVS --work DIR [--only sampling,gather]

--bin holds `bench`, `train`, `partition-graph` and `examples/generate_npy`, --envs the environments that setup.sh made.
A rival that is not installed is named and left out; Edgecut then runs without it. The graph and the parts are made once
and kept in --work. Every run waits until the machine is idle. Runs in network namespaces need root."""

import argparse
import datetime
import json
import os
import platform
import secrets
import shlex
import statistics
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from paths import HERE, Comparison, Contestant, Figures, Preparation, Setting, comparisons, preparations
from quiet import Run, run, wait_for_quiet

GRAPH_FILES = ("edge_index.npy", "x.npy", "y.npy", "train_idx.npy", "valid_idx.npy", "num_nodes.npy")
"""Without test nodes: their evaluation is not measured, and would take most of the time."""
TAIL_LINES = 15
PREPARATION_TIMEOUT_S = 3600
COLUMNS = (
    "path",
    "time of a",
    "rival",
    "rival, ms",
    "edgecut, ms",
    "ratio",
    "least",
    "most",
    "CPU ms",
    "peak MB",
    "notes",
)


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=Path, required=True, help="the folder of Edgecut's programs")
    parser.add_argument("--envs", type=Path, help="the folder that setup.sh made [default: envs in --work]")
    parser.add_argument("--work", type=Path, required=True, help="the folder for the graph, the parts and the results")
    parser.add_argument("--data", type=Path, help="a folder of .npy files [default: a generated graph]")
    parser.add_argument("--only", type=lambda text: text.split(","), help="paths, or prefixes of their names")
    parser.add_argument("--without", type=lambda text: text.split(","), default=[], help="rivals to leave out")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--num-batches", type=int, default=20, help="batches of a pass on one machine")
    parser.add_argument("--passes", type=int, default=3, help="timed passes of a run")
    parser.add_argument("--threads", type=int, default=2, help="threads on one machine; with two ranks, each has one")
    parser.add_argument("--patience", type=float, default=120, help="maximum seconds to wait for an idle machine")
    parser.add_argument("--timeout", type=float, default=900, help="maximum seconds of a run")
    parser.add_argument("--array-mib", type=int, default=512, help="MiB of the arrays that `bench` compares with")
    parser.add_argument("--out", type=Path, help="the results as JSON [default: results.json in --work]")
    parser.add_argument("--dry-run", action="store_true", help="only print the commands")
    return parser.parse_args()


def setting_of(args: argparse.Namespace) -> Setting:
    """Returns the setting with absolute folders, since ranks may run in other folders."""
    return Setting(
        bin=args.bin.absolute(),
        envs=(args.envs or args.work / "envs").absolute(),
        work=args.work.absolute(),
        batch_size=args.batch_size,
        num_batches=args.num_batches,
        passes=args.passes,
        threads=args.threads,
        timeout_s=args.timeout,
        array_mib=args.array_mib,
    )


def chosen(args: argparse.Namespace, setting: Setting) -> list[Comparison]:
    """Returns the comparisons that --only and --without select."""
    every = comparisons(setting)
    for wanted in args.only or []:
        if not any(named(comparison, wanted) for comparison in every):
            names = ", ".join(comparison.name for comparison in every)
            sys.exit(f"error: --only {wanted}: the paths are {names}")
    kept = [c for c in every if not args.only or any(named(c, wanted) for wanted in args.only)]
    for comparison in kept:
        comparison.rivals = [r for r in comparison.rivals if r.name.split(",")[0] not in args.without]
    return kept


def leave_out_missing(paths: list[Comparison]) -> list[str]:
    """Leaves out the rivals that are not installed. Returns a line about each environment that lacks something."""
    missing = {}
    for comparison in paths:
        for rival in comparison.rivals:
            if not rival.is_installed():
                missing.setdefault(rival.needs, set()).add(rival.name.split(",")[0])
        comparison.rivals = [rival for rival in comparison.rivals if rival.is_installed()]
    return [
        f"without {', '.join(sorted(names))}: {python} cannot import {module}"
        for (python, module), names in missing.items()
    ]


def named(comparison: Comparison, wanted: str) -> bool:
    """Returns whether `wanted` is the name of a comparison or a prefix of it: `ranks` for `ranks-gather` and so on."""
    return comparison.name == wanted or comparison.name.startswith(f"{wanted}-")


def generate_command(setting: Setting, out: Path) -> list[str]:
    """Returns the command that generates the graph: 600 000 nodes, 30 million edges."""
    shape = {"avg-num-nodes": 600_000, "avg-degree": 50, "num-channels": 100, "num-classes": 47}
    # Labels that take several epochs to learn.
    labels = {"train-fraction": 0.1, "valid-fraction": 0.01, "feature-signal": 0.375}
    flags = [f"--{name}={value}" for name, value in (shape | labels).items()]
    return [str(setting.bin / "examples" / "generate_npy"), str(out), *flags]


def prepare(args: argparse.Namespace, setting: Setting, paths: list[Comparison]) -> None:
    """Makes missing files: the graph, with training nodes only, and the parts that the paths need."""
    source = args.data.absolute() if args.data else setting.work / "generated"
    generate = Preparation(source / "edge_index.npy", generate_command(setting, source), setting.threads)
    steps = ([] if args.data else [generate]) + needed_preparations(setting, paths)
    if args.dry_run:
        for step in steps:
            print(shlex.join(step.command))
        return
    setting.graph.mkdir(parents=True, exist_ok=True)
    for step in steps:
        if step is not generate:
            link_graph(source, setting.graph)
        if not step.result.exists():
            print(f"making {step.result.parent}", file=sys.stderr)
            make(step)
    link_graph(source, setting.graph)


def make(step: Preparation) -> None:
    """Runs a preparation, and exits if it fails."""
    contestant = Contestant("preparation", step.command, lambda _: {}, step.threads)
    done = run(step.command, contestant.environment_of_run(), timeout_s=PREPARATION_TIMEOUT_S)
    if done.status:
        sys.exit(f"error: {shlex.join(step.command)}: {failure(done)}")


def needed_preparations(setting: Setting, paths: list[Comparison]) -> list[Preparation]:
    """Returns the preparations whose folders the chosen commands name, and those that these need."""
    words = [word for c in paths for one in [*c.rivals, c.ours] for word in one.command]
    steps = preparations(setting)
    needed = [step for step in steps if any(str(step.result.parent) in word for word in words)]
    # A preparation may need the result of another one.
    return [step for step in steps if step in needed or any(str(step.result) in " ".join(n.command) for n in needed)]


def link_graph(source: Path, graph: Path) -> None:
    """Links the graph's files into the folder that all programs read."""
    for name in GRAPH_FILES:
        link = graph / name
        if (source / name).exists() and not link.exists():
            link.symlink_to(source / name)


def failure(done: Run) -> str:
    """Describes the failure of a program."""
    tail = "\n".join(done.output.splitlines()[-TAIL_LINES:])
    return f"status {done.status} after {done.wall_s:.0f} s\n{tail}"


def measure(contestant: Contestant, args: argparse.Namespace, token: str) -> dict:
    """Runs a contestant once. Returns its figures or its error, and the foreign work before and during the run."""
    before = wait_for_quiet(args.patience) if args.patience > 0 else None
    environment = contestant.environment_of_run() | {"EDGECUT_TOKEN": token}
    done = run(contestant.command, environment, args.timeout)
    result = {"foreign_cores_before": before, "foreign_cores": done.foreign_cores, "run_s": round(done.wall_s, 2)}
    try:
        if done.status == 0:
            return result | {"figures": contestant.read(done)}
    except (ValueError, KeyError, OSError) as error:
        return result | {"error": f"cannot read its report: {error!r}\n{failure(done)}"}
    return result | {"error": failure(done)}


def compare(comparison: Comparison, args: argparse.Namespace) -> dict:
    """Runs all rivals and Edgecut alternately in --rounds rounds. A contestant that failed does not run again."""
    contestants = [*comparison.rivals, comparison.ours]
    runs: dict[str, list[dict]] = {contestant.name: [] for contestant in contestants}
    token = secrets.token_hex(32)
    for number in range(1, args.rounds + 1):
        for contestant in contestants:
            if any("error" in one for one in runs[contestant.name]):
                continue
            one = measure(contestant, args, token)
            runs[contestant.name].append(one)
            outcome = one.get("error") or f"{one['figures']['seconds'] * 1e3:.3f} ms"
            others = f"others used {one['foreign_cores']} cores"
            print(f"{comparison.name}, round {number}, {contestant.name}: {outcome}, {others}", file=sys.stderr)
    commands = {contestant.name: shlex.join(contestant.command) for contestant in contestants}
    return {"path": comparison.name, "work": comparison.work, "commands": commands, "runs": runs}


def medians(runs: list[dict]) -> Figures | None:
    """Returns the median of every figure, or None if a run failed."""
    if not runs or any("error" in one for one in runs):
        return None
    return {name: statistics.median(one["figures"][name] for one in runs) for name in runs[0]["figures"]}


def rows(result: dict) -> list[list[str]]:
    """Returns one row of the table for each rival."""
    runs = dict(result["runs"])
    our_runs = runs.pop("edgecut")
    ours = medians(our_runs)
    # Without rivals, Edgecut has a row of its own.
    rivals = runs or {"-": []}
    return [row(result, rival, of_rival, our_runs, medians(of_rival), ours) for rival, of_rival in rivals.items()]


def row(
    result: dict, rival: str, rival_runs: list[dict], our_runs: list[dict], theirs: Figures | None, ours: Figures | None
) -> list[str]:
    """Returns a row of the table. The ratio is Edgecut's speedup at the medians; least and most are over the rounds."""

    def number(figures: Figures | None, name: str, scale: float = 1.0) -> str:
        return "-" if figures is None or name not in figures else f"{figures[name] * scale:.4g}"

    def both(name: str, scale: float = 1.0) -> str:
        pair = [number(theirs, name, scale), number(ours, name, scale)]
        return "" if pair == ["-", "-"] else " / ".join(pair)

    ratios = ["failed"] * 3 if rival_runs or not ours else ["-"] * 3
    if theirs and ours:
        by_round = [t["figures"]["seconds"] / o["figures"]["seconds"] for t, o in zip(rival_runs, our_runs)]
        ratios = [f"{ratio:.2f}" for ratio in (theirs["seconds"] / ours["seconds"], min(by_round), max(by_round))]
    notes = {
        "edges": both("edges"),
        "MB received": both("received_mb"),
        "remote nodes": both("remote_nodes"),
        "first batch s": both("first_batch_s"),
        "edge cut %": both("edge_cut", 100),
        "epochs": both("epochs"),
        "accuracy": both("accuracy"),
    }
    return [
        result["path"],
        result["work"],
        rival,
        number(theirs, "seconds", 1e3),
        number(ours, "seconds", 1e3),
        *ratios,
        both("cpu_s", 1e3),
        both("peak_rss_mb"),
        ", ".join(f"{name} {pair}" for name, pair in notes.items() if pair),
    ]


def table(results: list[dict]) -> str:
    """Returns the table in Markdown. In cells with two figures, the rival's comes first."""
    lines = [list(COLUMNS), ["---"] * len(COLUMNS)] + [line for result in results for line in rows(result)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def machine() -> dict[str, object]:
    """Describes the machine of the measurements."""
    cpu_info = Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.partition(":")[2].strip() for line in cpu_info if line.startswith("model name")]
    memory_kb = int(Path("/proc/meminfo").read_text().split()[1])
    return {
        "cpu": models[0] if models else platform.machine(),
        "cores": os.cpu_count(),
        "memory_gb": round(memory_kb * 1024 / 1e9, 1),
        "kernel": platform.release(),
    }


def commit() -> str:
    """Returns the commit of this checkout, with a + if files have changed since."""

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", "-C", str(HERE), *arguments], capture_output=True, text=True, check=False)
        return done.stdout.strip()

    return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain") else "")


def main() -> int:
    args = parse_args()
    setting = setting_of(args)
    paths = chosen(args, setting)
    # The commands of rivals are printed in any case.
    missing = [] if args.dry_run else leave_out_missing(paths)
    for line in missing:
        print(line, file=sys.stderr)
    prepare(args, setting, paths)
    if args.dry_run:
        for comparison in paths:
            for contestant in [*comparison.rivals, comparison.ours]:
                print(shlex.join(contestant.command))
        return 0
    out = args.out or setting.work / "results.json"
    date = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    flags = {name: str(value) for name, value in asdict(setting).items()} | {"rounds": args.rounds}
    head = {"machine": machine(), "date": date, "commit": commit(), "setting": flags, "left_out": missing}
    results = []
    for comparison in paths:
        results.append(compare(comparison, args))
        # Written after each path, so that an interruption loses no earlier results.
        out.write_text(json.dumps(head | {"paths": results}, indent=1) + "\n")
    print(table(results))
    failed = any("error" in one for result in results for runs in result["runs"].values() for one in runs)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

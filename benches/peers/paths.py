"""The comparisons: for each path, the commands of the rivals and of Edgecut, and functions that read their figures."""

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from quiet import Run

HERE = Path(__file__).resolve().parent
Figures = dict[str, float]
"""The figures of a run: `seconds` and, if known, `cpu_s`, `peak_rss_mb`, `edges`, `received_mb`, `remote_nodes`,
`first_batch_s` and `edge_cut`."""
ALL_REDUCE_BYTES = (4_096, 100_000, 1_000_000, 10_000_000, 100_000_000)


@dataclass
class Setting:
    """The folders and the sizes of the measurements."""

    bin: Path
    envs: Path
    work: Path
    batch_size: int
    num_batches: int
    """The number of batches per pass, for passes that need not cover all seeds."""
    passes: int
    threads: int
    timeout_s: float
    array_mib: int
    """The size of the arrays with which `bench` measures the limits of the machine."""

    @property
    def graph(self) -> Path:
        return self.work / "graph"

    def edgecut_parts(self, count: int) -> Path:
        return self.work / f"edgecut-{count}-parts"

    def dgl_parts(self, count: int) -> Path:
        return self.work / f"dgl-{count}-parts"

    def glt_parts(self, count: int) -> Path:
        return self.work / f"glt-{count}-parts"

    def python(self, env: str) -> str:
        return str(self.envs / env / "bin" / "python")

    def torch_python(self) -> str:
        """Returns a Python for a rival that needs nothing but PyTorch: also the one that the tests of Edgecut use."""
        in_envs = self.python("dgl")
        return in_envs if Path(in_envs).exists() else os.environ.get("EDGECUT_TORCH_PYTHON", "python3")


@dataclass
class Contestant:
    """A program that performs the work of a path."""

    name: str
    command: list[str]
    read: Callable[[Run], Figures]
    threads: int
    needs: tuple[str, str] | None = None
    """The Python of a rival, and the module that it must be able to import."""

    def environment_of_run(self) -> dict[str, str]:
        """Returns the environment with the number of threads for PyTorch, DGL, rayon and matrix products."""
        names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS", "MATMUL_NUM_THREADS")
        return {name: str(self.threads) for name in names} | {"DGLBACKEND": "pytorch"}

    def is_installed(self) -> bool:
        """Returns whether the rival's module can be imported."""
        return self.needs is None or can_import(*self.needs)


@cache
def can_import(python: str, module: str) -> bool:
    """Returns whether a Python exists and imports a module."""
    try:
        environment = os.environ | {"DGLBACKEND": "pytorch"}
        done = subprocess.run([python, "-c", f"import {module}"], capture_output=True, env=environment, cwd=HERE)
    except OSError:
        return False
    return done.returncode == 0


@dataclass
class Comparison:
    """A path, its rivals, and Edgecut."""

    name: str
    work: str
    """The unit of work that `seconds` refers to."""
    rivals: list[Contestant]
    ours: Contestant


@dataclass
class Preparation:
    """A preparation that runs once. Its command writes `result` last."""

    result: Path
    command: list[str]
    threads: int


def reports(run: Run) -> list[dict]:
    """Returns the JSON lines of our scripts. Output of libraries before and between them is skipped."""
    found = []
    for line in run.output.splitlines():
        _, brace, rest = line.partition('{"who": ')
        if brace:
            found.append(json.loads(brace + rest))
    return found


def read_batches(seconds: str) -> Callable[[Run], Figures]:
    """Returns a function that reads the report of a script for one machine. `seconds` names the field with the time."""

    def read(run: Run) -> Figures:
        (said,) = reports(run)
        figures = {"seconds": said[seconds], "edges": said["edges_per_batch"], "peak_rss_mb": said["peak_rss_mb"]}
        # The CPU time of a step alone is not measured.
        return figures if seconds == "step_s" else figures | {"cpu_s": said["cpu_s"]}

    return read


def read_ranks(run: Run) -> Figures:
    """Returns the means over the ranks that report batches, and the largest memory of any rank."""
    said = [line for line in reports(run) if line["who"] != "two_namespaces"]
    ranks = [line for line in said if "batch_s" in line]

    def mean(name: str) -> float:
        return sum(rank[name] for rank in ranks) / len(ranks)

    return {
        "seconds": mean("batch_s"),
        "cpu_s": mean("cpu_s"),
        "received_mb": mean("received_mb_per_batch"),
        "remote_nodes": mean("remote_nodes_per_batch"),
        "first_batch_s": mean("first_batch_s"),
        "peak_rss_mb": max(rank["peak_rss_mb"] for rank in said),
    }


def read_bench(file: Path, name: str, **params: object) -> Callable[[Run], Figures]:
    """Returns a function that reads the record with this name and parameters from the output of `bench --json`."""

    def read(_: Run) -> Figures:
        records = json.loads(file.read_text())
        (record,) = [r for r in records if r["name"] == name and r["params"].items() >= params.items()]
        figures = {
            "seconds": record["median_s"],
            "cpu_s": record["cpu_s"],
            "peak_rss_mb": record["peak_rss_mb"],
            "edges": record["details"].get("edges_per_batch"),
        }
        return {name: value for name, value in figures.items() if value is not None}

    return read


def read_until(run: Run) -> Figures:
    """Returns the seconds of training up to the accuracy, and the number of epochs."""
    said = next(line for line in reports(run) if "until_s" in line)
    return {"seconds": said["until_s"], "epochs": said["epochs"], "accuracy": said["accuracy"]}


FEWER_NODES = ("--sampler=labor", "--mixed-precision=bf16", "--feature-dtype=bf16")
"""The flags of `train` that exchange precision and independent neighborhoods for speed."""
UNTIL_ACCURACY, MOST_EPOCHS = 0.9, 20
"""The share of right validation nodes up to which the paths `ranks-accuracy` train, and the epochs that they may take."""

MODULES = {"dgl": "dgl", "glt": "glt_import"}
"""The module that a script needs, by the environment of setup.sh."""


def script(python: str, name: str, **flags: object) -> list[str]:
    """Returns the command of a Python script of this folder."""
    return [python, str(HERE / name), *as_flags(flags)]


def needs_of(setting: Setting, env: str) -> tuple[str, str]:
    """Returns what a rival in one of the environments needs."""
    return setting.python(env), MODULES[env]


def as_flags(flags: dict[str, object]) -> list[str]:
    """Converts `batch_size=4` to `--batch-size=4`."""
    return [f"--{name.replace('_', '-')}={value}" for name, value in flags.items()]


def in_two_namespaces(setting: Setting, command: list[str]) -> list[str]:
    """Returns the command that runs `command` for each of two ranks. The wrapper needs no Python packages."""
    return ["python3", str(HERE / "two_namespaces.py"), f"--timeout={setting.timeout_s}", "--", *command]


def bench(setting: Setting, name: str, what: str, command: str, **flags: object) -> Contestant:
    """Returns Edgecut's own benchmark. `name` is the record with the result."""
    file = setting.work / "bench.json"
    common = {"json": file, "threads": setting.threads, "reps": setting.passes, "array_mib": setting.array_mib}
    whole = [str(setting.bin / "bench"), command, *as_flags(common | flags)]
    return Contestant(what, whole, read_bench(file, name), setting.threads)


def on_batches(setting: Setting, name: str, command: str, num_neighbors: str, **flags: object) -> Contestant:
    """Returns one of Edgecut's benchmarks that sample batches from the graph in one part."""
    batches = {
        "data": setting.edgecut_parts(1),
        "num_neighbors": num_neighbors,
        "batch_size": setting.batch_size,
        "batches": setting.num_batches,
    }
    return bench(setting, name, "edgecut", command, **batches, **flags)


def rival_batches(setting: Setting, num_neighbors: str, mode: str) -> dict[str, object]:
    """Returns the flags of a rival's script for one machine."""
    return {
        "data": setting.graph,
        "mode": mode,
        "num_neighbors": num_neighbors,
        "batch_size": setting.batch_size,
        "num_batches": setting.num_batches,
        "passes": setting.passes,
    }


def loading(setting: Setting, name: str, record: str, mode: str, num_neighbors: str) -> Comparison:
    """Returns the comparison of sampling, or of sampling and features."""
    flags = rival_batches(setting, num_neighbors, mode)
    rivals = [
        Contestant(
            who,
            script(setting.python(env), file, **flags, **more),
            read_batches("batch_s"),
            setting.threads,
            needs_of(setting, env),
        )
        for who, env, file, more in [
            ("dgl", "dgl", "dgl_one.py", {"engine": "classic"}),
            ("graphbolt", "dgl", "dgl_one.py", {"engine": "graphbolt"}),
            ("glt", "glt", "glt_one.py", {}),
        ]
    ]
    ours = on_batches(setting, record, name.split("-")[0], num_neighbors)
    return Comparison(name, f"batch, {num_neighbors}", rivals, ours)


def training(setting: Setting, name: str, num_neighbors: str, hidden_channels: int, overlapped: bool) -> Comparison:
    """Returns the comparison of a training step alone, or with batches, also with a rival's prefetching worker."""
    flags = rival_batches(setting, num_neighbors, "train") | {"hidden_channels": hidden_channels}
    ahead = {"classic": ["worker"], "graphbolt": ["thread", "worker"]} if overlapped else {}
    read = read_batches("batch_s" if overlapped else "step_s")
    rivals = []
    for who, engine in [("dgl", "classic"), ("graphbolt", "graphbolt")]:
        for overlap in ["none", *ahead.get(engine, [])]:
            command = script(setting.python("dgl"), "dgl_one.py", **flags, engine=engine, overlap=overlap)
            title = who if overlap == "none" else f"{who}, {overlap}"
            rivals.append(Contestant(title, command, read, setting.threads, needs_of(setting, "dgl")))
    record = "step with batches overlapped" if overlapped else "step alone"
    ours = on_batches(setting, record, "step", num_neighbors, hidden=hidden_channels)
    return Comparison(name, f"batch, {num_neighbors}, hidden {hidden_channels}", rivals, ours)


def two_ranks(
    setting: Setting, name: str, mode: str, num_neighbors: str, hidden_channels: int, until: bool = False
) -> Comparison:
    """Returns the comparison of two ranks with one thread each, in their own network namespaces: of the time of a batch,
    or of the training up to an accuracy."""
    flags: dict[str, object] = {
        "mode": mode,
        "rank": "{rank}",
        "num_neighbors": num_neighbors,
        "hidden_channels": hidden_channels,
        "batch_size": setting.batch_size,
        "passes": setting.passes,
    }
    read = read_ranks
    if until:
        flags |= {"until_accuracy": UNTIL_ACCURACY, "passes": MOST_EPOCHS}
        read = read_until

    def rival(name: str, env: str, file: str, parts: Path) -> Contestant:
        command = script(setting.python(env), file, data=setting.graph, parts=parts, addrs="{addrs}", **flags)
        needs = needs_of(setting, env)
        return Contestant(name, in_two_namespaces(setting, command), read, threads=1, needs=needs)

    rivals = [rival("distdgl", "dgl", "dgl_dist.py", setting.dgl_parts(2))]
    if mode == "gather":
        # GraphLearn trains with PyG, whose layers compute on whole batches and take many times as long.
        rivals.append(rival("glt", "glt", "glt_dist.py", setting.glt_parts(2)))
    more: dict[str, object] = {"bin": setting.bin, "parts": setting.edgecut_parts(2), "addr0": "{addr0}"}
    if mode == "gather":
        more["num_batches"] = setting.num_batches
    command = ["python3", str(HERE / "edgecut_rank.py"), *as_flags(flags | more)]
    ours = Contestant("edgecut", in_two_namespaces(setting, command), read, threads=1)
    if mode == "train":
        # Not a rival, but a second setting of Edgecut beside the first one.
        fewer = in_two_namespaces(setting, command + [f"--train={flag}" for flag in FEWER_NODES])
        rivals.append(Contestant("edgecut, labor and bf16", fewer, read, threads=1))
    unit = f"training to {UNTIL_ACCURACY * 100:.0f} % of the validation nodes" if until else "batch and rank"
    work = f"{unit}, {num_neighbors}" + (f", hidden {hidden_channels}" if mode == "train" else "")
    return Comparison(name, work, rivals, ours)


def all_reduce(setting: Setting, num_bytes: int) -> Comparison:
    """Returns the comparison of an all-reduce between two processes over the loopback."""

    def read(run: Run) -> Figures:
        (said,) = reports(run)
        (size,) = said["sizes"]
        return {"seconds": size["median_s"], "cpu_s": size["cpu_s"]}

    python = setting.torch_python()
    gloo = Contestant("gloo", script(python, "gloo.py", bytes=num_bytes), read, threads=1, needs=(python, "torch"))
    ours = bench(setting, "all-reduce of f32", "edgecut", "all-reduce", bytes=num_bytes)
    return Comparison(f"all-reduce-{num_bytes}", f"call, {num_bytes} bytes, 2 ranks", [gloo], ours)


def partitioning(setting: Setting, num_parts: int) -> Comparison:
    """Returns the comparison of partitioning, from the graph's files to the parts' files."""

    def read_dgl(run: Run) -> Figures:
        (said,) = reports(run)
        return {"seconds": said["wall_s"]} | {name: said[name] for name in ("cpu_s", "peak_rss_mb", "edge_cut")}

    def read_ours(run: Run) -> Figures:
        said = json.loads(run.output[run.output.index("{") : run.output.rindex("}") + 1])
        cut = said["report"]["cut_fraction"]
        return {"seconds": run.wall_s, "cpu_s": run.cpu_s, "peak_rss_mb": run.peak_rss_mb, "edge_cut": cut}

    dgl = partition_with_dgl(setting, num_parts, setting.work / "again-dgl")
    ours = partition_with_edgecut(setting, num_parts, setting.work / "again-edgecut")
    return Comparison(
        f"partition-{num_parts}",
        f"graph, {num_parts} parts",
        [Contestant("dgl", dgl, read_dgl, setting.threads, needs_of(setting, "dgl"))],
        Contestant("edgecut", ours, read_ours, setting.threads),
    )


def partition_with_dgl(setting: Setting, num_parts: int, out: Path) -> list[str]:
    return script(setting.python("dgl"), "dgl_partition.py", data=setting.graph, num_parts=num_parts, out=out)


def partition_with_edgecut(setting: Setting, num_parts: int, out: Path) -> list[str]:
    flags = {"dataset": "graph", "dataset_dir": setting.graph, "num_partitions": num_parts, "output_dir": out}
    return [str(setting.bin / "partition-graph"), *as_flags(flags), "--overwrite", "--json"]


def preparations(setting: Setting) -> list[Preparation]:
    """Returns the preparations of the parts that the paths read, in an order in which they can run."""
    ours = [
        Preparation(out / "META.json", partition_with_edgecut(setting, count, out), setting.threads)
        for count in (1, 2)
        for out in [setting.edgecut_parts(count)]
    ]
    dgl = setting.dgl_parts(2)
    assignment = dgl / "part_of_nodes.npy"
    glt = setting.glt_parts(2)
    split = script(setting.python("glt"), "glt_partition.py", data=setting.graph, assignment=assignment, out=glt)
    return [
        *ours,
        Preparation(assignment, partition_with_dgl(setting, 2, dgl), setting.threads),
        Preparation(glt / "DONE", split, setting.threads),
    ]


def comparisons(setting: Setting) -> list[Comparison]:
    """Returns all comparisons, the quick ones first."""
    deep, wide = ("15,10,5", 256), ("25,10", 128)
    return [
        loading(setting, "sampling", "sampling in memory", "sample", deep[0]),
        loading(setting, "sampling-2", "sampling in memory", "sample", wide[0]),
        loading(setting, "gather", "sampling + features in memory", "gather", deep[0]),
        loading(setting, "gather-2", "sampling + features in memory", "gather", wide[0]),
        training(setting, "step", *deep, overlapped=False),
        training(setting, "step-2", *wide, overlapped=False),
        training(setting, "epoch", *deep, overlapped=True),
        training(setting, "epoch-2", *wide, overlapped=True),
        two_ranks(setting, "ranks-gather", "gather", *deep),
        two_ranks(setting, "ranks-train-2", "train", *wide),
        two_ranks(setting, "ranks-train", "train", *deep),
        two_ranks(setting, "ranks-accuracy-2", "train", *wide, until=True),
        two_ranks(setting, "ranks-accuracy", "train", *deep, until=True),
        *(all_reduce(setting, num_bytes) for num_bytes in ALL_REDUCE_BYTES),
        *(partitioning(setting, num_parts) for num_parts in (2, 4)),
    ]

"""Measures what features, weights and times of edges cost in training, and attention over several edge types (HGT).

    python python/benches/edge_costs.py FOLDER --bin target/release [--num-nodes 50000] [--reps 3]

FOLDER gets generated graphs in two parts, one with features, weights and times of edges and one without. Two processes train
each model for some epochs, all models in turn, and the program prints the least seconds of computing per epoch, the least
seconds of the whole epoch, and the megabytes that the processes received from each other. The ratio is to the first line of a
model. Models that read no values of edges train on both graphs: their times must not differ.
"""

import argparse
import json
import pathlib
import subprocess

VARIANTS = [
    ("sage", "--no-edge-features"),
    ("sage", ""),
    ("sage", "--edge-weights --no-edge-features"),
    ("gcn", ""),
    ("gcn", "--edge-weights"),
    ("gat", "--no-edge-features"),
    ("gat", ""),
    ("gatv2", "--no-edge-features"),
    ("gatv2", ""),
    ("gatv2", "--time-attr edge_time --no-edge-features"),
    ("gatv2", "--time-attr edge_time --time-encoding 8 --no-edge-features"),
    ("transformer", "--no-edge-features"),
    ("transformer", ""),
    ("hgt", "--no-edge-features"),
    ("hgt", ""),
    ("rgcn", "--no-edge-features"),
    ("rgcn", ""),
]
HEADS = ("gat", "gatv2", "transformer", "hgt")


def epochs_of(programs, parts, model, flags, more):
    """Train, and return the lines of the epochs."""
    metrics = parts.parent / "metrics.jsonl"
    heads = ["--heads", "4"] if model in HEADS else []
    command = [programs / "train", "node", "--dataset-root-dir", parts, "--nproc-per-node", "2", "--model", model, *heads,
               *more.split(), *flags.split(), "--metrics", metrics, "--quiet"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    lines = map(json.loads, metrics.read_text().splitlines())
    return [line for line in lines if line["event"] == "epoch"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("target/release"))
    parser.add_argument("--num-nodes", type=int, default=50_000)
    parser.add_argument("--degree", type=int, default=20)
    parser.add_argument("--reps", type=int, default=3)
    parser.add_argument("--models", nargs="+", help="only these")
    parser.add_argument("--flags", default="--num-neighbors 10,5 --eval-num-neighbors 1,1 --hidden-channels 64 "
                        "--batch-size 512 --num-epochs 3 --eval-every 3 --dropout 0")
    args = parser.parse_args()
    parts = {}
    for name, more in [("plain", []), ("edges", ["--edge-attributes"])]:
        parts[name] = args.folder / name
        flags = ["--avg-num-nodes", args.num_nodes, "--avg-degree", args.degree, "--num-partitions", 2, "--overwrite", *more]
        command = [args.bin / "partition-graph", "--dataset", "fake", "--output-dir", parts[name], *map(str, flags)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    runs = [(name, *variant) for variant in VARIANTS for name in parts]
    # A model can read values of edges on the graph that has them, and reads none of them on the other one.
    runs = [run for run in runs if run[0] == "edges" or run[2] == "--no-edge-features" or run[1:] == ("gcn", "")]
    runs = [run for run in runs if not args.models or run[1] in args.models]
    least = {}
    for _ in range(args.reps):
        for run in runs:
            name, model, flags = run
            # The values of edges are there, but not asked for, unless the model reads them by default.
            flags = "" if name == "plain" else flags
            for line in epochs_of(args.bin, parts[name], model, flags, args.flags)[1:]:
                found = (line["compute_seconds"], line["seconds"], line["remote_bytes"] / 1e6)
                least[run] = tuple(map(min, least.get(run, found), found))
    first = {}
    for (name, model, flags), (computing, seconds, megabytes) in least.items():
        base = first.setdefault(model, (computing, megabytes))
        read = "values of edges not read" if model == "gcn" else "features of edges"
        what = "graph without values of edges" if name == "plain" else flags or read
        print(f"{model:12} {what:58} {computing:7.3f} s ({computing / base[0]:4.2f})  {seconds:7.3f} s  "
              f"{megabytes:8.2f} MB ({megabytes / base[1]:4.2f})")


if __name__ == "__main__":
    main()

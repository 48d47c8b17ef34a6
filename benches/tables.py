#!/usr/bin/env python3
"""Writes a folder of arrays as CSV and Parquet tables whose ids are texts, and partitions all three.

    benches/tables.py ARRAYS WORK [--bin target/release] [--num-files 4] [-- FLAGS...]

ARRAYS has edge_index.npy, x.npy, y.npy and optionally train_idx.npy, valid_idx.npy and test_idx.npy. The tables are made once
and kept in WORK. The parts must have the same arrays. A line of JSON per run has its seconds, the seconds of reading, and
its peak memory. FLAGS are flags of partition-graph, such as `--memory-limit 1GiB`. Needs NumPy and pyarrow.
"""

import argparse
import filecmp
import json
import pathlib
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet

SPLITS = ("train", "valid", "test")


def names(nodes):
    """Return the ids of nodes."""
    digits = pa.compute.utf8_lpad(pa.array(nodes).cast(pa.string()), 9, "0")
    return pa.compute.binary_join_element_wise("paper", digits, "/")


def tables(arrays, num_files):
    """Yield the name, the number and the columns of each file."""
    x, y = (np.load(arrays / f"{name}.npy", mmap_mode="r") for name in ("x", "y"))
    edges = np.load(arrays / "edge_index.npy", mmap_mode="r")
    for number, nodes in enumerate(np.array_split(np.arange(len(x)), num_files)):
        columns = {"id": names(nodes), "label": pa.array(np.asarray(y[nodes[0] : nodes[-1] + 1]).astype(np.int64))}
        rows = np.asarray(x[nodes[0] : nodes[-1] + 1])
        yield "nodes", number, columns, rows
    for number, edge in enumerate(np.array_split(np.arange(edges.shape[1]), num_files)):
        ends = [names(np.asarray(end[edge[0] : edge[-1] + 1]).astype(np.int64)) for end in edges]
        yield "edges", number, {"from": ends[0], "to": ends[1]}, None
    for split in SPLITS:
        path = arrays / f"{split}_idx.npy"
        if path.exists():
            yield split, 0, {"id": names(np.load(path).astype(np.int64))}, None


def write(arrays, work, num_files):
    for name, number, columns, rows in tables(arrays, num_files):
        file = f"{name}-{number:03}"
        of_parquet = dict(columns)
        if rows is not None:
            of_parquet["x"] = pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), rows.shape[1])
        pa.parquet.write_table(pa.table(of_parquet), work / "parquet" / f"{file}.parquet")
        if name in SPLITS:
            continue
        if rows is not None:
            columns |= {f"x{at}": pa.array(np.ascontiguousarray(rows[:, at])) for at in range(rows.shape[1])}
        pa.csv.write_csv(pa.table(columns), work / "csv" / f"{file}.csv")


def conf(arrays, form):
    """Return the configuration of the tables in the folder `form`."""
    ending = "csv" if form == "csv" else "parquet"
    width = np.load(arrays / "x.npy", mmap_mode="r").shape[1]
    feature_col = "x" if form == "parquet" else [f"x{at}" for at in range(width)]
    splits = {s: f"parquet/{s}-000.parquet" for s in SPLITS if (arrays / f"{s}_idx.npy").exists()}
    label = {"task_type": "classification", "label_col": "label"}
    label |= {"custom_split_filenames": {**splits, "column": "id"}}
    return {
        "version": "gconstruct-v0.1",
        "nodes": [
            {
                "node_type": "node",
                "node_id_col": "id",
                "files": f"{form}/nodes-*.{ending}",
                "features": [{"feature_col": feature_col, "feature_name": "x"}],
                "labels": [label],
            }
        ],
        "edges": [
            {
                "relation": ["node", "to", "node"],
                "files": f"{form}/edges-*.{ending}",
                "source_id_col": "from",
                "dest_id_col": "to",
            }
        ],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("arrays", type=pathlib.Path)
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("--bin", type=pathlib.Path, default="target/release")
    parser.add_argument("--num-files", type=int, default=4, help="files per table (default 4)")
    parser.add_argument("--num-partitions", default="2")
    words = sys.argv[1:]
    end = words.index("--") if "--" in words else len(words)
    flags = words[end + 1 :]
    args = parser.parse_args(words[:end])
    if not (args.work / "parquet.json").exists():
        for form in ("csv", "parquet"):
            (args.work / form).mkdir(parents=True)
        write(args.arrays, args.work, args.num_files)
        for form in ("csv", "parquet"):
            (args.work / f"{form}.json").write_text(json.dumps(conf(args.arrays, form), indent=1))
    made = {}
    for form in ("npy", "csv", "parquet"):
        made[form] = args.work / f"parts-{form}"
        source = ["--dataset-dir", args.arrays] if form == "npy" else ["--conf", args.work / f"{form}.json"]
        command = [args.bin / "partition-graph", "--dataset", "graph", *source, "--output-dir", made[form]]
        command += ["--num-partitions", args.num_partitions, "--overwrite", "--json", *flags]
        start = time.perf_counter()
        output = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        seconds = round(time.perf_counter() - start, 1)
        print(
            json.dumps(
                {
                    "from": form,
                    "seconds": seconds,
                    "of_phases": output["seconds"],
                    "peak_gb": round(output["peak_memory_bytes"] / 1e9, 2),
                    "anonymous_gb": round(output["peak_anonymous_bytes"] / 1e9, 2),
                }
            ),
            flush=True,
        )
        for path in sorted(made["npy"].rglob("*.npy")):
            other = made[form] / path.relative_to(made["npy"])
            if not filecmp.cmp(path, other, shallow=False):
                raise SystemExit(f"error: {other} differs from {path}")
    print("all parts have the same arrays")


if __name__ == "__main__":
    main()

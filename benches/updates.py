#!/usr/bin/env python3
"""Updates parts day by day, beside partitioning all tables again, and trains a model with warm starts beside new models.

    benches/updates.py WORK [--bin target/release] [--users 70000] [--items 30000] [--purchases 500000] [--days 10]
                       [--again-days 1,10] [--train-days 1,10] [--partitions 2] [--scratch-dir DIR]

A shop has users and items in 50 communities. 80 % of the purchases are within a community. Each day adds 1 % of the users and of the
items, and 3 % of the purchases. Ids are texts. A line of JSON per day has the seconds, the CPU seconds, the peak memory, the bytes of
tables that were read and that the parts have, the cut and the balance of the update and, on the days of --again-days (all by
default), of partitioning all tables so far by METIS. On the days of --train-days, three models are trained on the updated parts: one
continues the model of the day before it for an epoch, and two start from nothing, for one epoch and for as many epochs as the first
model had. Needs NumPy and pyarrow.
"""

import argparse
import json
import pathlib
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet

COMMUNITIES = 50
WIDTH = 8


class Shop:
    """The tables so far."""

    def __init__(self, work, seed=1):
        self.work = work
        self.random = np.random.default_rng(seed)
        self.centers = self.random.normal(size=(COMMUNITIES, WIDTH))
        self.communities = {"user": np.empty(0, np.int64), "item": np.empty(0, np.int64)}

    def write(self, day, users, items, purchases):
        """Writes the tables of a day, and returns their bytes."""
        folder = self.work / f"day-{day:02}"
        folder.mkdir()
        for name, number in (("user", users), ("item", items)):
            first = len(self.communities[name])
            new = self.random.integers(COMMUNITIES, size=number)
            self.communities[name] = np.concatenate([self.communities[name], new])
            features = (self.centers[new] + self.random.normal(size=(number, WIDTH)) * 2).astype(np.float32)
            ids = [f"{name}-{at:09}" for at in range(first, first + number)]
            rows = pa.FixedSizeListArray.from_arrays(pa.array(features.reshape(-1)), WIDTH)
            pa.parquet.write_table(pa.table({"id": ids, "x": rows}), folder / f"{name}s.parquet")
        by_community = np.argsort(self.communities["item"], kind="stable")
        starts = np.searchsorted(self.communities["item"][by_community], np.arange(COMMUNITIES + 1))
        who = self.random.integers(len(self.communities["user"]), size=purchases)
        of = self.communities["user"][who]
        size = starts[of + 1] - starts[of]
        within = by_community[starts[of] + (self.random.random(purchases) * size).astype(np.int64)]
        anywhere = self.random.integers(len(by_community), size=purchases)
        what = np.where(self.random.random(purchases) < 0.8, within, anywhere)
        table = {"who": [f"user-{at:09}" for at in who], "what": [f"item-{at:09}" for at in what]}
        pa.parquet.write_table(pa.table(table), folder / "purchases.parquet")
        return sum(path.stat().st_size for path in folder.iterdir())

    def conf(self, name, days):
        """Writes the configuration of the tables of some days."""
        files = lambda table: [f"day-{day:02}/{table}.parquet" for day in days]
        nodes = lambda name: {
            "node_type": name,
            "node_id_col": "id",
            "files": files(f"{name}s"),
            "features": [{"feature_col": "x", "transform": {"name": "z_score"}}],
        }
        edges = {
            "relation": ["user", "buys", "item"],
            "files": files("purchases"),
            "source_id_col": "who",
            "dest_id_col": "what",
            "labels": [{"task_type": "link_prediction", "split_pct": [0.9, 0.05, 0.05]}],
        }
        path = self.work / f"{name}.json"
        path.write_text(json.dumps({"nodes": [nodes("user"), nodes("item")], "edges": [edges]}, indent=1))
        return path


# A process starts with the peak memory of the one that starts it, so a small one starts the measured program.
MEASURE = """
import json, resource, subprocess, sys, time
start = time.perf_counter()
status = subprocess.run(sys.argv[1:]).returncode
used = resource.getrusage(resource.RUSAGE_CHILDREN)
costs = {
    "seconds": round(time.perf_counter() - start, 2),
    "cpu_seconds": round(used.ru_utime + used.ru_stime, 2),
    "peak_mb": round(used.ru_maxrss / 1000),
}
print(json.dumps(costs), file=sys.stderr)
sys.exit(status)
"""


def run(command):
    """Runs a program, and returns its JSON, and its seconds and peak memory."""
    measured = [sys.executable, "-c", MEASURE, *map(str, command)]
    done = subprocess.run(measured, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return json.loads(done.stdout), json.loads(done.stderr.splitlines()[-1])


def bytes_of(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("--bin", type=pathlib.Path, default="target/release")
    for flag, default in (("users", 70000), ("items", 30000), ("purchases", 500000), ("days", 10), ("partitions", 2)):
        parser.add_argument(f"--{flag}", type=int, default=default)
    parser.add_argument("--again-days", help="days of partitioning all tables (default: all)")
    parser.add_argument("--train-days", default="1,10")
    parser.add_argument("--scratch-dir", help="the folder of scratch files of updates")
    parser.add_argument("--epochs", type=int, default=3, help="epochs of the first model (default 3)")
    args = parser.parse_args()
    args.work.mkdir(parents=True)
    shop = Shop(args.work)
    program = args.bin / "partition-graph"
    parts = args.work / "parts"

    def partition(conf, out):
        command = [program, "--conf", conf, "--dataset", "shop", "--output-dir", out, "--overwrite", "--json"]
        return run([*command, "--num-partitions", args.partitions, "--add-reverse-edges"])

    def train(save, more):
        command = [args.bin / "train", "link", "--dataset-root-dir", parts, "--num-neighbors", "5,3", "--json"]
        command += ["--hidden-channels", 32, "--batch-size", 2048, "--lr", "0.005", "--dropout", 0, "--save-model", save]
        result, costs = run([*command, *more])
        return {"seconds": costs["seconds"], "test": result.get("test")}

    again_days = set(range(1, args.days + 1))
    if args.again_days is not None:
        again_days = {int(day) for day in args.again_days.split(",") if day}
    scratch = ["--scratch-dir", args.scratch_dir] if args.scratch_dir else []
    train_days = {int(day) for day in args.train_days.split(",") if day}
    num_bytes = shop.write(0, args.users, args.items, args.purchases)
    made, costs = partition(shop.conf("day-00", [0]), parts)
    line = {"day": 0, "table_bytes": num_bytes, "part_bytes": bytes_of(parts), "partition": costs}
    line["cut"] = made["report"]["cut_fraction"]
    model = args.work / "model-0.safetensors"
    if train_days:
        line["first_model"] = train(model, ["--num-epochs", args.epochs])
    print(json.dumps(line), flush=True)
    total = num_bytes
    for day in range(1, args.days + 1):
        num_bytes = shop.write(day, args.users // 100, args.items // 100, args.purchases * 3 // 100)
        total += num_bytes
        conf = shop.conf(f"day-{day:02}", [day])
        updated, costs = run([program, "update", parts, "--conf", conf, "--json", *scratch])
        line = {
            "day": day,
            "update": {**costs, "table_bytes": num_bytes, "part_bytes": bytes_of(parts), **updated["quality"]["after"]},
            "reasons": updated["quality"]["reasons"],
        }
        if day in again_days:
            again, costs = partition(shop.conf("all", range(day + 1)), args.work / "again")
            line["again"] = {
                **costs,
                "table_bytes": total,
                "cut_fraction": again["report"]["cut_fraction"],
                "node_balance": again["balance"]["nodes"],
                "edge_balance": again["balance"]["edges"],
            }
        if day in train_days:
            warm = args.work / f"model-{day}.safetensors"
            line["warm"] = train(warm, ["--num-epochs", 1, "--init-from", model])
            line["new_1_epoch"] = train(args.work / "new.safetensors", ["--num-epochs", 1])
            line["new"] = train(args.work / "new-long.safetensors", ["--num-epochs", args.epochs])
            model = warm
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()

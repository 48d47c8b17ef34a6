"""Trains on generated graphs whose best possible score is known, and on a heterophilous grid, over several seeds.

    python python/benches/noise_floors.py FOLDER --bin target/release [--sets grid labels numbers] [--seeds 5]

FOLDER gets a folder of arrays and the parts of each set:

- grid: a field of Minesweeper with 10,000 cells and their 8 neighbors, a fifth of them mines (Platonov et al., "A critical
  look at the evaluation of GNNs under heterophily", ICLR 2023). Half of the cells show the number of mines beside them. The
  score is the ROC AUC; the paper has 93.5 for GraphSAGE on a field of its own.
- labels: five labels per node that follow from its features and from its neighbors. A tenth of the labels is flipped. The
  score is the share of correct labels. The labels before the flips have the best possible one.
- numbers: a number per node that follows from its features and from its neighbors, with Gaussian noise. The score is the RMSE.
  The numbers without noise have the best possible one.

Prints the mean and the standard deviation over the seeds of the training, and the best possible score on the same test nodes.
"""

import argparse
import json
import pathlib
import subprocess

import numpy as np

SHARES = (0.5, 0.25, 0.25)
FLAGS = {
    "grid": "--model sage --encoder-decoder --residual --layer-norm --hidden-channels 128 --num-neighbors=-1,-1,-1,-1 "
    "--batch-size 512 --num-epochs 60 --lr 0.002 --lr-schedule cosine --dropout 0.2 --metric roc-auc",
    "labels": "--model sage --num-neighbors=-1 --batch-size 256 --num-epochs 40 --lr 0.05 --lr-schedule cosine --dropout 0 "
    "--metric accuracy",
    "numbers": "--model sage --encoder-decoder --hidden-channels 64 --num-neighbors=-1 --batch-size 256 --num-epochs 40 "
    "--lr 0.01 --lr-schedule cosine --dropout 0 --weight-decay 0.0001 --metric rmse",
}


def write(folder, draw, arrays, num_nodes):
    """Write arrays and a random division of the nodes. Return the test nodes."""
    folder.mkdir(parents=True, exist_ok=True)
    order = draw.permutation(num_nodes)
    ends = np.round(np.cumsum(SHARES) * num_nodes).astype(int)
    for name, ids in zip(("train_idx", "val_idx", "test_idx"), np.split(order, ends[:-1])):
        arrays[name] = np.sort(ids)
    for name, values in arrays.items():
        np.save(folder / f"{name}.npy", values)
    return arrays["test_idx"]


def make_grid(folder, draw):
    """Write a field of Minesweeper. Its best possible score is not known."""
    side = 100
    cells = np.arange(side * side).reshape(side, side)
    sources, destinations = [], []
    for down, right in [(0, 1), (1, 0), (1, 1), (1, -1)]:
        columns = slice(0, side - 1) if right > 0 else slice(1, side) if right < 0 else slice(0, side)
        one = cells[: side - down, columns]
        other = cells[down:, slice(columns.start + right, columns.stop + right)]
        for src, dst in [(one, other), (other, one)]:
            sources.append(src.ravel())
            destinations.append(dst.ravel())
    src, dst = np.concatenate(sources), np.concatenate(destinations)
    mines = np.zeros(side * side, np.int64)
    mines[draw.choice(side * side, side * side // 5, replace=False)] = 1
    beside = np.bincount(dst, weights=mines[src], minlength=side * side).astype(int)
    x = np.zeros((side * side, 10), np.float32)
    is_shown = draw.random(side * side) < 0.5
    x[np.flatnonzero(is_shown), beside[is_shown]] = 1
    x[~is_shown, 9] = 1
    write(folder, draw, {"x": x, "y": mines, "edge_index": np.stack([src, dst])}, side * side)


def make_random(draw):
    """Return the features, the edges and the means over the neighbors of a random graph."""
    num_nodes, degree = 20_000, 10
    x = draw.normal(size=(num_nodes, 8))
    edge_index = draw.integers(0, num_nodes, (2, num_nodes * degree))
    received = np.bincount(edge_index[1], minlength=num_nodes)
    sums = np.zeros_like(x)
    np.add.at(sums, edge_index[1], x[edge_index[0]])
    return x, edge_index, sums / np.maximum(received, 1)[:, None]


def make_labels(folder, draw):
    """Write labels. Return the share of them that is correct before the flips, on the test nodes."""
    x, edge_index, means = make_random(draw)
    clean = (x[:, :5] + 3 * means[:, 3:] > 0).astype(np.float32)
    targets = np.where(draw.random(clean.shape) < 0.1, 1 - clean, clean).astype(np.float32)
    arrays = {"x": x.astype(np.float32), "edge_index": edge_index, "targets": targets}
    test = write(folder, draw, arrays, len(x))
    return (clean == targets)[test].mean()


def make_numbers(folder, draw):
    """Write numbers. Return the error of the numbers without noise, on the test nodes."""
    x, edge_index, means = make_random(draw)
    clean = np.abs(x[:, 0]) + 3 * means[:, 1] - x[:, 2]
    targets = clean + 0.5 * draw.normal(size=len(x))
    arrays = {"x": x.astype(np.float32), "edge_index": edge_index, "targets": targets.astype(np.float32)}
    test = write(folder, draw, arrays, len(x))
    return np.sqrt(((clean - targets)[test] ** 2).mean())


MAKERS = {"grid": make_grid, "labels": make_labels, "numbers": make_numbers}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("target/release"))
    parser.add_argument("--sets", nargs="+", choices=list(MAKERS), default=list(MAKERS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--flags", default="", help="further flags of train node")
    args = parser.parse_args()
    for name in args.sets:
        folder, parts = args.folder / name, args.folder / f"{name}-parts"
        best = MAKERS[name](folder, np.random.default_rng(1))
        named = ["--dataset", name, "--dataset-dir", folder, "--num-partitions", args.processes, "--output-dir", parts]
        subprocess.run([args.bin / "partition-graph", *map(str, named), "--overwrite"], check=True, stdout=subprocess.DEVNULL)
        scores = []
        for seed in range(args.seeds):
            flags = ["--nproc-per-node", str(args.processes), "--seed", str(seed), "--quiet", "--json"]
            command = [args.bin / "train", "node", "--dataset-root-dir", parts, *flags, *FLAGS[name].split()]
            done = subprocess.run([*command, *args.flags.split()], check=True, stdout=subprocess.PIPE, text=True)
            scores.append(json.loads(done.stdout.strip().splitlines()[-1])["test_metric"])
        known = "" if best is None else f", best possible {best:.4f}"
        print(f"{name}: {np.mean(scores):.4f} ± {np.std(scores):.4f}{known}", flush=True)


if __name__ == "__main__":
    main()

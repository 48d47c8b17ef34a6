"""Trains the same GraphSAGE with Edgecut's loader and with PyG's, and compares the results over several seeds.

    python python/benches/accuracy.py DATA cora amazon-photo tolokers --seeds 10

DATA has a folder in OGB's raw layout per dataset. PyG's loader needs pyg-lib or torch-sparse. Only the training batches
differ: initial weights, steps and the evaluation, on the whole graph with all neighbors, are the same code. The result of a
run is the test score at the epoch with the best validation score: accuracy, or ROC AUC for tolokers.
"""

import argparse
import dataclasses
import pathlib

import numpy as np
import torch
import torch.nn.functional as F
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader
from torch_geometric.nn import GraphSAGE

import edgecut


@dataclasses.dataclass(frozen=True)
class Settings:
    split: str
    hidden_channels: int
    fan_outs: tuple
    batch_size: int
    dropout: float
    lr: float
    num_epochs: int
    weight_decay: float = 0.0
    is_binary: bool = False


SETTINGS = {
    "cora": Settings("public", 64, (15, 10), 64, 0.5, 0.01, 40, weight_decay=5e-4),
    "amazon-photo": Settings("random-60-20-20", 128, (15, 10), 512, 0.5, 0.003, 20),
    "tolokers": Settings("official-0", 64, (10, 10, 10), 1024, 0.2, 0.003, 12, is_binary=True),
}


def read(folder, split):
    """Return a dataset in OGB's raw layout as PyG's ``Data``, and the node ids of its splits."""
    table = lambda path, dtype: torch.from_numpy(np.loadtxt(folder / path, delimiter=",", dtype=dtype, ndmin=1))
    data = Data(
        x=table("raw/node-feat.csv.gz", np.float32),
        y=table("raw/node-label.csv.gz", np.float32).long(),
        edge_index=table("raw/edge.csv.gz", np.int64).T.contiguous(),
    )
    return data, {name: table(f"split/{split}/{name}.csv.gz", np.int64) for name in ("train", "valid", "test")}


def score(logits, y, is_binary):
    """Return the accuracy, or the area under the ROC curve."""
    if not is_binary:
        return float((logits.argmax(dim=1) == y).float().mean())
    margin = (logits[:, 1] - logits[:, 0]).numpy()
    positives, negatives = np.sort(margin[y == 1]), np.sort(margin[y == 0])
    # The share of pairs of a positive and a negative in the right order. Equal ones count half.
    below = np.searchsorted(negatives, positives, "left") + np.searchsorted(negatives, positives, "right")
    return float(below.sum() / 2 / (len(positives) * len(negatives)))


def train(loader, data, splits, settings, seed):
    """Return the test score at the best epoch."""
    torch.manual_seed(seed)
    model = GraphSAGE(
        data.num_features,
        settings.hidden_channels,
        num_layers=len(settings.fan_outs),
        out_channels=int(data.y.max()) + 1,
        dropout=settings.dropout,
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=settings.lr, weight_decay=settings.weight_decay)
    best = (0.0, 0.0)
    for _ in range(settings.num_epochs):
        model.train()
        for batch in loader:
            optimizer.zero_grad()
            out = model(batch.x, batch.edge_index)[: batch.batch_size]
            F.cross_entropy(out, batch.y[: batch.batch_size]).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            logits = model(data.x, data.edge_index)
        scores = [score(logits[splits[name]], data.y[splits[name]], settings.is_binary) for name in ("valid", "test")]
        best = max(best, tuple(scores), key=lambda scores: scores[0])
    return best[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=pathlib.Path, help="the folder of the datasets")
    parser.add_argument("datasets", nargs="+", choices=SETTINGS)
    parser.add_argument("--seeds", type=int, default=5, help="number of runs per loader (default 5)")
    args = parser.parse_args()
    for name in args.datasets:
        compare(args.data / name, SETTINGS[name], args.seeds)


def compare(folder, settings, num_seeds):
    data, splits = read(folder, settings.split)
    scores = {"edgecut": [], "pyg": []}
    with edgecut.open(folder, split=settings.split) as store:
        for seed in range(num_seeds):
            shared = {"batch_size": settings.batch_size, "shuffle": True}
            loaders = {
                "edgecut": edgecut.NeighborLoader(store, list(settings.fan_outs), "train", seed=seed, **shared),
                "pyg": NeighborLoader(data, list(settings.fan_outs), input_nodes=splits["train"], **shared),
            }
            for loader, batches in loaders.items():
                scores[loader].append(100 * train(batches, data, splits, settings, seed))
    results = {loader: (np.mean(of_loader), np.std(of_loader, ddof=1)) for loader, of_loader in scores.items()}
    difference = abs(results["edgecut"][0] - results["pyg"][0])
    texts = [f"{loader} {mean:.2f} ± {deviation:.2f}" for loader, (mean, deviation) in results.items()]
    verdict = "within" if difference <= results["pyg"][1] else "outside"
    print(f"{folder.name}: {', '.join(texts)}; {verdict} one standard deviation of PyG over {num_seeds} seeds", flush=True)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Trains PyG's GraphSAGE with its NeighborLoader on a GPU, on a graph that partition-graph wrote as one part."""

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader
from torch_geometric.nn import GraphSAGE


def read(parts: Path) -> tuple[Data, torch.Tensor]:
    """Reads the graph and its training nodes."""
    nodes, edges = parts / "part_0/nodes/node", parts / "part_0/edges/node__to__node"
    indptr = np.load(edges / "indptr.npy").astype(np.int64)
    sources = torch.from_numpy(np.load(edges / "indices.npy").astype(np.int64))
    targets = torch.from_numpy(np.repeat(np.arange(len(indptr) - 1), np.diff(indptr)))
    x = torch.from_numpy(np.load(nodes / "features.npy"))
    y = torch.from_numpy(np.load(nodes / "labels.npy"))
    train = torch.from_numpy(np.load(nodes / "train.npy").astype(np.int64))
    return Data(x=x, y=y, edge_index=torch.stack([sources, targets])), train


def main() -> None:
    """Trains and prints the seconds of each epoch."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", type=Path, help="the folder with META.json")
    parser.add_argument("--num-neighbors", type=lambda text: [int(n) for n in text.split(",")], default=[15, 10, 5])
    parser.add_argument("--hidden-channels", type=int, default=256)
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--num-epochs", type=int, default=5)
    parser.add_argument("--num-workers", type=int, default=8)
    args = parser.parse_args()
    assert json.loads((args.parts / "META.json").read_text())["num_parts"] == 1, "this script needs a graph in one part"
    data, train = read(args.parts)
    device = torch.device("cuda")
    loader = NeighborLoader(
        data,
        num_neighbors=args.num_neighbors,
        input_nodes=train,
        batch_size=args.batch_size,
        shuffle=True,
        num_workers=args.num_workers,
        persistent_workers=True,
        pin_memory=True,
    )
    classes = int(data.y.max()) + 1
    model = GraphSAGE(data.num_features, args.hidden_channels, len(args.num_neighbors), classes, dropout=0.5).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.0004)
    for epoch in range(args.num_epochs):
        start = time.perf_counter()
        for batch in loader:
            batch = batch.to(device, non_blocking=True)
            optimizer.zero_grad()
            out = model(batch.x, batch.edge_index)[: batch.batch_size]
            functional.cross_entropy(out, batch.y[: batch.batch_size]).backward()
            optimizer.step()
        torch.cuda.synchronize()
        print(f"pyg: epoch {epoch + 1}/{args.num_epochs}: {time.perf_counter() - start:.2f} s", flush=True)


if __name__ == "__main__":
    main()

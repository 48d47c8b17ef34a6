#!/usr/bin/env python3
"""Partitions a graph with METIS through `dgl.distributed.partition_graph`, and writes the parts."""

import argparse
import json
import os
import time
from pathlib import Path

import dgl
import numpy as np
import torch

from measure import cpu_seconds, peak_rss_mb, report
from npy_graph import NpyGraph, read_npy_graph

GRAPH_NAME = "g"


def partition(graph: NpyGraph, num_parts: int, out: Path) -> torch.Tensor:
    """Writes the parts with balanced nodes and training nodes. Returns the old id of every new id."""
    g = dgl.graph(tuple(torch.from_numpy(graph.edge_index)), num_nodes=graph.num_nodes)
    train_mask, valid_mask = (torch.from_numpy(graph.mask(nodes)) for nodes in (graph.train_idx, graph.valid_idx))
    g.ndata["x"], g.ndata["y"] = torch.from_numpy(graph.x), torch.from_numpy(graph.y)
    g.ndata["train_mask"], g.ndata["valid_mask"] = train_mask, valid_mask
    old_ids, _ = dgl.distributed.partition_graph(
        g, GRAPH_NAME, num_parts, str(out), part_method="metis", balance_ntypes=train_mask.long(), return_mapping=True
    )
    return old_ids


def part_of_nodes(old_ids: np.ndarray, config: Path) -> np.ndarray:
    """Returns the part of every node of the original graph."""
    (ranges,) = json.loads(config.read_text())["node_map"].values()
    parts = np.empty(len(old_ids), dtype=np.int64)
    for part, (begin, end) in enumerate(ranges):
        parts[old_ids[begin:end]] = part
    return parts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the folder with the graph's .npy files")
    parser.add_argument("--num-parts", type=int, default=2)
    parser.add_argument("--out", type=Path, required=True, help="the folder for the parts")
    args = parser.parse_args()
    start, cpu = time.perf_counter(), cpu_seconds(os.getpid())
    graph = read_npy_graph(args.data)
    old_ids = partition(graph, args.num_parts, args.out)
    wall, cpu, peak = time.perf_counter() - start, cpu_seconds(os.getpid()) - cpu, peak_rss_mb()
    parts = part_of_nodes(old_ids.numpy(), args.out / f"{GRAPH_NAME}.json")
    # The partitioning for GraphLearn reuses this assignment.
    np.save(args.out / "part_of_nodes.npy", parts)
    sources, targets = parts[graph.edge_index]
    report(
        "dgl",
        num_parts=args.num_parts,
        wall_s=round(wall, 2),
        cpu_s=round(cpu, 2),
        peak_rss_mb=peak,
        edge_cut=round(float((sources != targets).mean()), 5),
        nodes_per_part=np.bincount(parts).tolist(),
        train_nodes_per_part=np.bincount(parts[graph.train_idx]).tolist(),
    )


if __name__ == "__main__":
    main()

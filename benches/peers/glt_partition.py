#!/usr/bin/env python3
"""Writes the parts of GraphLearn-for-PyTorch for a given assignment of nodes, such as that of dgl_partition.py.

GraphLearn's own partitioners assign nodes at random or by the frequency with which they are sampled."""

import argparse
from pathlib import Path

import numpy as np
import torch

from glt_import import glt
from npy_graph import read_npy_graph

DONE = "DONE"
"""The name of a file that is written last."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the folder with the graph's .npy files")
    parser.add_argument("--assignment", type=Path, required=True, help="the part of every node, as .npy")
    parser.add_argument("--out", type=Path, required=True, help="the folder for the parts")
    args = parser.parse_args()
    part_of_nodes = torch.from_numpy(np.load(args.assignment))
    num_parts = int(part_of_nodes.max()) + 1

    class GivenPartitioner(glt.partition.RandomPartitioner):
        """A partitioner with a given assignment of nodes."""

        def _partition_node(self, ntype: str | None = None) -> tuple[list[torch.Tensor], torch.Tensor]:
            return [(part_of_nodes == part).nonzero().view(-1) for part in range(num_parts)], part_of_nodes

    graph = read_npy_graph(args.data)
    args.out.mkdir(parents=True, exist_ok=True)
    partitioner = GivenPartitioner(
        str(args.out),
        num_parts,
        graph.num_nodes,
        torch.from_numpy(graph.edge_index),
        node_feat=torch.from_numpy(graph.x),
        edge_assign_strategy="by_src",
    )
    partitioner.partition()
    np.save(args.out / "part_of_nodes.npy", part_of_nodes.numpy())
    (args.out / DONE).touch()


if __name__ == "__main__":
    main()

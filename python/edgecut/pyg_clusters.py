"""Clusters of a PyG graph by METIS, in place of PyG's ``ClusterData``."""

from __future__ import annotations

import pathlib
import tempfile

import numpy as np
import torch
import torch_geometric.loader

from .partitioning import partition

__all__ = ["ClusterData"]


class ClusterData(torch_geometric.loader.ClusterData):
    """A graph in clusters, with the arguments of PyG's ``ClusterData``. It needs neither ``pyg-lib`` nor ``torch-sparse``.

    :class:`edgecut.ClusterLoader` makes batches of its clusters.
    """

    def _metis(self, edge_index: torch.Tensor, num_nodes: int) -> torch.Tensor:
        if self.recursive:
            raise ValueError("`recursive=True` is not supported: leave it out, METIS makes all clusters at once")
        cluster = torch.zeros(num_nodes, dtype=torch.int64)
        with tempfile.TemporaryDirectory(prefix="edgecut-clusters-") as folder:
            dataset, parts = pathlib.Path(folder, "dataset"), pathlib.Path(folder, "parts")
            dataset.mkdir()
            np.save(dataset / "edge_index.npy", edge_index.cpu().numpy())
            # Nodes without edges count as well.
            np.save(dataset / "num_nodes.npy", np.array(num_nodes))
            partition(dataset, self.num_parts, parts)
            for number in range(self.num_parts):
                (ids,) = parts.glob(f"part_{number}/nodes/*/original_ids.npy")
                cluster[torch.from_numpy(np.load(ids).astype(np.int64))] = number
        return cluster.to(edge_index.device)

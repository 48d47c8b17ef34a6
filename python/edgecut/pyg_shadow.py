"""Batches of a small subgraph per node, in place of PyG's ``ShaDowKHopSampler``."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch_geometric.data import Batch, Data

from .prefetch import ThreadedLoading
from .pyg_arguments import input_nodes
from .pyg_data import as_graph, integers
from .pyg_loaders import loader_arguments, refuse_own_arguments
from .pyg_sampler import NeighborSampler

__all__ = ["ShaDowKHopSampler"]

_OF_BATCHES = ("edge_index", "num_nodes", "batch", "ptr")


class ShaDowKHopSampler(ThreadedLoading, torch.utils.data.DataLoader):  # type: ignore[misc]
    """A loader with the arguments of PyG's ``ShaDowKHopSampler``. It needs no ``torch-sparse``.

    A batch has a subgraph for each of its nodes: the nodes that a sampler finds within `depth` hops, and all edges between
    them. ``root_n_id`` has the number of the node itself. ``y`` has the labels of these nodes only.

    Parameters
    ----------
    data : Data or PygGraph
        The graph.
    depth : int
        The number of hops.
    num_neighbors : int
        The number of neighbors per node and hop; -1 for all.
    node_idx : tensor of int or bool, optional
        The nodes. The default is all nodes.
    replace : bool, default False
        Sample with replacement.
    seed : int, optional
        The seed of all random choices.
    """

    filter_per_worker = True

    def __init__(
        self,
        data: Any,
        depth: int,
        num_neighbors: int,
        node_idx: Any = None,
        replace: bool = False,
        *,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        refuse_own_arguments(type(self).__name__, kwargs)
        graph = as_graph(data)
        if not isinstance(graph.data, Data) or graph.data.edge_index is None:
            raise ValueError("`data` must be `Data` with an `edge_index`: convert typed graphs with `to_homogeneous()`")
        self.data = graph.data
        self.node_sampler = NeighborSampler(graph, [num_neighbors] * depth, "induced", replace=replace, disjoint=True)
        self.depth, self.num_neighbors, self.replace = depth, num_neighbors, replace
        self.node_idx = input_nodes(graph, node_idx, argument="node_idx")["input_nodes"]
        arguments = loader_arguments(type(self).__name__, kwargs, seed)
        super().__init__(self.node_idx.tolist(), collate_fn=self.collate_fn, **arguments)

    def _input_indices(self) -> Any:
        return ([self.dataset[position] for position in positions] for positions in super()._input_indices())

    def __call__(self, nodes: Any) -> Batch:
        """Return the batch of these nodes."""
        return self.collate_fn(nodes)

    def collate_fn(self, nodes: Any) -> Batch:
        """Return the batch of these nodes."""
        roots = integers(nodes, "nodes").numpy()
        found = self.node_sampler.neighborhood([roots])
        sampled, edges = found.nodes[0], found.edges[0]
        assert sampled.batch is not None
        # The subgraphs come one after the other, each in the order of ids.
        order = np.lexsort((sampled.ids, sampled.batch))
        number = np.empty_like(order)
        number[order] = np.arange(len(order))
        n_id = torch.from_numpy(sampled.ids[order])
        ptr = torch.from_numpy(np.concatenate([[0], np.cumsum(np.bincount(sampled.batch, minlength=len(roots)))]))
        by_source = np.lexsort((number[edges.col], number[edges.row]))
        perm = self.node_sampler.edge_permutation
        e_id = torch.from_numpy(edges.positions[by_source])
        e_id = e_id if perm is None else perm[e_id]
        batch = Batch(batch=torch.from_numpy(sampled.batch[order]), ptr=ptr)
        batch.root_n_id = torch.from_numpy(number[: len(roots)])
        batch.edge_index = torch.from_numpy(number[np.stack([edges.row, edges.col])[:, by_source]])
        for name, value in self.data:
            if name in _OF_BATCHES:
                continue
            if not isinstance(value, torch.Tensor):
                batch[name] = value
            elif self.data.is_node_attr(name):
                rows = n_id[batch.root_n_id] if name == "y" else n_id
                batch[name] = value.index_select(self.data.__cat_dim__(name, value), rows.to(value.device))
            elif self.data.is_edge_attr(name):
                batch[name] = value.index_select(self.data.__cat_dim__(name, value), e_id.to(value.device))
            else:
                batch[name] = value
        return batch

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

"""Positions of edges in a dataset."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ._edgecut import EdgecutError
from .arguments import array
from .store import Store

__all__ = ["EdgeIds"]


class EdgeIds:
    """The positions of edges in the ``edge_index`` of the dataset.

    The parts keep the in-edges of a node in the order of the dataset. The loader therefore knows an edge by its
    destination and its position among the in-edges of it. In another order, another edge has this position, so the source is
    compared.
    """

    def __init__(self, store: Store, edge_index: Any) -> None:
        names = [t.name for t in store.edge_types]
        given = edge_index if isinstance(edge_index, Mapping) else {names[0]: edge_index}
        if not isinstance(edge_index, Mapping) and len(names) > 1:
            raise ValueError(f"`edge_index` must be a dict with keys out of {', '.join(map(str, names))}")
        for name in given:
            if name not in names:
                raise ValueError(f"`edge_index`: there is no edge type {name!r}, only {', '.join(map(str, names))}")
        node_types = [t.name for t in store.node_types]
        # By edge type: the node types of both ends, the sources, the first edge of each destination, and the edges by destination.
        self._of_types: dict[int, tuple[list[int], np.ndarray, np.ndarray, np.ndarray]] = {}
        for name, edges in given.items():
            number = names.index(name)
            ends = array(edges, "edge_index")
            expected = (2, store.edge_types[number].num_edges)
            if ends.shape != expected:
                raise ValueError(
                    f"`edge_index` has the shape {ends.shape}, but the graph has {expected[1]} edges of type {name}: give "
                    "all edges that carry messages, also those that were added when the graph was partitioned"
                )
            if ends.size > 0 and ends.dtype.kind not in "iu":
                raise ValueError(f"`edge_index` must have whole numbers, not {ends.dtype}")
            types = [node_types.index(name[0]), node_types.index(name[2])]
            num_nodes = store.node_types[types[1]].num_nodes
            destinations = ends[1]
            if len(destinations) > 0 and not 0 <= destinations.min() <= destinations.max() < num_nodes:
                raise ValueError(f"`edge_index` has a destination that is not one of the {num_nodes} nodes of {name[2]}")
            starts = np.concatenate([[0], np.cumsum(np.bincount(destinations, minlength=num_nodes))])
            self._of_types[number] = (types, ends[0], starts, np.argsort(destinations, kind="stable"))

    def add(self, nodes: list[dict[str, Any]], edges: list[dict[str, Any]]) -> None:
        """Replace the positions among in-edges by ``e_id``, in the arrays of a batch."""
        for number, of_type in enumerate(edges):
            positions = of_type.pop("position")
            if number not in self._of_types:
                continue
            types, sources, starts, by_destination = self._of_types[number]
            found, destinations = (nodes[t]["n_id"][ends] for t, ends in zip(types, of_type["edge_index"]))
            at = starts[destinations] + positions
            if (at >= starts[destinations + 1]).any():
                raise EdgecutError("`edge_index` does not have the edges of the graph: a node has more of them in the graph")
            e_id = of_type["e_id"] = by_destination[at]
            if (sources[e_id] != found).any():
                first = np.flatnonzero(sources[e_id] != found)[0]
                raise EdgecutError(
                    f"`edge_index` has other edges than the graph, or another order: its edge {e_id[first]} begins at node "
                    f"{sources[e_id[first]]} instead of {found[first]}. Give the edges in the order of the dataset's file, and those "
                    "of `to_undirected` in the order of torch_geometric.utils.to_undirected, by source and then by destination"
                )

"""An opened graph as PyG's feature store and graph store."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch_geometric.data import EdgeAttr, FeatureStore, GraphStore, TensorAttr
from torch_geometric.data.graph_store import EdgeLayout

from . import _edgecut
from .pyg_arguments import ids_of
from .store import Store

__all__ = ["EdgecutFeatureStore", "EdgecutGraphStore"]


class EdgecutFeatureStore(FeatureStore):
    """The attributes of an opened graph's nodes, as PyG's ``FeatureStore``.

    It has ``x``, ``y`` and ``time`` of the node types that have them. A type with none of these has ``n_id``, since PyG
    finds node types by their attributes. A homogeneous graph has the group ``None``, and a
    heterogeneous one a group per node type. Indices are ids in the dataset. In a job of several processes, and with
    servers, rows are fetched from all parts.

    Parameters
    ----------
    store : Store
        The graph.

    Examples
    --------
    >>> features, graph = store.to_pyg()                                               # doctest: +SKIP
    >>> x = features.get_tensor(group_name=None, attr_name="x", index=torch.arange(5)) # doctest: +SKIP
    """

    def __init__(self, store: Store) -> None:
        super().__init__()
        self.__dict__["_store"] = store

    def get_all_tensor_attrs(self) -> list[TensorAttr]:
        """Return the attributes of all node types."""
        store = self._store
        attrs = []
        for t in store.node_types:
            has = {"x": t.num_features > 0, "y": t.num_classes + t.num_targets > 0, "time": t.has_times}
            group = t.name if store.is_heterogeneous else None
            attrs += [TensorAttr(group, name) for name in has if has[name]] or [TensorAttr(group, "n_id")]
        return attrs

    def _find(self, attr: TensorAttr) -> int | None:
        """Return the number of the node type that has an attribute."""
        known = {(a.group_name, a.attr_name) for a in self.get_all_tensor_attrs()}
        if (attr.group_name, attr.attr_name) not in known:
            return None
        return 0 if attr.group_name is None else [t.name for t in self._store.node_types].index(attr.group_name)

    def _get_tensor(self, attr: TensorAttr) -> torch.Tensor:
        number = self._find(attr)
        if number is None:
            raise KeyError(f"the graph has no {attr.attr_name!r} of nodes of type {attr.group_name!r}")
        num_nodes = self._store.node_types[number].num_nodes

        def fetch(ids: np.ndarray | None) -> np.ndarray:
            if attr.attr_name == "n_id":
                return np.arange(num_nodes) if ids is None else ids
            return _edgecut.node_attribute(self._store._graph, number, attr.attr_name, ids)

        if attr.index is None:
            return torch.from_numpy(fetch(None))
        if isinstance(attr.index, slice):
            return torch.from_numpy(fetch(np.arange(num_nodes)[attr.index].copy()))
        # A single id, of any kind, is one row.
        is_single = np.ndim(attr.index) == 0
        index, _ = ids_of([attr.index] if is_single else attr.index, num_nodes, "index")
        # Each row is fetched once.
        ids, rows = np.unique(index.numpy(), return_inverse=True)
        return torch.from_numpy(fetch(ids)[rows])

    def _get_tensor_size(self, attr: TensorAttr) -> tuple[int, ...] | None:
        number = self._find(attr)
        if number is None:
            return None
        nodes = self._store.node_types[number]
        width = {"x": nodes.num_features, "y": nodes.num_targets}.get(attr.attr_name, 0)
        return (nodes.num_nodes, width) if width > 0 else (nodes.num_nodes,)

    def _put_tensor(self, tensor: Any, attr: TensorAttr) -> bool:
        return False

    def _remove_tensor(self, attr: TensorAttr) -> bool:
        return False


class EdgecutGraphStore(GraphStore):
    """The edges of an opened graph, as PyG's ``GraphStore``.

    Edges are stored in the layout CSC, ordered by destination. The edges of a destination have the order of the dataset,
    or that of their sources' times if these have times, which PyG's temporal sampling needs. A homogeneous graph has the
    edge type ``None``. The process must hold the whole graph: PyG's loaders sample from it in this process.

    Parameters
    ----------
    store : Store
        The graph.

    Examples
    --------
    >>> features, graph = store.to_pyg()            # doctest: +SKIP
    >>> row, col, perm = graph.coo()                # doctest: +SKIP
    """

    def __init__(self, store: Store) -> None:
        super().__init__()
        self._store = store
        self._edges: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def get_all_edge_attrs(self) -> list[EdgeAttr]:
        """Return the edges of all edge types."""
        store = self._store
        num_nodes = {t.name: t.num_nodes for t in store.node_types}
        return [
            EdgeAttr(
                t.name if store.is_heterogeneous else None,
                EdgeLayout.CSC,
                size=(num_nodes[t.name[0]], num_nodes[t.name[2]]),
            )
            for t in store.edge_types
        ]

    def _get_edge_index(self, edge_attr: EdgeAttr) -> tuple[torch.Tensor, torch.Tensor] | None:
        edge_types = [attr.edge_type for attr in self.get_all_edge_attrs()]
        if edge_attr.layout != EdgeLayout.CSC or edge_attr.edge_type not in edge_types:
            return None
        number = edge_types.index(edge_attr.edge_type)
        if number not in self._edges:
            self._edges[number] = self._read(number)
        return self._edges[number]

    def _read(self, number: int) -> tuple[torch.Tensor, torch.Tensor]:
        graph = self._store._graph
        arrays = _edgecut.whole_edges(graph, number)
        row, colptr = arrays["row"], arrays["colptr"]
        names = [t.name for t in self._store.node_types]
        src_type = names.index(self._store.edge_types[number].name[0])
        if self._store.node_types[src_type].has_times:
            times = _edgecut.node_attribute(graph, src_type, "time", None)
            col = np.repeat(np.arange(len(colptr) - 1), np.diff(colptr))
            row = row[np.lexsort((times[row], col))]
        return torch.from_numpy(row), torch.from_numpy(colptr)

    def _put_edge_index(self, edge_index: Any, edge_attr: EdgeAttr) -> bool:
        return False

    def _remove_edge_index(self, edge_attr: EdgeAttr) -> bool:
        return False

"""PyG's graphs in memory, ready for sampling."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data, FeatureStore, GraphStore, HeteroData, remote_backend_utils
from torch_geometric.sampler.utils import to_csc, to_hetero_csc

from ._edgecut import Graph, whole_edges

__all__ = ["PygGraph", "as_graph", "is_pyg_data"]

# The time of edges without one: no time limits them.
_ALWAYS = np.iinfo(np.int64).min


@dataclass
class Edges:
    """The edges of a type by destination, and the position of each edge in PyG's order if it differs.

    The sources are dropped when the native graph has them.
    """

    colptr: Tensor
    row: Tensor | None
    perm: Tensor | None


@dataclass(frozen=True)
class Times:
    """The times of nodes or edges by type. The other one is None."""

    of_nodes: dict[Any, Tensor] | None = None
    of_edges: dict[Any, Tensor] | None = None


@dataclass
class Structure:
    """The edges of a graph by destination, for Python and for the native sampler."""

    edges: dict[Any, Edges]
    times: Times
    weights: dict[Any, Tensor]
    native: Graph | None = None

    @functools.cached_property
    def arrays(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """The first edge of each destination and the source of each edge, by edge type."""
        return [(edges.colptr.numpy(), self._sources(number)) for number, edges in enumerate(self.edges.values())]

    def _sources(self, edge_type: int) -> np.ndarray:
        if self.native is not None:
            return whole_edges(self.native, edge_type)["row"]
        return _integers(list(self.edges.values())[edge_type].row, "data")


class PygGraph:
    """A graph of PyG for loaders. :func:`edgecut.from_pyg` makes it.

    Loaders with the same ``time_attr`` and ``weight_attr`` share the memory of its edges. A graph without types has the node
    type and the edge type ``None``.

    Attributes
    ----------
    data : Data, HeteroData, or pair of FeatureStore and GraphStore
        The graph as PyG has it, which the attributes of batches come from.
    node_types, edge_types : list
        The types.
    num_nodes : dict of node type to int
        The number of nodes of each type.
    """

    def __init__(self, data: Any, is_sorted: bool = False) -> None:
        self.data = data
        self._is_sorted = is_sorted
        if isinstance(data, Data):
            self.node_types: list[Any] = [None]
            self.edge_types: list[Any] = [None]
            self.num_nodes: dict[Any, Any] = {None: data.num_nodes}
        elif isinstance(data, HeteroData):
            self.node_types = list(data.node_types)
            self.edge_types = list(data.edge_types)
            self.num_nodes = {name: data[name].num_nodes for name in self.node_types}
        elif _is_store_pair(data):
            self._read_stores(*data)
        else:
            raise TypeError(f"`data` must be PyG's Data, HeteroData, or (FeatureStore, GraphStore), not {type(data).__name__}")
        for name, number in self.num_nodes.items():
            if number is None:
                raise ValueError(f"`data`: the number of nodes{_of(name)} is unknown: set `num_nodes`, or `size` of the EdgeAttr")
        # By the names of the attributes of times and weights.
        self._structures: dict[tuple[str | None, str | None], Structure] = {}

    def _read_stores(self, features: FeatureStore, graph: GraphStore) -> None:
        attrs = graph.get_all_edge_attrs()
        self.edge_types = list(dict.fromkeys(attr.edge_type for attr in attrs))
        if self.edge_types == [None]:
            self.node_types = [None]
            self.num_nodes = {None: _num_nodes(attrs[0].size, features)}
            return
        names = [attr.group_name for attr in features.get_all_tensor_attrs() if isinstance(attr.group_name, str)]
        names += [end for name in self.edge_types for end in (name[0], name[-1])]
        self.node_types = list(dict.fromkeys(names))
        self.num_nodes = {name: remote_backend_utils.num_nodes(features, graph, name) for name in self.node_types}

    @property
    def is_heterogeneous(self) -> bool:
        """Whether nodes and edges have types, also if there is one of each."""
        return self.node_types != [None]

    @property
    def ends(self) -> list[tuple[int, int]]:
        """The numbers of the node types of sources and destinations, by edge type."""
        index = self.node_types.index
        return [(0, 0) if name is None else (index(name[0]), index(name[-1])) for name in self.edge_types]

    def structure(self, time_attr: str | None = None, weight_attr: str | None = None) -> Structure:
        """Return the edges by destination, with these attributes as times and weights."""
        key = (time_attr, weight_attr)
        if key not in self._structures:
            times = self.times(time_attr)
            edges = self._edges_by_destination(times)
            for (_, dst), of_type in zip(self.ends, edges.values()):
                of_type.colptr = self._starts(of_type.colptr, self.node_types[dst])
            self._structures[key] = Structure(edges, times, self._weights(weight_attr))
        return self._structures[key]

    def native(self, structure: Structure) -> Graph:
        """Return the native graph of a structure."""
        if structure.native is None:
            structure.native = self._make_native(structure.edges, structure.times, structure.weights)
            for edges in structure.edges.values():
                edges.row = None
        return structure.native

    def _edges_by_destination(self, times: Times) -> dict[Any, Edges]:
        """Group the edges by destination. Those of a destination have the order of time, as in PyG, or that of the graph."""
        of_nodes, of_edges = times.of_nodes or {}, times.of_edges or {}
        if isinstance(self.data, Data):
            found = to_csc(self.data, "cpu", False, self._is_sorted, of_nodes.get(None), of_edges.get(None))
            return {None: Edges(*found)}
        if isinstance(self.data, HeteroData):
            colptr, row, perm = to_hetero_csc(self.data, "cpu", False, self._is_sorted, times.of_nodes, times.of_edges)
            return {name: Edges(colptr[name], row[name], perm[name]) for name in self.edge_types}
        row, colptr, perm = self.data[1].csc()
        if not self.is_heterogeneous:
            return {None: Edges(colptr, row, perm)}
        return {name: Edges(colptr[name], row[name], perm[name]) for name in self.edge_types}

    def times(self, name: str | None) -> Times:
        """Return the attribute of nodes or edges of this name."""
        if name is None:
            return Times()
        if _is_store_pair(self.data):
            return self._times_in_store(name)
        if isinstance(self.data, Data):
            if name in self.data and self.data.is_node_attr(name):
                return Times(of_nodes={None: self.data[name]})
            if name in self.data and self.data.is_edge_attr(name):
                return Times(of_edges={None: self.data[name]})
        else:
            of_nodes = {store._key: store[name] for store in self.data.node_stores if name in store}
            of_edges = {store._key: store[name] for store in self.data.edge_stores if name in store}
            if of_nodes and of_edges:
                raise ValueError(
                    f"`time_attr`: both nodes and edges have {name!r}: rename one of them, for example `edge_{name}`"
                )
            if of_nodes or of_edges:
                return Times(of_nodes or None, of_edges or None)
        raise ValueError(f"`time_attr`: {name!r} is an attribute of neither nodes nor edges")

    def _times_in_store(self, name: str) -> Times:
        features = self.data[0]
        found = {}
        for attr in features.get_all_tensor_attrs():
            if attr.attr_name == name:
                attr.index = None
                found[attr.group_name] = features.get_tensor(attr)
        if not found:
            raise ValueError(f"`time_attr`: the FeatureStore has no attribute {name!r}")
        # A group of nodes has one name. Without types, PyG takes `time` for times of nodes and other names for edges.
        of_edges = {key: value for key, value in found.items() if isinstance(key, tuple) or (key is None and name != "time")}
        of_nodes = {key: value for key, value in found.items() if key not in of_edges}
        if of_nodes and of_edges:
            raise ValueError(f"`time_attr`: both nodes and edges have {name!r}")
        return Times(of_nodes or None, of_edges or None)

    def _weights(self, name: str | None) -> dict[Any, Tensor]:
        if name is None:
            return {}
        if _is_store_pair(self.data):
            raise ValueError("`weight_attr`: PyG's stores have no attributes of edges: pass `Data` or `HeteroData`")
        stores = [self.data] if isinstance(self.data, Data) else self.data.edge_stores
        found = {getattr(store, "_key", None): store[name] for store in stores if name in store}
        if not found:
            raise ValueError(f"`weight_attr`: the edges have no attribute {name!r}")
        return found

    def _make_native(self, edges: Mapping[Any, Edges], times: Times, weights: Mapping[Any, Tensor]) -> Graph:
        nodes = [
            {"num_nodes": self.num_nodes[name], "times": _integers((times.of_nodes or {}).get(name), "time_attr")}
            for name in self.node_types
        ]
        arrays = []
        for (src, dst), (name, of_type) in zip(self.ends, edges.items()):
            row = _integers(of_type.row, "data")
            num_edges = len(row)
            of_edges = _in_order(of_type, _integers((times.of_edges or {}).get(name), "time_attr"), "time_attr")
            if times.of_edges is not None and of_edges is None:
                of_edges = np.full(num_edges, _ALWAYS)
            weight = _in_order(of_type, _floats(weights.get(name)), "weight_attr")
            if weights and weight is None:
                weight = np.ones(num_edges, np.float32)
            arrays.append(
                {
                    "src_type": src,
                    "dst_type": dst,
                    "colptr": of_type.colptr.numpy(),
                    "row": row,
                    "weights": weight,
                    "times": of_edges,
                }
            )
        # The processes that torchrun starts on a machine share its cores.
        local = os.environ.get("LOCAL_WORLD_SIZE", "1")
        num_threads = max(1, len(os.sched_getaffinity(0)) // max(1, int(local))) if local.isdigit() else None
        return Graph.in_memory(nodes, arrays, num_threads)

    def _starts(self, colptr: Tensor, node_type: Any) -> Tensor:
        """Return the first edge of each destination, also for the last nodes, which a store may leave out."""
        num_nodes = self.num_nodes[node_type]
        missing = num_nodes + 1 - len(colptr)
        if missing < 0:
            of_type = _of(node_type)
            raise ValueError(f"`data`: edges have {len(colptr) - 1} destinations, but there are {num_nodes} nodes{of_type}")
        colptr = colptr.long().cpu().contiguous()
        return torch.cat([colptr, colptr[-1:].expand(missing)]) if missing else colptr

    def __getstate__(self) -> dict[str, Any]:
        # A process that gets the graph makes the native one itself.
        return {**self.__dict__, "_structures": {}}

    def __repr__(self) -> str:
        return f"PygGraph({self.data!r})"


def as_graph(data: Any, is_sorted: bool = False) -> PygGraph:
    """Return the graph of the data of a loader or sampler."""
    if not isinstance(data, PygGraph):
        return PygGraph(data, is_sorted)
    if is_sorted:
        raise ValueError("`is_sorted` is a setting of `edgecut.from_pyg`: pass it there")
    return data


def is_pyg_data(data: object) -> bool:
    """Return whether loaders take an object as PyG's data."""
    return isinstance(data, (PygGraph, Data, HeteroData)) or _is_store_pair(data)


def _is_store_pair(data: Any) -> bool:
    is_pair = isinstance(data, (tuple, list)) and len(data) == 2
    return is_pair and isinstance(data[0], FeatureStore) and isinstance(data[1], GraphStore)


def _num_nodes(size: tuple[int, int] | None, features: FeatureStore) -> int | None:
    """Return the number of nodes of a graph without types, from the size of its edges or the features."""
    if size is not None:
        return max(size)
    sizes = (features.get_tensor_size(attr) for attr in features.get_all_tensor_attrs())
    return next((size[0] for size in sizes if size is not None), None)


def _of(node_type: Any) -> str:
    return "" if node_type is None else f" of type {node_type!r}"


def _integers(values: Any, name: str) -> Any:
    """Return a vector of whole numbers, or None for None."""
    if values is None:
        return None
    vector = torch.as_tensor(values).detach().cpu()
    if vector.dim() == 2 and vector.size(1) == 1:
        vector = vector.flatten()
    if vector.dim() != 1 or vector.is_floating_point() or vector.is_complex():
        shape = f"{vector.dim()} dimensions of {vector.dtype}"
        raise ValueError(f"`{name}` must name a vector of whole numbers, not {shape}: convert it with `.long()`")
    return np.ascontiguousarray(vector.numpy(), np.int64)


def _floats(values: Any) -> Any:
    """Return a vector of numbers, or None for None."""
    if values is None:
        return None
    return np.ascontiguousarray(torch.as_tensor(values).detach().cpu().flatten().numpy(), np.float32)


def _in_order(edges: Edges, values: Any, name: str) -> Any:
    """Return attributes of edges in the order by destination."""
    if values is None:
        return None
    num_edges = int(edges.colptr[-1])
    if len(values) != num_edges:
        raise ValueError(f"`{name}` has {len(values)} entries for {num_edges} edges")
    return values if edges.perm is None else values[edges.perm.numpy()]

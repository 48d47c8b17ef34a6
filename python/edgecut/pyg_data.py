"""PyG's graphs in memory, ready for sampling."""

from __future__ import annotations

import functools
import os
import threading
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data, FeatureStore, GraphStore, HeteroData, remote_backend_utils
from torch_geometric.data.graph_store import EdgeLayout
from torch_geometric.data.storage import N_KEYS
from torch_geometric.sampler.utils import sort_csc, to_csc
from torch_geometric.utils.sparse import index2ptr, ptr2index

from . import arguments
from ._edgecut import Graph, whole_edges

__all__ = ["PygGraph", "as_graph", "integers", "is_pyg_data"]

# The attributes that have edges.
_EDGES = ("edge_index", "adj", "adj_t")
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


@dataclass
class _Stored:
    """The edges of a type as a graph has them: `col` has the start of each destination's edges if `is_csc`."""

    row: Tensor
    col: Tensor
    is_csc: bool = False
    is_sorted: bool = False


@dataclass(frozen=True)
class Times:
    """The times of nodes or edges by type. The other one is None."""

    of_nodes: dict[Any, Tensor] | None = None
    of_edges: dict[Any, Tensor] | None = None


class _Seen:
    """A tensor when it was read. Another one differs from it, and so does this one after a change in place that PyTorch counts."""

    def __init__(self, value: Any) -> None:
        try:
            # The graph does not keep a tensor that the program drops.
            self._value: Callable[[], Any] = weakref.ref(value)
        except TypeError:
            self._value = lambda: value
        self._version, self._address = _version(value), _address(value)

    def is_same(self, value: Any) -> bool:
        return self._value() is value and self._version == _version(value)

    def is_overwritten_by(self, value: Any) -> bool:
        """Return whether a tensor has other values in the memory of this one, which a structure may refer to."""
        return self._version != _version(value) and self._address == _address(value)


def _version(value: Any) -> int:
    """Return the number of changes in place, which PyTorch counts for most tensors."""
    return value._version if isinstance(value, Tensor) and not value.is_inference() else 0


def _address(value: Any) -> int:
    return value.data_ptr() if isinstance(value, Tensor) and value.layout == torch.strided else 0


@dataclass
class Structure:
    """The edges of a graph by destination, for Python and for the native sampler."""

    edges: dict[Any, Edges]
    times: Times
    weights: dict[Any, Tensor]
    num_nodes: dict[Any, int]
    seen: dict[Any, _Seen]
    native: Graph | None = None

    def is_of(self, values: dict[Any, Any], num_nodes: dict[Any, int]) -> bool:
        """Return whether the structure was made of these tensors, as they are now."""
        is_same = values.keys() == self.seen.keys() and num_nodes == self.num_nodes
        return is_same and all(self.seen[key].is_same(value) for key, value in values.items())

    def equals(self, other: Structure, values: dict[Any, Any]) -> bool:
        """Return whether another structure, which was made of these tensors, has the same edges, times and weights."""
        if any(key in values and seen.is_overwritten_by(values[key]) for key, seen in self.seen.items()):
            return False
        if self.num_nodes != other.num_nodes or self.edges.keys() != other.edges.keys():
            return False
        for number, (ours, theirs) in enumerate(zip(self.edges.values(), other.edges.values())):
            has_same_ends = np.array_equal(self.sources(number), other.sources(number))
            if not (has_same_ends and torch.equal(ours.colptr, theirs.colptr) and _is_equal(ours.perm, theirs.perm)):
                return False
        of_types = [(each.times.of_nodes or {}, each.times.of_edges or {}, each.weights) for each in (self, other)]
        return all(
            ours.keys() == theirs.keys() and all(_is_equal(ours[key], theirs[key]) for key in ours)
            for ours, theirs in zip(*of_types)
        )

    @functools.cached_property
    def arrays(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """The first edge of each destination and the source of each edge, by edge type."""
        return [(edges.colptr.numpy(), self.sources(number)) for number, edges in enumerate(self.edges.values())]

    def sources(self, edge_type: int) -> np.ndarray:
        """Return the source of each edge of a type, by its number."""
        if self.native is not None:
            return whole_edges(self.native, edge_type)["row"]
        row = list(self.edges.values())[edge_type].row
        assert row is not None
        return row.numpy()


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
        self._lock = threading.Lock()
        # By the names of the attributes of times and weights.
        self._structures: dict[tuple[str | None, str | None], Structure] = {}
        self._read()

    def _read(self) -> None:
        """Read the types and the numbers of nodes."""
        data = self.data
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
        self._check_edges()

    def _check_edges(self) -> None:
        """Check that no edges have another name than in PyG, which samples no neighbors then."""
        for name in [] if _is_store_pair(self.data) else self.edge_types:
            store = self.data if name is None else self.data[name]
            if not any(edges in store for edges in _EDGES):
                found = ", ".join(f"`{key}`" for key in map(str, store.keys()) if _is_like_edges(key, store[key]))
                if found:
                    raise ValueError(
                        f"`data` has {found}{_of(name)}, but no `edge_index`, without which there are no edges to sample: name the "
                        f"edges `edge_index`, or remove {found}"
                    )

    def _read_stores(self, features: FeatureStore, graph: GraphStore) -> None:
        attrs = graph.get_all_edge_attrs()
        self.edge_types = list(dict.fromkeys(attr.edge_type for attr in attrs))
        if self.edge_types == [None]:
            self.node_types = [None]
            self.num_nodes = {None: _num_nodes(attrs[0].size, features)}
            return
        if None in self.edge_types:
            raise ValueError("`data`: some edges have a type and others have none: give all edges of the GraphStore a type")
        names = [attr.group_name for attr in features.get_all_tensor_attrs() if isinstance(attr.group_name, str)]
        names += [end for name in self.edge_types for end in (name[0], name[-1])]
        self.node_types = list(dict.fromkeys(names))
        self.num_nodes = {name: _num_nodes_of_type(features, graph, name) for name in self.node_types}

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
        """Return the edges by destination, with these attributes as times and weights.

        They are those of the data as it is now.
        """
        key = (time_attr, weight_attr)
        with self._lock:
            values = self._values(*key)
            found = self._structures.get(key)
            if found is not None and found.is_of(values, self._num_nodes_now()):
                return found
            self._read()
            times = self.times(time_attr)
            edges = {name: self._by_destination(number, times) for number, name in enumerate(self.edge_types)}
            seen = {name: _Seen(value) for name, value in values.items()}
            made = Structure(edges, times, self._weights(weight_attr), self.num_nodes, seen)
            if found is not None and found.equals(made, values):
                # Other tensors with the same values, for example on another device.
                found.seen = seen
                return found
            self._structures[key] = made
            return made

    def check(self, structure: Structure, time_attr: str | None, weight_attr: str | None) -> None:
        """Check that the data still has the edges, times and weights of a structure."""
        if structure.is_of(self._values(time_attr, weight_attr), self._num_nodes_now()):
            return
        if self.structure(time_attr, weight_attr) is not structure:
            names = ", ".join(f"`{name}`" for name in ("edge_index", time_attr, weight_attr) if name is not None)
            raise RuntimeError(f"`data` has changed (nodes, {names}) since the loader or sampler was made: make it again")

    def _values(self, *names: str | None) -> dict[Any, Any]:
        """Return the tensors that a structure is made of. PyG's stores have none: they are read once."""
        if _is_store_pair(self.data):
            return {}
        wanted = [name for name in (*_EDGES, *names) if name is not None]
        stores = [*self.data.node_stores, *self.data.edge_stores]
        return {(store._key, name): store[name] for store in stores for name in wanted if name in store}

    def _num_nodes_now(self) -> dict[Any, Any]:
        """Return the number of nodes of each type. Numbers that PyG infers from the edges do not change without these."""
        if _is_store_pair(self.data):
            return self.num_nodes
        return {
            store._key: store.num_nodes if "num_nodes" in store or N_KEYS & set(store.keys()) else self.num_nodes.get(store._key)
            for store in self.data.node_stores
        }

    def native(self, structure: Structure) -> Graph:
        """Return the native graph of a structure."""
        if structure.native is None:
            structure.native = self._make_native(structure.edges, structure.times, structure.weights)
            for edges in structure.edges.values():
                edges.row = None
        return structure.native

    def _by_destination(self, edge_type: int, times: Times) -> Edges:
        """Group the edges of a type by destination, and within a destination by time, as in PyG, if there are times."""
        name = self.edge_types[edge_type]
        src_type, dst_type = (self.node_types[end] for end in self.ends[edge_type])
        num_nodes = self.num_nodes[dst_type]
        found = self._stored_edges(name)
        _check_ends(found.row, self.num_nodes[src_type], "source", name)
        if found.is_csc:
            colptr = self._starts(found.col, dst_type)
            _check_starts(colptr, len(found.row), name)
            return Edges(colptr, found.row, None)
        _check_ends(found.col, num_nodes, "destination", name)
        if len(found.row) != len(found.col):
            raise ValueError(f"`data`: edges{_of(name)} have {len(found.row)} sources and {len(found.col)} destinations")
        of_sources, of_edges = (times.of_nodes or {}).get(src_type), (times.of_edges or {}).get(name)
        _check_times(of_edges, len(found.row), f"edges{_of(name)}")
        row, col, perm = found.row, found.col, None
        if found.is_sorted:
            _check_order(col)
        else:
            row, col, perm = sort_csc(row, col, of_sources, of_edges)
        return Edges(index2ptr(col, num_nodes), row, perm)

    def _stored_edges(self, name: Any) -> _Stored:
        """Return the edges of a type as the graph has them."""
        if _is_store_pair(self.data):
            return self._edges_in_store(name)
        store = self.data if name is None else self.data[name]
        if "adj" in store or "adj_t" in store:
            colptr, row, _ = to_csc(store, "cpu")
            return _Stored(_numbers(row), _numbers(colptr), is_csc=True)
        edge_index = store["edge_index"] if "edge_index" in store else None
        if edge_index is None:
            edge_index = torch.empty((2, 0), dtype=torch.int64)
        if edge_index.dim() != 2 or edge_index.size(0) != 2:
            shape = tuple(edge_index.shape)
            raise ValueError(f"`data`: `edge_index`{_of(name)} has the shape {shape}, expected (2, number of edges)")
        return _Stored(_numbers(edge_index[0]), _numbers(edge_index[1]), is_sorted=self._is_sorted)

    def _edges_in_store(self, name: Any) -> _Stored:
        graph = self.data[1]
        layouts = {attr.layout: attr for attr in graph.get_all_edge_attrs() if attr.edge_type == name}
        # In the order of the work that they take.
        attr = next(layouts[layout] for layout in (EdgeLayout.CSC, EdgeLayout.COO, EdgeLayout.CSR) if layout in layouts)
        row, col = (_numbers(end) for end in graph.get_edge_index(attr))
        if attr.layout == EdgeLayout.CSR:
            _check_starts(row, len(col), name)
            row = ptr2index(row)
        is_sorted = self._is_sorted or (attr.layout == EdgeLayout.COO and attr.is_sorted)
        return _Stored(row, col, is_csc=attr.layout == EdgeLayout.CSC, is_sorted=is_sorted)

    def times(self, name: str | None) -> Times:
        """Return the attribute of nodes or edges of this name as vectors."""
        if name is None:
            return Times()
        found = self._times_as_given(name)
        of_nodes, of_edges = (
            None if values is None else {key: integers(value, "time_attr") for key, value in values.items()}
            for values in (found.of_nodes, found.of_edges)
        )
        for key, values in (of_nodes or {}).items():
            _check_times(values, self.num_nodes[key], f"nodes{_of(key)}")
        return Times(of_nodes, of_edges)

    def _times_as_given(self, name: str) -> Times:
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
            {"num_nodes": self.num_nodes[name], "times": _array((times.of_nodes or {}).get(name))}
            for name in self.node_types
        ]
        arrays = []
        for (src, dst), (name, of_type) in zip(self.ends, edges.items()):
            row = _array(of_type.row)
            num_edges = len(row)
            of_edges = _in_order(of_type, _array((times.of_edges or {}).get(name)), "time_attr")
            if times.of_edges is not None and of_edges is None:
                of_edges = np.full(num_edges, _ALWAYS)
            weight = _in_order(of_type, _weights_of(weights.get(name)), "weight_attr")
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
        return torch.cat([colptr, colptr[-1:].expand(missing)]) if missing else colptr

    def __getstate__(self) -> dict[str, Any]:
        # A process that gets the graph makes the native one itself.
        return {**self.__dict__, "_structures": {}, "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    def __repr__(self) -> str:
        return f"PygGraph({self.data!r})"


def as_graph(data: Any, is_sorted: bool = False) -> PygGraph:
    """Return the graph of the data of a loader or sampler."""
    if not isinstance(data, PygGraph):
        return PygGraph(data, is_sorted)
    if is_sorted:
        raise ValueError("`is_sorted` is a setting of `edgecut.from_pyg`: pass it there")
    return data


def _is_equal(one: Any, other: Any) -> bool:
    """Return whether two vectors have the same values, or both are None."""
    if one is None or other is None:
        return one is other
    return torch.equal(torch.as_tensor(one).cpu(), torch.as_tensor(other).cpu())


def is_pyg_data(data: object) -> bool:
    """Return whether loaders take an object as PyG's data."""
    return isinstance(data, (PygGraph, Data, HeteroData)) or _is_store_pair(data)


def _is_store_pair(data: Any) -> bool:
    is_pair = isinstance(data, (tuple, list)) and len(data) == 2
    return is_pair and isinstance(data[0], FeatureStore) and isinstance(data[1], GraphStore)


def _is_like_edges(attribute: str, values: Any) -> bool:
    """Return whether an attribute seems to have edges or to describe them. Edges to predict need no others."""
    if attribute.startswith("edge_label"):
        return False
    is_pairs = isinstance(values, Tensor) and values.dim() == 2 and values.size(0) == 2 and values.dtype == torch.int64
    return is_pairs or attribute.startswith("edge")


def _num_nodes(size: tuple[int | None, int | None] | None, features: FeatureStore) -> int | None:
    """Return the number of nodes of a graph without types, from the size of its edges or the features.

    Features of edges have no type of their own, so features of several sizes do not tell it.
    """
    if size is not None and size[0] is not None and size[1] is not None:
        return max(size[0], size[1])
    sizes = [features.get_tensor_size(attr) for attr in features.get_all_tensor_attrs()]
    numbers = {size[0] for size in sizes if size is not None}
    return numbers.pop() if len(numbers) == 1 else None


def _num_nodes_of_type(features: FeatureStore, graph: GraphStore, name: str) -> int | None:
    try:
        return int(remote_backend_utils.num_nodes(features, graph, name))
    except (TypeError, ValueError):
        # It is known from neither features nor sizes of edges.
        return None


def _of(name: Any) -> str:
    return "" if name is None else f" of type {name!r}"


def integers(values: Any, name: str) -> Tensor:
    """Return a vector of whole numbers, which may have a second dimension of 1."""
    vector: Any
    dtype: Any
    if isinstance(values, Tensor):
        dtype, vector = values.dtype, values.detach().cpu()
        is_whole = not (dtype.is_floating_point or dtype.is_complex or dtype == torch.bool)
    else:
        vector = arguments.array(values, name)
        dtype, is_whole = vector.dtype, vector.dtype.kind in "iu"
    if vector.ndim == 2 and vector.shape[1] == 1:
        vector = vector.reshape(-1)
    # Empty lists become floats.
    if vector.ndim != 1 or (len(vector) > 0 and not is_whole):
        raise ValueError(
            f"`{name}` must be a vector of whole numbers, not {vector.ndim} dimensions of {dtype}: convert it with `.long()`"
        )
    if isinstance(vector, Tensor):
        return vector.long().contiguous()
    whole = arguments.integers(vector, name)
    # PyTorch warns of arrays that it must not change.
    return torch.from_numpy(whole if whole.flags.writeable else whole.copy())


def _numbers(values: Tensor) -> Tensor:
    """Return numbers of nodes or edges that the graph itself has."""
    return integers(values, "edge_index")


def _array(values: Tensor | None) -> Any:
    return None if values is None else values.numpy()


def _weights_of(values: Any) -> Any:
    """Return weights in the type of the native graph, or None for None."""
    if values is None:
        return None
    given = torch.as_tensor(values).detach().cpu().flatten()
    if given.is_complex():
        raise ValueError(f"`weight_attr` names weights of {given.dtype}: weights are real numbers")
    weights = given.double().numpy()
    with np.errstate(over="ignore"):
        narrow = weights.astype(np.float32)
    if given.dtype == torch.float32 or _fits(weights, narrow):
        return narrow
    # The probabilities depend on ratios of weights only.
    scaled = weights / weights.max(where=np.isfinite(weights), initial=0)
    narrow = scaled.astype(np.float32)
    if not _fits(scaled, narrow):
        raise ValueError(
            f"`weight_attr`: the weights {weights[weights > 0].min()} and {weights.max()} differ by more than a factor of 1e38: "
            "set the least ones to 0, or weight edges by their logarithms"
        )
    return narrow


def _fits(weights: np.ndarray, narrow: np.ndarray) -> bool:
    """Return whether no weight was lost in a narrower type."""
    has_vanished = (weights > 0) & (narrow < np.finfo(narrow.dtype).tiny)
    has_overflowed = np.isfinite(weights) & ~np.isfinite(narrow)
    return not (has_vanished | has_overflowed).any()


def _check_ends(ids: Tensor, num_nodes: int, end: str, edge_type: Any) -> None:
    """Check the ids of one end of edges. PyTorch writes out of bounds when it counts the edges of an id that is too large."""
    if len(ids) == 0:
        return
    least, largest = ids.aminmax()
    if 0 <= least and largest < num_nodes:
        return
    at = int(((ids < 0) | (ids >= num_nodes)).nonzero()[0])
    raise ValueError(
        f"`data`: edge {at}{_of(edge_type)} has the {end} {int(ids[at])}, which is not one of the {num_nodes} nodes: correct "
        "`edge_index`, or set `num_nodes`, or `size` of the EdgeAttr"
    )


def _check_starts(starts: Tensor, num_edges: int, edge_type: Any) -> None:
    """Check the first edge of each node."""
    if starts[0] != 0 or starts[-1] != num_edges or (starts.diff() < 0).any():
        raise ValueError(
            f"`data`: the pointers of the edges{_of(edge_type)} must ascend from 0 to the number of edges, {num_edges}"
        )


def _check_order(destinations: Tensor) -> None:
    """Check that edges are sorted by destination."""
    descends = destinations.diff() < 0
    if descends.any():
        at = int(descends.nonzero()[0]) + 1
        raise ValueError(
            f"`is_sorted`: edge {at} leads to node {int(destinations[at])}, after an edge to node {int(destinations[at - 1])}: "
            "sort the edges by destination, or leave `is_sorted` out"
        )


def _check_times(times: Tensor | None, number: int, of_what: str) -> None:
    if times is not None and len(times) != number:
        raise ValueError(f"`time_attr` has {len(times)} entries for {number} {of_what}")


def _in_order(edges: Edges, values: Any, name: str) -> Any:
    """Return attributes of edges in the order by destination."""
    if values is None:
        return None
    num_edges = int(edges.colptr[-1])
    if len(values) != num_edges:
        raise ValueError(f"`{name}` has {len(values)} entries for {num_edges} edges")
    return values if edges.perm is None else values[edges.perm.numpy()]

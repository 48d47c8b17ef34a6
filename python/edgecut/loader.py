"""Loaders of mini-batches."""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from . import _edgecut, distributed
from .arguments import (
    array, check_output, check_strategy, checked, integers, refuse_numeric_mask, refuse_unknown, warn_if_empty, whole_edge_type,
    whole_number,
)
from .edge_ids import EdgeIds
from .epochs import EpochLoader
from .store import NodeType, Store

__all__ = ["NeighborLoader"]

SPLITS = ("train", "valid", "test")

# Until April 1970. Times of today in microseconds, milliseconds or seconds are less as well.
_FEW_NANOSECONDS = 10**16


# Arguments of PyG's loaders that loaders of a Store do not have, with their defaults and what to do instead.
_OF_PYG_DATA = {
    "subgraph_type": ("directional", "add reverse edges when the graph is partitioned (`to_undirected=True`)"),
    "transform_sampler_output": (None, "use `transform`, which gets the batch"),
    "neighbor_sampler": (None, "set the arguments of the loader"),
    "directed": (True, "add reverse edges when the graph is partitioned (`to_undirected=True`)"),
}


class Loader(EpochLoader):
    """A loader of nodes or edges with their neighborhoods.

    Of PyG's data, which is in memory, a loader is a subclass of PyTorch's ``DataLoader``.
    """

    # The name of the class in `pyg_loaders`.
    _OF_DATA: str
    _loader: _edgecut.Loader
    _store: Store
    _convert: Callable[..., Any]
    _edge_ids: EdgeIds | None
    batch_size: int

    def __init_subclass__(cls) -> None:
        # Python 3.10 would show the signature of `__new__`.
        _, *others = inspect.signature(cls.__init__).parameters.values()
        cls.__signature__ = inspect.Signature(others)  # type: ignore[attr-defined]

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        data = args[0] if args else kwargs.get("data")
        # A program that has not imported PyG has no data of it.
        if isinstance(data, Store) or "torch_geometric" not in sys.modules:
            return super().__new__(cls)
        from . import pyg_data, pyg_loaders

        if not pyg_data.is_pyg_data(data):
            return super().__new__(cls)
        # A subclass would lose its methods.
        if "_OF_DATA" not in cls.__dict__:
            raise TypeError(f"{cls.__name__} cannot load PyG's data: derive it from edgecut.pyg_loaders.{cls._OF_DATA}")
        return getattr(pyg_loaders, cls._OF_DATA)(*args, **kwargs)

    def _start(self, data: Store, settings: dict[str, Any], arguments: dict[str, Any]) -> None:
        """Make the native loader. `settings` has what differs between loaders, `arguments` what they share."""
        # PyTorch's loaders have an argument of the same name, which is no string.
        of_torch = {} if isinstance(arguments["sampler"], str) else {"sampler": arguments["sampler"]}
        refuse_unknown(type(self).__name__, {**arguments["kwargs"], **of_torch}, stacklevel=5)
        for name, (default, remedy) in _OF_PYG_DATA.items():
            if arguments[name] != default:
                raise ValueError(f"`{name}` is {arguments[name]!r}, which needs PyG's data in memory: {remedy}")
        for name in ("is_sorted", "filter_per_worker"):
            if arguments[name]:
                warnings.warn(f"`{name}` has no effect: threads make the batches", stacklevel=4)
        distributed._refuse_copies(data.world_size)
        weight_attr = arguments["weight_attr"]
        if weight_attr not in (None, "edge_weight"):
            raise ValueError(f"`weight_attr` is {weight_attr!r}: the weights of edges are named 'edge_weight'")
        time_attr = arguments["time_attr"]
        check_strategy(arguments["temporal_strategy"], time_attr)
        even_batches = data.world_size > 1 if arguments["even_batches"] is None else arguments["even_batches"]
        self.data = self._store = data
        self._transform = arguments["transform"]
        self._convert = _converter(arguments["output"])
        edge_index = arguments["edge_index"]
        self._edge_ids = None if edge_index is None else EdgeIds(data, edge_index)
        self.batch_size = whole_number(arguments["batch_size"], "batch_size", 1)
        shared = ("batch_size", "shuffle", "drop_last", "seed", "replace", "disjoint", "temporal_strategy", "sampler")
        self._loader = _edgecut.Loader(
            data._graph,
            {
                **{name: arguments[name] for name in shared},
                "batch_dependency": arguments["batch_dependency"],
                "num_neighbors": _fan_outs(data, arguments["num_neighbors"]),
                "even_batches": even_batches,
                "concurrency": arguments["num_workers"],
                "weighted": weight_attr is not None,
                "edge_positions": edge_index is not None,
                "time_attr": "node_time" if time_attr == "time" else time_attr,
                "clusters": None,
                **settings,
            },
        )
        warn_if_empty(self, arguments["drop_last"], stacklevel=4)

    def __len__(self) -> int:
        """Return the number of batches of this process in an epoch, which is the same in all processes."""
        return len(self._loader)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def _as_batch(self, arrays: dict[str, Any]) -> Any:
        if self._edge_ids is not None:
            self._edge_ids.add(arrays["nodes"], arrays["edges"])
        return self._convert(self._store, arrays["nodes"], arrays["edges"], self._of_inputs(arrays))

    def _of_inputs(self, arrays: dict[str, Any]) -> dict[str, Any]:
        """Return what a batch has of its input nodes or edges. In a heterogeneous graph, a dict by type for each."""
        raise NotImplementedError


class NeighborLoader(Loader):
    """A loader of mini-batches that samples neighbors around input nodes.

    It has the arguments of ``torch_geometric.loader.NeighborLoader`` in the same order, and yields the same layout. Native
    threads sample ahead while the program trains.

    Of PyG's data in memory, the loader is a subclass of PyG's ``NeighborLoader``: all arguments have the meaning and the
    defaults of PyG and of PyTorch's ``DataLoader``, except that the ``num_workers`` are threads. Types of nodes and edges can
    have any name, and so can the attributes of ``time_attr`` and ``weight_attr``. ``seed`` repeats the random choices. The
    rest of this page describes loaders of a :class:`Store`.

    In a job of several processes all of them must create their loaders in the same order and with the same arguments, which they
    compare, and take the same number of batches per epoch; neighbors and features come from all parts. ``edge_index`` is
    compared only by whether it is given. ``num_workers``, ``transform`` and ``output`` may differ, and without an array of
    input nodes ``batch_size``.

    Parameters
    ----------
    data : Store, Data, HeteroData, pair of FeatureStore and GraphStore, or PygGraph
        The graph. :func:`from_pyg` makes a ``PygGraph``, which loaders share.
    num_neighbors : list of int, or dict of edge type to list of int
        The number of neighbors per hop, from the input nodes outwards; -1 for all. Keys of a dict are triples, or
        relations.
    input_nodes : str, array of int, array of bool, or pair of node type and one of these; optional
        The nodes around which is sampled. ``"train"``, ``"valid"`` and ``"test"`` stand for a split, a node type for all
        of its nodes, and ``None`` for all nodes. In a job, a process takes the nodes of its own part; but an array must be
        the same in all processes, which take its batches in turn.
    input_time : array of int, optional
        The time of each input node, for arrays, in the unit of the graph's times: nanoseconds since 1970 for dates of tables.
        Needs ``time_attr``. A node may be listed at several times.
    replace : bool, default False
        Sample with replacement.
    disjoint : bool, default False
        Sample a separate neighborhood for each input node.
    subgraph_type, transform_sampler_output, neighbor_sampler, directed
        For PyG's data only.
    is_sorted, filter_per_worker
        Without effect for a :class:`Store`.
    temporal_strategy : {'uniform', 'last'}
        The choice among neighbors that are not too late.
    time_attr : {'time', 'node_time', 'edge_time'}, optional
        Sample no node or no edge that is later than its input node. Implies ``disjoint``.
    weight_attr : {'edge_weight'}, optional
        Sample neighbors with probabilities proportional to the weights of edges.
    transform : callable, optional
        A function that is applied to each batch.
    batch_size : int, default 1
        The number of input nodes per batch.
    shuffle : bool, default False
        Shuffle the input nodes anew in each epoch.
    drop_last : bool, default False
        Leave out the batches after the last one for which all processes have ``batch_size`` input nodes. Even batches
        are never left out.
    num_workers : int, default 2
        The number of batches that are made at the same time, by threads. 0 makes each batch on request.
    seed : int, default 0
        The seed of all random choices. The same seed gives the same batches, for any partitioning in the case of an
        array.
    even_batches : bool, optional
        Spread the input nodes of a split or of all nodes evenly over the batches, so that all processes have the same
        number of batches with nodes. The default is True in a job of several processes.
    output : {'pyg', 'numpy'}, optional
        The type of batches: ``Data`` and ``HeteroData`` of PyG with tensors, or dicts with arrays. The default is PyG if it
        is installed.
    edge_index : array of int, [2, E], or dict of edge type to array; optional
        The edges of the dataset, in its order, for ``e_id``, if the parts do not store the position of an edge in the dataset
        (``edge_ids`` of :func:`partition`): it is looked up here. Edges of ``to_undirected`` are sorted by source and then by
        destination, each once. Takes 8 bytes per edge and 8 per node in each process, beside the edges.
    sampler : {'neighbor', 'labor'}, default 'neighbor'
        With ``'labor'``, the nodes of a batch share the random numbers of their neighbors (layer-neighbor sampling).
        The neighbors of one node are distributed as before, but a batch has fewer nodes. For PyG's data, where
        ``sampler`` may also be a sampler of PyTorch, another object than a string chooses the input nodes.
    batch_dependency : int, optional
        With ``sampler='labor'``, the number of batches over which the random numbers turn into new ones, so that
        consecutive batches share nodes. The default is 1, independent batches.

    Raises
    ------
    ValueError
        If an argument does not fit the graph, or differs between the processes of a job.
    EdgecutError
        If another process has failed.

    Notes
    -----
    For a batch with N nodes, E edges, B input nodes and H hops:

    ===================== ================ ==============================================================
    ``x``                 float32 [N, F]   features of nodes; the input nodes come first
    ``edge_index``        int64 [2, E]     sources and targets, numbered in the batch
    ``n_id``              int64 [N]        ids in the dataset
    ``y``                 int64 [B]        labels of the input nodes, -1 for none. Unlike in PyG, other nodes have none
    ``y``                 float32 [B, T]   targets of the input nodes, NaN for none, if the graph has these and no labels
    ``time``              int64 [N]        times of nodes
    ``edge_attr``         float32 [E, D]   features of edges
    ``edge_weight``       float32 [E]      weights of edges
    ``edge_time``         int64 [E]        times of edges
    ``e_id``              int64 [E]        positions in ``edge_index``, if that has the type, or those that the parts store
    ``batch``             int64 [N]        position of the input node of each neighborhood, with ``disjoint``
    ``input_id``          int64 [B]        positions in ``input_nodes``, if that is an array of ids, otherwise ids
    ``batch_size``        int              B
    ``num_sampled_nodes`` H + 1 int        nodes that each hop has added, the input nodes first
    ``num_sampled_edges`` H int            edges that each hop has added
    ===================== ================ ==============================================================

    A batch has those attributes that the graph has. In a heterogeneous graph each type has its own.

    Examples
    --------
    >>> import tempfile
    >>> import edgecut
    >>> import numpy as np
    >>> folder = tempfile.mkdtemp()
    >>> np.save(f"{folder}/edge_index.npy", np.array([[3, 0, 1], [0, 1, 2]]))
    >>> with edgecut.open(folder) as store:
    ...     batch = next(iter(edgecut.NeighborLoader(store, [-1, -1], [1], output="numpy")))
    >>> batch["n_id"].tolist(), batch["edge_index"].tolist(), batch["num_sampled_nodes"]
    ([1, 0, 3], [[1, 2], [0, 1]], [1, 1, 1])
    """

    _OF_DATA = "NeighborLoader"

    @checked
    def __init__(
        self,
        data: Store,
        num_neighbors: Sequence[int] | Mapping[Any, Sequence[int]],
        input_nodes: Any = None,
        input_time: Any = None,
        replace: bool = False,
        subgraph_type: Any = "directional",
        disjoint: bool = False,
        temporal_strategy: str = "uniform",
        time_attr: str | None = None,
        weight_attr: str | None = None,
        transform: Callable[[Any], Any] | None = None,
        transform_sampler_output: Callable[[Any], Any] | None = None,
        is_sorted: bool = False,
        filter_per_worker: bool | None = None,
        neighbor_sampler: Any = None,
        directed: bool = True,
        *,
        batch_size: int = 1,
        shuffle: bool = False,
        drop_last: bool = False,
        num_workers: int = 2,
        seed: int = 0,
        even_batches: bool | None = None,
        output: str | None = None,
        edge_index: Any = None,
        sampler: str = "neighbor",
        batch_dependency: int | None = None,
        **kwargs: Any,
    ) -> None:
        node_type, split, ids, self._positions = _input_nodes(data, input_nodes)
        if input_time is not None and time_attr is None:
            raise ValueError("`input_time` needs `time_attr`, without which later neighbors are sampled as well")
        if ids is not None and not disjoint and time_attr is None and len(np.unique(ids)) < len(ids):
            raise ValueError("`input_nodes` has a node twice, which needs `disjoint=True`")
        settings = {
            "node_type": node_type,
            "seeds": ids,
            "seed_times": times_of_inputs(data, input_time, "input_time"),
            "split": split,
            "links": None,
        }
        self._seed_type = 0 if node_type is None else [t.name for t in data.node_types].index(node_type)
        self._start(data, settings, locals())

    def _of_inputs(self, arrays: dict[str, Any]) -> dict[str, Any]:
        nodes = self._store.node_types[self._seed_type]
        of_inputs = {"batch_size": arrays["batch_size"], **labels_of_inputs(nodes, arrays)}
        if self._positions is not None:
            of_inputs["input_id"] = self._positions[arrays["input_id"]]
        else:
            of_inputs["input_id"] = arrays["nodes"][self._seed_type]["n_id"][: arrays["batch_size"]]
        return by_type(self._store, nodes.name, of_inputs)


def _input_nodes(
    data: Store, input_nodes: Any
) -> tuple[str | None, str | None, np.ndarray | None, np.ndarray | None]:
    """Return the node type, the split and the ids of the input nodes, and the position of each id in the argument.

    Each is None if not given.
    """
    types = [t.name for t in data.node_types]
    if isinstance(input_nodes, tuple) and len(input_nodes) == 2 and isinstance(input_nodes[0], str):
        node_type, nodes = input_nodes
    elif isinstance(input_nodes, str) and (input_nodes in types or input_nodes not in SPLITS):
        node_type, nodes = input_nodes, None
    else:
        node_type, nodes = None, input_nodes
    if node_type is not None and node_type not in types:
        raise ValueError(f"`input_nodes`: there is no node type {node_type!r}, only {', '.join(types)}")
    if node_type is None and len(types) > 1:
        example = "'train'"
        if nodes is not None:
            example = repr(nodes) if isinstance(nodes, str) else "ids"
        names = ", ".join(types)
        raise ValueError(f"`input_nodes` must name one of the node types {names}, as in ({types[0]!r}, {example})")
    if nodes is None:
        return node_type, None, None, None
    if isinstance(nodes, str):
        if nodes not in SPLITS:
            raise ValueError(f"`input_nodes`: {nodes!r} is not a split: choose from {', '.join(SPLITS)}")
        sizes = {t.name: t.split_sizes[SPLITS.index(nodes)] for t in data.node_types}
        if sizes[node_type or types[0]] == 0:
            others = [name for name, size in sizes.items() if size > 0]
            only = f": only {', '.join(others)} has" if others else ""
            raise ValueError(f"`input_nodes`: no node of type {node_type or types[0]} is in the split {nodes!r}{only}")
        return node_type, nodes, None, None
    ids = array(nodes, "input_nodes")
    refuse_texts(ids, "input_nodes")
    num_nodes = data.node_types[types.index(node_type) if node_type else 0].num_nodes
    if ids.dtype == np.bool_:
        if ids.shape != (num_nodes,):
            raise ValueError(f"`input_nodes`: the mask has the shape {ids.shape}, but there are {num_nodes} nodes")
        ids = np.flatnonzero(ids)
        return node_type, None, ids, ids
    ids = integers(ids, "input_nodes")
    refuse_numeric_mask(ids, num_nodes, "input_nodes", "nodes")
    return node_type, None, ids, np.arange(len(ids))


def times_of_inputs(data: Store, times: Any, argument: str) -> np.ndarray | None:
    """Return the times of input nodes or edges. A warning tells that they seem to have another unit than the times of the graph."""
    if times is None:
        return None
    found = integers(times, argument)
    if data._time_unit == "nanoseconds" and len(found) > 0 and np.abs(found).max() < _FEW_NANOSECONDS:
        warnings.warn(
            f"`{argument}` has times up to {found.max()}, but those of {data.name} are nanoseconds since 1970, so that nearly all of them "
            "are later and are not sampled: pass nanoseconds, such as `times.astype('datetime64[ns]').astype('int64')`",
            stacklevel=4,
        )
    return found


def labels_of_inputs(nodes: NodeType, arrays: dict[str, Any]) -> dict[str, np.ndarray]:
    """Return the labels or targets of the input nodes of a batch, if their type has any."""
    if nodes.num_classes > 0:
        return {"y": arrays["y"]}
    if nodes.num_targets > 0:
        return {"y": arrays["targets"].reshape(-1, nodes.num_targets)}
    return {}


def refuse_texts(ids: np.ndarray, argument: str) -> None:
    """Reject ids of tables where numbers of nodes are expected."""
    if ids.size > 0 and isinstance(ids.flat[0], str):
        raise ValueError(f"`{argument}` has texts: `store.lookup(ids, node_type)` returns the numbers of nodes with these ids in the tables")


def by_type(store: Store, key: Any, values: dict[str, Any]) -> dict[str, Any]:
    """Return the values as those of a type, if the graph has several."""
    return {name: {key: value} for name, value in values.items()} if store.is_heterogeneous else values


def _fan_outs(data: Store, num_neighbors: Any) -> dict[str, Any]:
    """Return the fan-outs of named edge types, and those of the others."""
    if not isinstance(num_neighbors, Mapping):
        return {"others": integers(num_neighbors, "num_neighbors").tolist(), "named": []}
    names = [_edge_type_name(data, key) for key in num_neighbors]
    lists = [integers(numbers, "num_neighbors").tolist() for numbers in num_neighbors.values()]
    return {"others": None, "named": list(zip(names, lists))}


def _edge_type_name(data: Store, key: Any) -> str:
    if isinstance(key, str):
        return key
    if not is_edge_type(key):
        raise TypeError(f"`num_neighbors`: the key {key!r} is neither a relation nor a triple of source, relation and destination")
    return "__".join(known_edge_type(data, key, "num_neighbors"))


def is_edge_type(key: Any) -> bool:
    """Return whether a value is the name of an edge type, with or without the relation."""
    return isinstance(key, tuple) and len(key) in (2, 3) and all(isinstance(name, str) for name in key)


def known_edge_type(data: Store, key: tuple[str, ...], argument: str) -> tuple[str, ...]:
    """Return the name of an edge type with its relation, and reject two names without an edge type between them."""
    edge_types = [t.name for t in data.edge_types]
    name = whole_edge_type(key, edge_types, argument)
    if len(name) == 2:
        split = f", as in ({edge_types[0]}, {key[1]!r})" if key[1] in SPLITS else ""
        names = ", ".join(map(str, edge_types))
        raise ValueError(f"`{argument}`: no edge type is from {key[0]!r} to {key[1]!r}: name one of {names}{split}")
    return name


def _converter(output: str | None) -> Callable[..., Any]:
    """Return the function that makes a batch of arrays."""
    if check_output(output) == "pyg":
        from .pyg import to_pyg

        return to_pyg
    return to_dict


def to_dict(
    store: Store, nodes: list[dict[str, Any]], edges: list[dict[str, Any]], of_inputs: dict[str, Any]
) -> dict[str, Any]:
    """Name the arrays of a batch as PyG does. In a heterogeneous graph each has a dict by type."""
    batch = dict(of_inputs)
    node_types = [t.name for t in store.node_types]
    edge_types = [t.name for t in store.edge_types]
    for key, of_types, types in (("nodes", nodes, node_types), ("edges", edges, edge_types)):
        for arrays, of_type in zip(of_types, types):
            for name, values in arrays.items():
                name = f"num_sampled_{key}" if name == "num_sampled" else name
                if store.is_heterogeneous:
                    batch.setdefault(name, {})[of_type] = values
                else:
                    batch[name] = values
    return batch

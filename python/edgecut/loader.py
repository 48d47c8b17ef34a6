"""Loaders of mini-batches."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from . import _edgecut
from .store import Store

__all__ = ["NeighborLoader"]

_SPLITS = ("train", "valid", "test")
# Arguments of PyTorch's DataLoader that have no meaning for loaders without worker processes.
_MEANINGLESS = ("filter_per_worker", "is_sorted", "multiprocessing_context", "persistent_workers", "pin_memory", "prefetch_factor")


class NeighborLoader:
    """A loader of mini-batches that samples neighbors around input nodes.

    It has the arguments of ``torch_geometric.loader.NeighborLoader``, and yields the same layout. Threads of Rust sample
    ahead while the program trains. In a job of several processes all of them must create their loaders in the same order
    and take the same number of batches per epoch; neighbors and features come from all parts.

    Parameters
    ----------
    data : Store
        The graph.
    num_neighbors : list of int, or dict of edge type to list of int
        The number of neighbors per hop, from the input nodes outwards; -1 for all. Keys of a dict are triples, or
        relations.
    input_nodes : str, array of int, array of bool, or pair of node type and one of these; optional
        The nodes around which is sampled. ``"train"``, ``"valid"`` and ``"test"`` stand for a split, a node type for all
        of its nodes, and ``None`` for all nodes. In a job, a process takes the nodes of its own part; but an array must be
        the same in all processes, which take its batches in turn.
    input_time : array of int, optional
        The time of each input node, for arrays.
    replace : bool, default False
        Sample with replacement.
    disjoint : bool, default False
        Sample a separate neighborhood for each input node.
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
        Leave out a batch of fewer than ``batch_size`` input nodes.
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

    Raises
    ------
    ValueError
        If an argument does not fit the graph.
    EdgecutError
        If another process has failed.

    Notes
    -----
    A batch has ``x``, ``edge_index``, ``n_id`` (ids in the dataset), ``batch_size``, ``num_sampled_nodes`` and
    ``num_sampled_edges``. It has ``y``, the labels of the input nodes, ``time``, ``edge_weight``, ``edge_time``,
    ``edge_attr`` and ``batch`` if the graph or the loader has them. If ``input_nodes`` is an array, ``input_id`` has the
    position in it of each input node of the batch. Unlike in PyG, ``y`` has no rows for other nodes, and there is no
    ``e_id``.
    """

    def __init__(
        self,
        data: Store,
        num_neighbors: Sequence[int] | Mapping[Any, Sequence[int]],
        input_nodes: Any = None,
        input_time: Any = None,
        replace: bool = False,
        disjoint: bool = False,
        temporal_strategy: str = "uniform",
        time_attr: str | None = None,
        weight_attr: str | None = None,
        transform: Callable[[Any], Any] | None = None,
        *,
        batch_size: int = 1,
        shuffle: bool = False,
        drop_last: bool = False,
        num_workers: int = 2,
        seed: int = 0,
        even_batches: bool | None = None,
        output: str | None = None,
        **kwargs: Any,
    ) -> None:
        for name in kwargs:
            if name not in _MEANINGLESS:
                raise TypeError(f"NeighborLoader has no argument `{name}`")
            warnings.warn(f"`{name}` has no effect: threads make the batches", stacklevel=2)
        if weight_attr not in (None, "edge_weight"):
            raise ValueError(f"`weight_attr` is {weight_attr!r}: the weights of edges are named 'edge_weight'")
        node_type, split, ids = _input_nodes(data, input_nodes)
        self._store = data
        self._order = None if ids is None else np.argsort(ids, kind="stable")
        self._ids = ids
        self._transform = transform
        self._drop_last = drop_last
        self._convert = _converter(data, output)
        self._epoch = 0
        self.batch_size = batch_size
        self._loader = _edgecut.Loader(
            data._graph,
            {
                "num_neighbors": _fan_outs(num_neighbors),
                "node_type": node_type,
                "seeds": ids,
                "seed_times": None if input_time is None else _integers(input_time, "input_time"),
                "split": split,
                "batch_size": batch_size,
                "shuffle": shuffle,
                "even_batches": data.world_size > 1 if even_batches is None else even_batches,
                "seed": seed,
                "concurrency": num_workers,
                "replace": replace,
                "weighted": weight_attr is not None,
                "disjoint": disjoint,
                "time_attr": "node_time" if time_attr == "time" else time_attr,
                "temporal_strategy": temporal_strategy,
            },
        )
        types = [t.name for t in data.node_types]
        self._seed_type = 0 if node_type is None else types.index(node_type)

    def __len__(self) -> int:
        """Return the number of batches of this process in an epoch, as if ``drop_last`` was False."""
        return len(self._loader)

    def set_epoch(self, epoch: int) -> None:
        """Set the number of the next epoch, which selects its order and its random choices. It counts from 0."""
        self._epoch = epoch

    def __iter__(self) -> Iterator[Any]:
        """Return the batches of the next epoch."""
        epoch = self._epoch
        self._epoch += 1
        return self._batches(epoch)

    def _batches(self, epoch: int) -> Iterator[Any]:
        for arrays in self._loader.epoch(epoch):
            if self._drop_last and arrays["batch_size"] < self.batch_size:
                continue
            if self._ids is not None:
                arrays["input_id"] = self._positions(arrays)
            batch = self._convert(self._store, arrays, self._seed_type)
            yield batch if self._transform is None else self._transform(batch)

    def _positions(self, arrays: dict[str, Any]) -> np.ndarray:
        """Return the positions of the input nodes of a batch in the array of input nodes."""
        seeds = arrays["nodes"][self._seed_type]["n_id"][: arrays["batch_size"]]
        return self._order[np.searchsorted(self._ids, seeds, sorter=self._order)]


def _input_nodes(data: Store, input_nodes: Any) -> tuple[str | None, str | None, np.ndarray | None]:
    """Return the node type, the split and the ids of the input nodes, each None if not given."""
    types = [t.name for t in data.node_types]
    if isinstance(input_nodes, tuple) and len(input_nodes) == 2 and isinstance(input_nodes[0], str):
        node_type, nodes = input_nodes
    elif isinstance(input_nodes, str) and (input_nodes in types or input_nodes not in _SPLITS):
        node_type, nodes = input_nodes, None
    else:
        node_type, nodes = None, input_nodes
    if node_type is not None and node_type not in types:
        raise ValueError(f"`input_nodes`: there is no node type {node_type!r}, only {', '.join(types)}")
    if nodes is None:
        return node_type, None, None
    if isinstance(nodes, str):
        if nodes not in _SPLITS:
            raise ValueError(f"`input_nodes`: {nodes!r} is not a split: choose from {', '.join(_SPLITS)}")
        return node_type, nodes, None
    ids = np.asarray(nodes)
    if ids.dtype == np.bool_:
        num_nodes = data.node_types[types.index(node_type) if node_type else 0].num_nodes
        if ids.shape != (num_nodes,):
            raise ValueError(f"`input_nodes`: the mask has the shape {ids.shape}, but there are {num_nodes} nodes")
        ids = np.flatnonzero(ids)
    return node_type, None, _integers(ids, "input_nodes")


def _integers(values: Any, name: str) -> np.ndarray:
    array = np.asarray(values)
    if array.ndim != 1 or (array.size > 0 and not np.issubdtype(array.dtype, np.integer)):
        raise ValueError(f"`{name}` must have one dimension and whole numbers, not {array.ndim} of {array.dtype}")
    return np.ascontiguousarray(array, np.int64)


def _fan_outs(num_neighbors: Any) -> str:
    """Return the fan-outs as text, as `train --num-neighbors` takes them."""
    if not isinstance(num_neighbors, Mapping):
        return ",".join(str(int(number)) for number in num_neighbors)
    names = (key if isinstance(key, str) else "__".join(key) for key in num_neighbors)
    lists = (",".join(str(int(number)) for number in numbers) for numbers in num_neighbors.values())
    return ";".join(f"{name}={numbers}" for name, numbers in zip(names, lists))


def _converter(data: Store, output: str | None) -> Callable[[Store, dict[str, Any], int], Any]:
    """Return the function that makes a batch of arrays."""
    if output not in (None, "pyg", "numpy"):
        raise ValueError(f"`output` is {output!r}: choose from 'pyg' and 'numpy'")
    if output != "numpy":
        try:
            from .pyg import to_pyg

            return to_pyg
        except ImportError:
            if output == "pyg":
                raise
    return _to_dict


def _to_dict(store: Store, arrays: dict[str, Any], seed_type: int) -> dict[str, Any]:
    """Name the arrays as PyG does. In a heterogeneous graph each has a dict by type."""
    batch: dict[str, Any] = {"batch_size": arrays["batch_size"]}
    for name in ("y", "input_id"):
        if name in arrays and (name != "y" or store.node_types[seed_type].num_classes > 0):
            batch[name] = arrays[name]
    for key, types in (("nodes", store.node_types), ("edges", store.edge_types)):
        for arrays_of_type, t in zip(arrays[key], types):
            for name, values in arrays_of_type.items():
                name = f"num_sampled_{key}" if name == "num_sampled" else name
                if store.is_heterogeneous:
                    batch.setdefault(name, {})[t.name] = values
                else:
                    batch[name] = values
    return batch


"""A loader of batches of clusters."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ._edgecut import split_nodes
from .arguments import checked, integers
from .loader import Loader, NeighborLoader, labels_of_inputs
from .store import Store

__all__ = ["ClusterLoader"]

# The names that PyG gives to the splits.
_MASKS = {"train": "train_mask", "valid": "val_mask", "test": "test_mask"}

# Batches have all edges into their nodes, of which the edges from other nodes are left out.
_OF_NEIGHBOR_LOADER = {
    **{name: parameter.default for name, parameter in inspect.signature(NeighborLoader).parameters.items()},
    "num_neighbors": [-1],
}


class ClusterLoader(Loader):
    """A loader of mini-batches of clusters, as in Cluster-GCN (Chiang et al., 2019).

    A batch has all nodes of some clusters and all edges between them, also from one cluster to another. Each cluster is in
    one batch of an epoch. Of a ``ClusterData``, which is in memory, the loader is PyG's ``ClusterLoader`` with its arguments.
    The rest of this page describes loaders of a :class:`Store`.

    In a job of several processes all of them must create their loaders in the same order and with the same arguments, which they
    compare, and take the same number of batches per epoch. They take the batches in turn, so that batches do not depend on
    the number of processes. A process without clusters in the last step gets an empty batch. ``edge_index`` is compared only
    by whether it is given. ``num_workers``, ``transform`` and ``output`` may differ.

    Parameters
    ----------
    cluster_data : Store or ClusterData
        The graph, which must have one node type and one edge type.
    batch_size : int, default 1
        The number of clusters per batch.
    shuffle : bool, default False
        Shuffle the clusters anew in each epoch, so that other clusters come together.
    clusters : array of int, [num_nodes], optional
        The cluster of each node, in the order of the dataset and from 0. The default are the parts that the graph was
        partitioned into, which may be many more than the processes.
    transform : callable, optional
        A function that is applied to each batch.
    drop_last : bool, default False
        Leave out the batches after the last one for which all processes have ``batch_size`` clusters.
    num_workers : int, default 2
        The number of batches that are made at the same time, by threads. 0 makes each batch on request.
    seed : int, default 0
        The seed of the order. The same seed gives the same batches for any number of processes.
    output : {'pyg', 'numpy'}, optional
        The type of batches: ``Data`` of PyG with tensors, or dicts with arrays. The default is PyG if it is installed.
    edge_index : array of int, [2, E], optional
        The edges of the dataset for ``e_id``, as for :class:`NeighborLoader`.

    Raises
    ------
    ValueError
        If an argument does not fit the graph, or differs between the processes of a job.
    EdgecutError
        If another process has failed.

    Notes
    -----
    For a batch with N nodes and E edges:

    ===================== ================ ==============================================================
    ``x``                 float32 [N, F]   features of nodes
    ``edge_index``        int64 [2, E]     sources and targets, numbered in the batch
    ``n_id``              int64 [N]        ids in the dataset
    ``y``                 int64 [N]        labels, -1 for none
    ``y``                 float32 [N, T]   targets, NaN for none, if the graph has these and no labels
    ``train_mask``        bool [N]         nodes of the split, if the graph has splits; ``val_mask`` and ``test_mask`` alike
    ``time``              int64 [N]        times of nodes
    ``edge_attr``         float32 [E, D]   features of edges
    ``edge_weight``       float32 [E]      weights of edges
    ``edge_time``         int64 [E]        times of edges
    ``e_id``              int64 [E]        positions in ``edge_index``, if that is given, or those that the parts store
    ===================== ================ ==============================================================

    A batch has those attributes that the graph has. ``y`` has the labels of all splits: select those to train on by
    ``train_mask``.

    Examples
    --------
    >>> import tempfile
    >>> import edgecut
    >>> import numpy as np
    >>> folder = tempfile.mkdtemp()
    >>> np.save(f"{folder}/edge_index.npy", np.array([[3, 0, 1, 2], [0, 1, 2, 3]]))
    >>> with edgecut.open(folder) as store:
    ...     loader = edgecut.ClusterLoader(store, batch_size=2, clusters=[0, 0, 1, 2], output="numpy")
    ...     batches = list(loader)
    >>> [batch["n_id"].tolist() for batch in batches], batches[0]["edge_index"].tolist()
    ([[0, 1, 2], [3]], [[0, 1], [1, 2]])
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        data = args[0] if args else kwargs.get("cluster_data")
        # A program that has not imported PyG has no data of it.
        of_pyg = sys.modules.get("torch_geometric.loader")
        if of_pyg is None or not isinstance(data, of_pyg.ClusterData):
            return object.__new__(cls)
        # A subclass would lose its methods.
        if cls is not ClusterLoader:
            raise TypeError(f"{cls.__name__} cannot load a ClusterData: derive it from torch_geometric.loader.ClusterLoader")
        return of_pyg.ClusterLoader(*args, **kwargs)

    @checked
    def __init__(
        self,
        cluster_data: Any,
        batch_size: int = 1,
        shuffle: bool = False,
        *,
        clusters: Any = None,
        transform: Callable[[Any], Any] | None = None,
        drop_last: bool = False,
        num_workers: int = 2,
        seed: int = 0,
        output: str | None = None,
        edge_index: Any = None,
        **kwargs: Any,
    ) -> None:
        if not isinstance(cluster_data, Store):
            raise TypeError(
                f"`cluster_data` must be a Store or a ClusterData, not {type(cluster_data).__name__}: clusters of PyG's data "
                "come from `edgecut.ClusterData(data, num_parts)`"
            )
        if cluster_data.is_heterogeneous:
            raise ValueError(
                "`cluster_data` has several types of nodes or edges, and batches of clusters have one of each, as PyG's: use "
                "NeighborLoader, or convert the graph by `to_homogeneous()` of PyG before it is partitioned"
            )
        ids, starts = _clusters(cluster_data, clusters)
        settings = {"node_type": None, "seeds": ids, "seed_times": None, "split": None, "links": None, "clusters": starts}
        self._start(cluster_data, settings, {**_OF_NEIGHBOR_LOADER, **locals()})
        self._masks = _packed_masks(cluster_data)

    def _as_batch(self, arrays: dict[str, Any]) -> Any:
        for of_type in [*arrays["nodes"], *arrays["edges"]]:
            # These are numbers of hops, and a batch of clusters has none.
            del of_type["num_sampled"]
        return super()._as_batch(arrays)

    def _of_inputs(self, arrays: dict[str, Any]) -> dict[str, Any]:
        # All nodes of a batch are input nodes.
        of_nodes: dict[str, Any] = labels_of_inputs(self._store.node_types[0], arrays)
        ids = arrays["nodes"][0]["n_id"]
        for name, packed in self._masks.items():
            of_nodes[name] = (packed[ids >> 3] >> (ids & 7)) % 2 == 1
        return of_nodes


def _clusters(data: Store, clusters: Any) -> tuple[np.ndarray | None, np.ndarray]:
    """Return the nodes cluster by cluster, and the position of the first node of each cluster with the number of nodes.

    Without nodes, clusters are ranges of the numbers that nodes have in the parts. There are no empty clusters.
    """
    if clusters is None:
        return None, np.unique(_starts_of_parts(data))
    numbers = integers(clusters, "clusters")
    num_nodes = data.node_types[0].num_nodes
    if len(numbers) != num_nodes:
        raise ValueError(f"`clusters` has {len(numbers)} entries for {num_nodes} nodes: give the cluster of each node")
    if num_nodes > 0 and numbers.min() < 0:
        raise ValueError(f"`clusters` has {numbers.min()}, but clusters are numbered from 0")
    _, sizes = np.unique(numbers, return_counts=True)
    return np.argsort(numbers, kind="stable"), np.concatenate([[0], np.cumsum(sizes)])


def _starts_of_parts(data: Store) -> np.ndarray:
    """Return the number of the first node of each part on disk, and the number of nodes.

    A process that opens several parts holds them as one, so only the folder has all of them.
    """
    remedy = "pass the cluster of each node in `clusters`"
    if data._folder is None:
        raise ValueError(f"servers do not tell the parts that they hold: {remedy}, or open the parts by `edgecut.open`")
    meta = data._folder / "META.json"
    if not meta.exists():
        raise ValueError(f"{data._folder} is a dataset without parts: {remedy}, or partition it into as many parts as clusters")
    data._check_folder(data._folder)
    return np.array(json.loads(meta.read_text())["node_types"][0]["book"], np.int64)


def _packed_masks(data: Store) -> dict[str, np.ndarray]:
    """Return the nodes of each split by the name of PyG's mask, one bit per node of the dataset."""
    nodes = data.node_types[0]
    masks: dict[str, np.ndarray] = {}
    if not any(nodes.split_sizes):
        return masks
    for split, name in _MASKS.items():
        mask = np.zeros(nodes.num_nodes, bool)
        mask[split_nodes(data._graph, 0, split, of_all=True)] = True
        masks[name] = np.packbits(mask, bitorder="little")
    return masks

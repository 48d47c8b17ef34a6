"""Graphs that are open."""

from __future__ import annotations

import atexit
import json
import os
import sys
import weakref
from dataclasses import dataclass

from . import distributed
from ._edgecut import Graph

__all__ = ["EdgeType", "NodeType", "Store", "open"]


@dataclass(frozen=True)
class NodeType:
    """The nodes of one type.

    Attributes
    ----------
    name : str
        The name of the type.
    num_nodes : int
        The number of nodes over all parts.
    num_features : int
        The number of features per node, 0 for none.
    num_classes : int
        The number of classes, 0 without labels.
    split_sizes : tuple of int
        The numbers of training, validation and test nodes.
    """

    name: str
    num_nodes: int
    num_features: int
    num_classes: int
    split_sizes: tuple[int, int, int]


@dataclass(frozen=True)
class EdgeType:
    """The edges of one type.

    Attributes
    ----------
    name : tuple of str
        The source type, the relation and the destination type.
    num_edges : int
        The number of edges over all parts.
    num_features : int
        The number of features per edge, 0 for none.
    """

    name: tuple[str, str, str]
    num_edges: int
    num_features: int


class Store:
    """A graph that is open. :func:`open` creates it.

    In a job of several processes it is closed together with those of the other processes: by :meth:`close`, at the end of
    a ``with`` block, or at the end of the program.

    Attributes
    ----------
    name : str
        The name of the dataset.
    num_parts : int
        The number of parts.
    node_types : list of NodeType
        The node types.
    edge_types : list of EdgeType
        The edge types.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._is_open = True
        meta = json.loads(graph.meta())
        self.name: str = meta["dataset"]
        self.num_parts: int = meta["num_parts"]
        self.node_types = [
            NodeType(t["name"], t["book"][-1], t["feature_dim"], t["num_classes"], tuple(t["split_sizes"]))
            for t in meta["node_types"]
        ]
        self.edge_types = [
            EdgeType((t["src_type"], t["relation"], t["dst_type"]), t["num_edges"], t.get("feature_dim", 0))
            for t in meta["edge_types"]
        ]
        _open_stores.add(self)

    @property
    def is_heterogeneous(self) -> bool:
        """Whether the graph has several types of nodes or edges. Its batches are ``HeteroData``."""
        return len(self.node_types) > 1 or len(self.edge_types) > 1

    @property
    def rank(self) -> int:
        """The number of this process in its job."""
        return self._graph.rank

    @property
    def world_size(self) -> int:
        """The number of processes of the job."""
        return self._graph.world_size

    @property
    def num_features(self) -> int:
        """The number of features per node of the only node type, or of all node types if they agree."""
        return self._of_all_types("num_features")

    @property
    def num_classes(self) -> int:
        """The number of classes of the only node type that has labels."""
        return self._of_all_types("num_classes", [t for t in self.node_types if t.num_classes > 0])

    def _of_all_types(self, name: str, types: list[NodeType] | None = None) -> int:
        values = {getattr(t, name) for t in (self.node_types if types is None else types)}
        if len(values) > 1:
            raise AttributeError(f"the node types of {self.name} differ in `{name}`: see `node_types`")
        return values.pop() if values else 0

    def close(self) -> None:
        """Leave the job. Waits until all processes of the job have called this.

        Raises
        ------
        EdgecutError
            If another process has failed, or does not close its store in time.
        """
        if self._is_open:
            self._is_open = False
            self._graph.close()

    def abort(self, reason: str) -> None:
        """End the job. The other processes raise an error with this reason."""
        if self._is_open:
            self._is_open = False
            self._graph.abort(reason)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is None:
            self.close()
        else:
            self.abort(_text(error))

    def __repr__(self) -> str:
        nodes = sum(t.num_nodes for t in self.node_types)
        edges = sum(t.num_edges for t in self.edge_types)
        return f"Store({self.name!r}, num_nodes={nodes}, num_edges={edges}, num_parts={self.num_parts})"


_open_stores: weakref.WeakSet[Store] = weakref.WeakSet()


def open(
    path: str | os.PathLike[str],
    *,
    num_threads: int | None = None,
    to_undirected: bool = False,
    split: str | None = None,
) -> Store:
    """Open a graph: the parts that :func:`partition` or ``partition-graph`` wrote, or a dataset.

    After :func:`edgecut.distributed.init` every process of the job must call this, with the same graph. Each process then
    holds its own part. A dataset that is not partitioned can be opened by processes on one machine only.

    Parameters
    ----------
    path : path
        The folder.
    num_threads : int, optional
        The number of threads that sample. The default is this process's share of the cores.
    to_undirected : bool, default False
        Add the missing reverse of every edge of a dataset.
    split : str, optional
        The split scheme of a dataset, if it has several.

    Returns
    -------
    Store

    Raises
    ------
    ValueError
        If the folder has neither parts nor a dataset, or an argument does not fit it.
    EdgecutError
        If a file is damaged, or the other processes do not join in time.
    """
    job = distributed._job
    settings = {
        "is_distributed": job is not None,
        "port": None if job is None else job.master_port,
        "num_opened": distributed._stores,
        "timeout": 60.0 if job is None else job.timeout,
        "num_threads": num_threads,
        "to_undirected": to_undirected,
        "split": split,
    }
    store = Store(Graph.open(os.fspath(path), settings))
    if job is not None:
        distributed._stores += 1
    return store


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


@atexit.register
def _close_all() -> None:
    # The error that ends the program, if there is one.
    error = getattr(sys, "last_value", None)
    for store in list(_open_stores):
        if error is None:
            store.close()
        else:
            store.abort(_text(error))

"""Graphs that are open."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import pathlib
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from . import distributed
from ._edgecut import EdgecutError, Graph, split_nodes
from .arguments import array, checked, integers
from .membership import Membership
from .table_ids import TableIds

if TYPE_CHECKING:
    from .pyg_stores import EdgecutFeatureStore, EdgecutGraphStore

__all__ = ["EdgeType", "NodeType", "Store", "connect", "open"]


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
    has_times : bool
        Whether nodes have times.
    num_targets : int
        The numbers to predict per node, for regression or several labels per node; 0 for none.
    """

    name: str
    num_nodes: int
    num_features: int
    num_classes: int
    split_sizes: tuple[int, int, int]
    has_times: bool = False
    num_targets: int = 0


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
    held_out_sizes : tuple of int
        The numbers of edges that are held out for validation and for test.
    """

    name: tuple[str, str, str]
    num_edges: int
    num_features: int
    held_out_sizes: tuple[int, int] = (0, 0)


class Store(Membership):
    """A graph that is open. :func:`open` and :func:`connect` create it.

    In a job of several processes it is closed together with those of the other processes: by :meth:`close`, at the end of
    a ``with`` block, or at the end of the program.

    Attributes
    ----------
    name : str
        The name of the dataset.
    num_parts : int
        The number of parts in the folder, of which a process may hold several; 1 for a dataset, and the number of servers for
        a graph that servers hold.
    node_types : list of NodeType
        The node types.
    edge_types : list of EdgeType
        The edge types.
    """

    def __init__(self, graph: Graph, reopen: Callable[[], Store], folder: str | os.PathLike[str] | None = None) -> None:
        super().__init__(graph, reopen)
        self._graph = graph
        meta = json.loads(graph.meta())
        # The folder of now, also if the program changes its working directory.
        self._folder = None if folder is None else pathlib.Path(os.path.abspath(folder))
        # The unit of all times, where a graph tells it.
        self._time_unit: str | None = meta.get("time_unit")
        self._has_transforms: bool = meta.get("has_transforms", False)
        self._types_with_ids = {t["name"] for t in meta["node_types"] if t.get("has_id_map")}
        self._table_ids: dict[str, TableIds] = {}
        # The checksums of the files of the parts. Servers do not tell them.
        self._files: dict[str, Any] = meta["files"]
        self.name: str = meta["dataset"]
        self.num_parts: int = graph.num_parts
        self.node_types = [
            NodeType(
                t["name"],
                t["book"][-1],
                t["feature_dim"],
                t["num_classes"],
                tuple(t["split_sizes"]),
                t.get("has_times", False),
                t.get("targets", {}).get("dim", 0),
            )
            for t in meta["node_types"]
        ]
        self.edge_types = [
            EdgeType(
                (t["src_type"], t["relation"], t["dst_type"]),
                t["num_edges"],
                t.get("feature_dim", 0),
                tuple(t.get("held_out", (0, 0))),
            )
            for t in meta["edge_types"]
        ]

    @property
    def is_heterogeneous(self) -> bool:
        """Whether the graph has several types of nodes or edges. Its batches are ``HeteroData``."""
        return len(self.node_types) > 1 or len(self.edge_types) > 1

    @property
    def num_features(self) -> int:
        """The number of features per node of the only node type, or of all node types if they agree."""
        return self._of_all_types("num_features")

    @property
    def num_classes(self) -> int:
        """The number of classes of the only node type that has labels."""
        return self._of_all_types("num_classes", [t for t in self.node_types if t.num_classes > 0])

    @property
    def num_targets(self) -> int:
        """The numbers to predict per node of the only node type that has targets."""
        return self._of_all_types("num_targets", [t for t in self.node_types if t.num_targets > 0])

    def _of_all_types(self, name: str, types: list[NodeType] | None = None) -> int:
        values = {getattr(t, name) for t in (self.node_types if types is None else types)}
        if len(values) > 1:
            raise AttributeError(f"the node types of {self.name} differ in `{name}`: see `node_types`")
        return values.pop() if values else 0

    @checked
    def split(self, name: str, node_type: str | None = None) -> np.ndarray:
        """Return the nodes of a split.

        In a job of several processes these are the nodes of the parts whose nodes this process takes for the input nodes ``name``.
        Processes that share parts get the same nodes here, and divide them in a loader, with ``shuffle`` in each epoch anew.

        Parameters
        ----------
        name : {'train', 'valid', 'test'}
            The split.
        node_type : str, optional
            The node type, if the graph has several.

        Returns
        -------
        array of int64, [num_nodes]
            Ids in the dataset, ascending.

        Raises
        ------
        ValueError
            If there is no such split or node type.
        EdgecutError
            If another process has failed.

        Examples
        --------
        >>> store.split("train")    # doctest: +SKIP
        array([   0,    3,    7, ..., 1997])
        """
        return split_nodes(self._graph, self.node_types.index(self._node_type(node_type)), name, of_all=False)

    def _node_type(self, name: str | None) -> NodeType:
        """Return the node type of an argument, which may be left out if the graph has one."""
        names = [t.name for t in self.node_types]
        if name not in names and (name is not None or len(names) > 1):
            raise ValueError(f"`node_type` is {name!r}: choose from {', '.join(names)}")
        return self.node_types[0 if name is None else names.index(name)]

    @checked
    def ids(self, node_type: str | None = None) -> np.ndarray:
        """Return the ids of nodes in the tables that the parts were made of.

        The first call reads them from the folders of all parts, which takes pyarrow. Ids that are row numbers need neither.

        Parameters
        ----------
        node_type : str, optional
            The node type, if the graph has several.

        Returns
        -------
        array of int64 or str, [num_nodes]
            The id of each node: ``n_id`` of a batch has positions in this array. It is read-only.

        Raises
        ------
        ValueError
            If there is no such node type, pyarrow is missing, or the parts are on other machines.
        EdgecutError
            If the ids of a part are missing or damaged, or if the parts have changed since they were opened.

        Examples
        --------
        >>> batch = next(iter(edgecut.NeighborLoader(store, [15, 10], ("customer", "test"))))    # doctest: +SKIP
        >>> store.ids("customer")[batch["customer"].n_id]                                        # doctest: +SKIP
        array(['C-00017', 'C-00042', ...], dtype=object)
        """
        nodes = self._node_type(node_type)
        if nodes.name not in self._types_with_ids:
            return np.arange(nodes.num_nodes)
        return self._ids_of(nodes).array

    @checked
    def lookup(self, ids: Any, node_type: str | None = None) -> np.ndarray:
        """Return the numbers of nodes that have some ids in the tables, for example for ``input_nodes``.

        Parameters
        ----------
        ids : array or list of int or str
            The ids. :meth:`ids` describes how they are read.
        node_type : str, optional
            The node type, if the graph has several.

        Returns
        -------
        array of int64, [number of ids]
            Ids in the dataset, which loaders and ``n_id`` have, in the order of ``ids``.

        Raises
        ------
        ValueError
            If a node does not exist, or as in :meth:`ids`.
        EdgecutError
            If the ids of a part are missing or damaged.

        Examples
        --------
        >>> store.lookup(["C-00042", "C-00017"], "customer")    # doctest: +SKIP
        array([42, 17])
        """
        nodes = self._node_type(node_type)
        wanted = array(ids, "ids")
        if wanted.ndim != 1:
            raise ValueError(f"`ids` must be a list of ids, not {ids!r}" if wanted.ndim == 0 else "`ids` must have one dimension")
        if len(wanted) == 0:
            return np.empty(0, np.int64)
        if nodes.name in self._types_with_ids:
            return self._ids_of(nodes).numbers_of(wanted)
        numbers = integers(wanted, "ids")
        if numbers.min() < 0 or numbers.max() >= nodes.num_nodes:
            wrong = numbers.min() if numbers.min() < 0 else numbers.max()
            raise ValueError(f"`ids` has {wrong}, but the ids of {nodes.name} are row numbers below {nodes.num_nodes}")
        return numbers

    def _ids_of(self, nodes: NodeType) -> TableIds:
        if nodes.name not in self._table_ids:
            if self._folder is None:
                raise ValueError(f"the ids of {nodes.name} are in the parts, which servers hold: open the parts by `edgecut.open`")
            self._check_folder(self._folder)
            self._table_ids[nodes.name] = TableIds(self._folder, nodes.name, nodes.num_nodes)
        return self._table_ids[nodes.name]

    def _check_folder(self, folder: pathlib.Path) -> None:
        """Check that a folder has the parts that were opened, before another file of it is read."""
        path = folder / "META.json"
        try:
            files = json.loads(path.read_text())["files"]
        except (OSError, ValueError, KeyError) as error:
            raise EdgecutError(f"{path} cannot be read: open the parts again ({error})") from error
        if files != self._files:
            raise EdgecutError(f"the parts in {folder} have changed since they were opened, so their nodes may have other ids: open them again")

    @checked
    def class_names(self, name: str) -> list[str] | None:
        """Return the names of the classes of a node type or edge type, in the order of their numbers.

        Parameters
        ----------
        name : str
            The node type, or the edge type as ``SRC__REL__DST``. Of a node type with several labels, ``TYPE:LABEL`` names one,
            and the type alone stands for the first one.

        Returns
        -------
        list of str or None
            None if the graph was not made of tables that name them, or if the parts are on other machines.

        Raises
        ------
        ValueError
            If there is no such type.
        EdgecutError
            If the parts have changed since they were opened.

        Examples
        --------
        >>> store.class_names("user__pays__shop")    # doctest: +SKIP
        ['honest', 'fraud']
        """
        node_types, edge_types = [t.name for t in self.node_types], ["__".join(t.name) for t in self.edge_types]
        of_type, label = (name, "") if name in [*node_types, *edge_types] else name.rpartition(":")[::2]
        if of_type not in [*node_types, *edge_types]:
            raise ValueError(f"`name` is {name!r}: choose from {', '.join([*node_types, *edge_types])}")
        if self._folder is None or not self._has_transforms:
            return None
        transforms = self._folder / "transforms.json"
        if not transforms.exists():
            return None
        self._check_folder(self._folder)
        saved = json.loads(transforms.read_text())["node_types" if of_type in node_types else "edge_types"].get(of_type, {})
        # The only label of a type has no name.
        if label != saved.get("label_name", label) and label:
            saved = saved.get("labels", {}).get(label, {})
        names: list[str] | None = saved.get("classes")
        return names

    def to_pyg(self) -> tuple[EdgecutFeatureStore, EdgecutGraphStore]:
        """Return the graph as PyG's feature store and graph store, which PyG's own loaders accept as their data.

        PyG's loaders need ``pyg-lib`` or ``torch_sparse``, and sample in this process, which must hold the whole graph.

        Returns
        -------
        tuple of FeatureStore and GraphStore

        Examples
        --------
        >>> loader = torch_geometric.loader.NeighborLoader(    # doctest: +SKIP
        ...     store.to_pyg(), [15, 10], input_nodes=torch.from_numpy(store.split("train")), batch_size=64)
        """
        from .pyg_stores import EdgecutFeatureStore, EdgecutGraphStore

        return EdgecutFeatureStore(self), EdgecutGraphStore(self)

    def _identity(self) -> str:
        return hashlib.sha256(self._graph.meta().encode()).hexdigest()

    def __repr__(self) -> str:
        nodes = sum(t.num_nodes for t in self.node_types)
        edges = sum(t.num_edges for t in self.edge_types)
        return f"Store({self.name!r}, num_nodes={nodes}, num_edges={edges}, num_parts={self.num_parts})"


@checked
def open(
    path: str | os.PathLike[str],
    *,
    num_threads: int | None = None,
    to_undirected: bool = False,
    split: str | None = None,
    encrypt: bool = False,
    check_traffic: bool = False,
) -> Store:
    """Open a graph: the parts that :func:`partition` or ``partition-graph`` wrote, or a dataset.

    After :func:`edgecut.distributed.init` every process of the job must call this, with the same graph. Each process then
    holds its own part. A dataset that is not partitioned can be opened by processes on one machine only. The first of them
    reads it, and issues a ``UserWarning`` for each note of the reader, such as files that are not read.

    Parameters
    ----------
    path : path
        The folder.
    num_threads : int, optional
        The number of threads that sample. The default is this process's share of the cores.
    to_undirected : bool, default False
        Add the missing reverse of every edge of a dataset. Of several edges from one node to another, the first stays with
        its weight, time and features.
    split : str, optional
        The split scheme of a dataset, if it has several.
    encrypt : bool, default False
        Encrypt all connections between the processes of the job, which needs a secret. Must be equal on all processes.
    check_traffic : bool, default False
        Detect bytes that a fault of the network has modified. Must be equal on all processes.

    Returns
    -------
    Store

    Raises
    ------
    ValueError
        If the folder has neither parts nor a dataset, or an argument does not fit it.
    EdgecutError
        If a file is damaged, or the other processes do not join in time.

    Examples
    --------
    >>> import tempfile
    >>> import edgecut
    >>> import numpy as np
    >>> folder = tempfile.mkdtemp()
    >>> np.save(f"{folder}/edge_index.npy", np.array([[3, 0, 1], [0, 1, 2]]))
    >>> with edgecut.open(folder) as store:
    ...     print(store.node_types[0].num_nodes, "nodes", store.edge_types[0].num_edges, "edges")
    4 nodes 3 edges
    """
    settings: dict[str, Any] = {"num_threads": num_threads, "to_undirected": to_undirected, "split": split}
    protection: dict[str, Any] = {"encrypt": encrypt, "check_traffic": check_traffic}
    reopen = functools.partial(open, os.path.abspath(path), **settings, **protection)
    store = distributed._open_in_job(lambda job: Store(Graph.open(os.fspath(path), settings, job), reopen, path), **protection)
    try:
        for warning in store._graph.warnings():
            # One level more than the caller, for the check of the arguments.
            warnings.warn(warning, stacklevel=3)
    except BaseException as error:
        # Filters of the program can make a warning an error, after which nobody could close the store.
        store.__exit__(type(error), error, None)
        raise
    return store


@checked
def connect(
    servers: str | Sequence[str] | None = None,
    *,
    timeout: float = 60.0,
    num_threads: int | None = None,
    encrypt: bool = False,
    check_traffic: bool = False,
) -> Store:
    """Open a graph that ``sampling-server`` processes hold. They sample, and this process holds no part of the graph.

    After :func:`edgecut.distributed.init` every process of the job must call this, with the same servers. The processes
    then share the input nodes. If ``EDGECUT_TOKEN`` or ``EDGECUT_TOKEN_FILE`` is set, it must have the secret of the
    servers.

    Parameters
    ----------
    servers : str or list of str, optional
        All servers as ``HOST:PORT``, in a list or separated by commas, in the order in which they were numbered. The
        default is the variable ``EDGECUT_SERVERS``, which ``launch`` sets.
    timeout : float, default 60
        The most seconds to wait for servers that do not answer yet.
    num_threads : int, optional
        The number of threads that prepare batches. The default is this process's share of the cores.
    encrypt : bool, default False
        Encrypt all connections. Must be equal on all servers and processes.
    check_traffic : bool, default False
        Detect bytes that a fault of the network has modified. Protects from accidents only. Must be equal on all servers
        and processes.

    Returns
    -------
    Store

    Raises
    ------
    ValueError
        If the list is empty, names a server twice, or has an entry that is no address.
    EdgecutError
        If a server cannot be reached in time, or the servers do not hold one graph in the order of the list.

    Examples
    --------
    >>> store = edgecut.connect("10.0.0.1:29600,10.0.0.2:29600")    # doctest: +SKIP
    >>> loader = edgecut.NeighborLoader(store, [15, 10], "train")   # doctest: +SKIP
    """
    if servers is None:
        servers = os.environ.get("EDGECUT_SERVERS")
        if not servers:
            raise ValueError("`servers` is missing, and EDGECUT_SERVERS is not set: name the servers as HOST:PORT")
    named = [servers] if isinstance(servers, str) else list(servers)
    if not all(isinstance(server, str) for server in named):
        raise TypeError(f"`servers` must be a str or a list of them, not {servers!r}")
    addresses = ",".join(named)
    settings: dict[str, Any] = {"timeout": timeout, "num_threads": num_threads}
    protection: dict[str, Any] = {"encrypt": encrypt, "check_traffic": check_traffic}
    reopen = functools.partial(connect, addresses, **settings, **protection)
    return distributed._open_in_job(lambda job: Store(Graph.connect(addresses, settings, job), reopen), **protection)

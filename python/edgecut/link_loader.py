"""A loader of mini-batches of edges."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .arguments import array, checked, integers, refuse_both_negatives, reverse_pairs
from .loader import SPLITS, Loader, by_type, is_edge_type, known_edge_type, refuse_texts, times_of_inputs
from .store import Store

__all__ = ["LinkNeighborLoader"]


class LinkNeighborLoader(Loader):
    """A loader of mini-batches of edges that samples neighbors around their ends.

    It has the arguments of ``torch_geometric.loader.LinkNeighborLoader`` in the same order. :class:`NeighborLoader`
    describes the arguments that are not described here, and PyG's data in memory. Of such data, negatives are random nodes
    as in PyG, and ``exclude_seed_edges`` is False unless it is given. The rest of this page describes loaders of a
    :class:`Store`.

    Parameters
    ----------
    data : Store, Data, HeteroData, pair of FeatureStore and GraphStore, or PygGraph
        The graph.
    num_neighbors : list of int, or dict of edge type to list of int
        The number of neighbors per hop.
    edge_label_index : str, array of int, or pair of edge type and one of these; optional
        The edges to load: an array of the shape [2, E] with ids in the dataset; ``"train"`` for the edges that carry
        messages, which is the default, or ``"valid"`` and ``"test"`` for the edges that were held out when the graph was
        partitioned. In a job, a process takes the edges of a split that end in its own part; but an array must be the same
        in all processes, which take its batches in turn.
    edge_label : array, optional
        The label of each edge, for arrays. With binary negatives, 0 becomes the label of the negatives, and labels from 0 on
        grow by 1, as in PyG.
    edge_label_time : array of int, optional
        The time of each edge, for arrays, in the unit of the graph's times: nanoseconds since 1970 for dates of tables. Needs
        ``time_attr``.
    neg_sampling : {'binary', 'triplet'}, dict, or torch_geometric.sampler.NegativeSampling; optional
        The negatives: for each edge, ``amount`` nodes in place of its destination. They are drawn uniformly among the
        nodes without an edge from its source; for ``"valid"`` and ``"test"`` also without a held-out one. The negatives of
        an edge are a function of the seed, the epoch, the edge type, the ids of both ends and the edge's time, so they
        depend neither on the partitioning nor on the batch.
    neg_sampling_ratio : float, optional
        The whole number of binary negatives per edge, in place of ``neg_sampling``.
    exclude_seed_edges : bool, default True
        Let no message flow over the edges of the batch and their reverses, which would tell the answer. PyG keeps them.
        Reverses are edges of the same type, edges of the type ``rev_X`` for a type ``X``, and edges of the types in
        ``reverse_types``. With disjoint neighborhoods, an edge is excluded from its own neighborhood only.
    reverse_types : list of pairs of edge types, optional
        Edge types that are each other's reverse, besides those that their names and ``partition-graph --reverse-types`` tell. An edge
        type is a tuple, or a text as in ``model.config["reverse_types"]`` of a model for edges.
        If it is not given, a warning names types that seem to hold reverses: they have the reverses of at least half of up to
        1000 edges.

    Raises
    ------
    ValueError
        If an argument does not fit the graph, or differs between the processes of a job.
    EdgecutError
        If another process has failed.

    Notes
    -----
    A batch has what those of :class:`NeighborLoader` have of nodes and edges. With ``neg_sampling='binary'`` it has
    ``edge_label_index``, in the numbering of the batch, with the negatives after the edges, and ``edge_label``, 1 for edges
    and 0 for negatives. With ``'triplet'`` it has ``src_index``, ``dst_pos_index`` and ``dst_neg_index``, which has a row per
    edge if ``amount`` is not 1. Without negatives it has ``edge_label_index``. If ``edge_label_index`` is an array,
    ``input_id`` has the position in it of each edge of the batch.

    Edges that have too few possible negatives are left out of their batch, with a warning that counts them. For the edges of
    the graph and for arrays the negatives of an edge are distinct, so ``amount`` are needed; for ``"valid"`` and ``"test"``
    one is enough.

    Examples
    --------
    >>> import tempfile
    >>> import edgecut
    >>> import numpy as np
    >>> folder = tempfile.mkdtemp()
    >>> np.save(f"{folder}/edge_index.npy", np.array([[3, 0, 1], [0, 1, 2]]))
    >>> with edgecut.open(folder) as store:
    ...     loader = edgecut.LinkNeighborLoader(store, [-1], neg_sampling="binary", batch_size=2, output="numpy")
    ...     batch = next(iter(loader))
    >>> batch["edge_label"].tolist(), batch["edge_label_index"].shape
    ([1.0, 1.0, 0.0, 0.0], (2, 4))
    """

    _OF_DATA = "LinkNeighborLoader"
    _mode: str | None
    _amount: int

    @checked
    def __init__(
        self,
        data: Store,
        num_neighbors: Sequence[int] | Mapping[Any, Sequence[int]],
        edge_label_index: Any = None,
        edge_label: Any = None,
        edge_label_time: Any = None,
        replace: bool = False,
        subgraph_type: Any = "directional",
        disjoint: bool = False,
        temporal_strategy: str = "uniform",
        neg_sampling: Any = None,
        neg_sampling_ratio: float | None = None,
        time_attr: str | None = None,
        weight_attr: str | None = None,
        transform: Callable[[Any], Any] | None = None,
        transform_sampler_output: Callable[[Any], Any] | None = None,
        is_sorted: bool = False,
        filter_per_worker: bool | None = None,
        neighbor_sampler: Any = None,
        directed: bool = True,
        *,
        exclude_seed_edges: bool | None = None,
        reverse_types: Any = None,
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
        edge_type, split, ends = _input_edges(data, edge_label_index)
        refuse_both_negatives(neg_sampling, neg_sampling_ratio)
        if neg_sampling_ratio:
            self._mode, self._amount = "binary", _whole_amount("neg_sampling_ratio", neg_sampling_ratio)
        else:
            self._mode, self._amount = _negatives(neg_sampling)
        self._labels = _edge_labels(edge_label, ends, self._mode)
        if edge_label_time is not None and time_attr is None:
            raise ValueError("`edge_label_time` needs `time_attr`, without which later neighbors are sampled as well")
        excludes = exclude_seed_edges is not False
        types = [t.name for t in data.edge_types]
        settings = {
            "node_type": None,
            "seeds": None,
            "seed_times": None,
            "split": None,
            "links": {
                "edge_type": edge_type,
                "src": None if ends is None else ends[0],
                "dst": None if ends is None else ends[1],
                "times": times_of_inputs(data, edge_label_time, "edge_label_time"),
                "split": split,
                "neg_sampling": self._mode,
                "edge_label": None if self._labels is None else _digest(self._labels),
                "num_negatives": self._amount,
                "exclude_seed_edges": excludes,
                "reverse_types": None if reverse_types is None else reverse_pairs(reverse_types, types, excludes),
            },
        }
        self._edge_type = data.edge_types[edge_type].name
        self._is_listed = ends is not None
        self._start(data, settings, locals())
        for warning in self._loader.warnings():
            warnings.warn(warning, stacklevel=3)

    def _of_inputs(self, arrays: dict[str, Any]) -> dict[str, Any]:
        src, dst, negatives = arrays["src"], arrays["dst"], arrays["negatives"]
        if arrays["num_left_out"] > 0:
            warnings.warn(
                f"{arrays['num_left_out']} edges were left out of a batch, since their sources are connected to nearly all nodes "
                "and there are too few negatives: set a smaller `amount` in `neg_sampling`",
                stacklevel=4,
            )
        store = self._store
        of_edges: dict[str, Any] = {"batch_size": arrays["batch_size"]}
        if self._is_listed:
            of_edges["input_id"] = arrays["input_id"]
        if self._mode == "triplet":
            rows = negatives if self._amount == 1 else negatives.reshape(len(src), self._amount)
            return {
                **by_type(store, self._edge_type, of_edges),
                **by_type(store, self._edge_type[0], {"src_index": src}),
                **by_type(store, self._edge_type[2], {"dst_pos_index": dst, "dst_neg_index": rows}),
            }
        pairs = np.stack([src, dst])
        if self._mode == "binary":
            pairs = np.concatenate([pairs, np.stack([np.repeat(src, self._amount), negatives])], axis=1)
        if self._labels is not None:
            labels = self._labels[arrays["input_id"]]
            num_negatives = pairs.shape[1] - len(src)
            of_edges["edge_label"] = np.concatenate([labels, np.zeros((num_negatives, *labels.shape[1:]), labels.dtype)])
        elif self._mode == "binary":
            of_edges["edge_label"] = (np.arange(pairs.shape[1]) < len(src)).astype(np.float32)
        of_edges["edge_label_index"] = pairs
        return by_type(store, self._edge_type, of_edges)


def _digest(labels: np.ndarray) -> str:
    """Return a text by which processes compare labels."""
    digest = hashlib.sha256(np.ascontiguousarray(labels).tobytes()).hexdigest()[:16]
    return f"{labels.dtype} {labels.shape} with the hash {digest}"


def _input_edges(data: Store, edge_label_index: Any) -> tuple[int, str, np.ndarray | None]:
    """Return the number of the edge type, the split, and the ids of the ends or None."""
    names = [t.name for t in data.edge_types]
    edge_type, edges = None, edge_label_index
    if is_edge_type(edges):
        edge_type, edges = edges, None
    elif isinstance(edges, tuple) and len(edges) == 2 and is_edge_type(edges[0]):
        edge_type, edges = edges
    if edge_type is not None:
        edge_type = known_edge_type(data, edge_type, "edge_label_index")
    if edge_type is None and len(names) > 1:
        raise ValueError(f"`edge_label_index` must name one of the edge types {', '.join(map(str, names))}")
    if edge_type is not None and edge_type not in names:
        raise ValueError(f"`edge_label_index`: there is no edge type {edge_type!r}, only {', '.join(map(str, names))}")
    number = 0 if edge_type is None else names.index(edge_type)
    if edges is None or isinstance(edges, str):
        split = "train" if edges is None else edges
        if split not in SPLITS:
            raise ValueError(f"`edge_label_index`: {split!r} is not a split: choose from {', '.join(SPLITS)}")
        of_type = data.edge_types[number]
        if split != "train" and of_type.held_out_sizes[SPLITS.index(split) - 1] == 0:
            raise ValueError(
                f"`edge_label_index`: no edges of type {of_type.name} are held out as {split!r}: partition the graph with "
                "`partition-graph --hold-out-edges`, or pass an array of edges"
            )
        return number, split, None
    ends = array(edges, "edge_label_index")
    refuse_texts(ends, "edge_label_index")
    if ends.ndim != 2 or ends.shape[0] != 2:
        raise ValueError(f"`edge_label_index` has the shape {ends.shape}, expected (2, number of edges)")
    return number, "train", np.stack([integers(end, "edge_label_index") for end in ends])


def _edge_labels(edge_label: Any, ends: np.ndarray | None, mode: str | None) -> np.ndarray | None:
    """Return the labels of the listed edges, as PyG numbers them: with binary negatives, 0 is the label of these."""
    if edge_label is None:
        return None
    if ends is None:
        raise ValueError("`edge_label` needs an array in `edge_label_index`, whose edges it labels")
    if mode == "triplet":
        raise ValueError("`edge_label` and triplets exclude each other: a triplet has one edge and its negatives")
    # The loader has a copy of the edges as well, so both stay what they are when the program changes its arrays.
    labels = array(edge_label, "edge_label").copy()
    if len(labels) != ends.shape[1]:
        raise ValueError(f"`edge_label` has {len(labels)} entries for {ends.shape[1]} edges")
    if mode != "binary" or len(labels) == 0 or labels.min() != 0:
        return labels
    # The greatest label of a small type has no successor.
    has_room = labels.dtype.kind not in "iu" or labels.max() < np.iinfo(labels.dtype).max
    return (labels if has_room else labels.astype(np.int64)) + 1


def _negatives(neg_sampling: Any) -> tuple[str | None, int]:
    """Return the mode of the negatives and their number per edge."""
    if neg_sampling is None:
        return None, 0
    mode, amount = neg_sampling, 1
    if isinstance(neg_sampling, Mapping):
        unknown = set(neg_sampling) - {"mode", "amount"}
        if unknown:
            raise ValueError(f"`neg_sampling` has the key {min(unknown)!r}: it takes 'mode' and 'amount'")
        mode, amount = neg_sampling.get("mode"), neg_sampling.get("amount", 1)
    elif hasattr(neg_sampling, "mode"):
        mode, amount = neg_sampling.mode, neg_sampling.amount
        if neg_sampling.src_weight is not None or neg_sampling.dst_weight is not None:
            raise ValueError("`neg_sampling`: negatives are drawn uniformly, so `src_weight` and `dst_weight` must be None")
    mode = getattr(mode, "value", mode)
    if mode not in ("binary", "triplet"):
        raise ValueError(f"`neg_sampling` is {mode!r}: choose from 'binary' and 'triplet'")
    return mode, _whole_amount("neg_sampling", amount)


def _whole_amount(name: str, amount: Any) -> int:
    is_number = isinstance(amount, (int, float, np.integer, np.floating))
    if not is_number or not float(amount).is_integer() or amount < 1:
        raise ValueError(f"`{name}`: the amount is {amount!r}, but must be a whole number from 1")
    return int(amount)

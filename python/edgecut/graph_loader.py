"""A loader of batches of whole graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import _edgecut, distributed
from .arguments import array, check_output, checked, integers, refuse_numeric_mask, refuse_unknown, warn_if_empty
from .epochs import EpochLoader
from .graph_dataset import GraphDataset

__all__ = ["GraphDataLoader"]


class GraphDataLoader(EpochLoader):
    """A loader of mini-batches of whole graphs.

    It has the arguments of ``torch_geometric.loader.DataLoader``, and yields the same layout: the graphs of a batch are
    one graph without edges between them. Threads of Rust make the batches ahead.

    In a job of several processes all of them must have the same arguments. A step of an epoch is divided over the
    processes, so that together they see every graph once per epoch, and all have the same number of batches. A process
    without graphs in the last step gets an empty batch.

    Parameters
    ----------
    dataset : GraphDataset
        The set of graphs.
    batch_size : int, default 1
        The number of graphs per batch and process.
    shuffle : bool, default False
        Shuffle the graphs anew in each epoch.
    graphs : array of int, or array of bool; optional
        The graphs to load, by number or as a mask. The default is all graphs.
    max_num_nodes : int, optional
        Put as many graphs into a batch as have at most this many nodes together, in place of ``batch_size``.
    transform : callable, optional
        A function that is applied to each batch.
    drop_last : bool, default False
        Leave out an incomplete last step.
    num_workers : int, default 2
        The number of batches that are made ahead, by threads. 0 makes each batch on request.
    seed : int, default 0
        The seed of the order. The same seed gives the same order for any number of processes.
    output : {'pyg', 'numpy'}, optional
        The type of batches: ``Batch`` of PyG with tensors, or dicts with arrays. The default is PyG if it is installed.

    Raises
    ------
    ValueError
        If an argument does not fit the graphs.

    Notes
    -----
    For a batch of G graphs with N nodes and E edges together:

    ================ ================ ===================================================================
    ``x``            float32 [N, F]   features of nodes, followed by their one-hot labels
    ``edge_index``   int64 [2, E]     sources and targets, numbered in the batch, by target
    ``edge_attr``    float32 [E, L]   features of edges, then their one-hot labels, if any
    ``y``            int64 [G]        classes of the graphs
    ``y``            float32 [G, T]   numbers to predict, if the graphs have these and no classes
    ``batch``        int64 [N]        position of each node's graph
    ``ptr``          int64 [G + 1]    start of each graph's nodes
    ``input_id``     int64 [G]        number of each graph in the set
    ``num_graphs``   int              G
    ================ ================ ===================================================================

    ``Batch`` objects also have PyG's ``get_example``, ``index_select`` and ``to_data_list``.

    Examples
    --------
    >>> import edgecut
    >>> dataset = edgecut.fake_graphs(num_graphs=50)
    >>> loader = edgecut.GraphDataLoader(dataset, batch_size=16, output="numpy")
    >>> [batch["num_graphs"] for batch in loader]
    [16, 16, 16, 2]
    """

    _loader: _edgecut.GraphLoader

    @checked
    def __init__(
        self,
        dataset: GraphDataset,
        batch_size: int = 1,
        shuffle: bool = False,
        *,
        graphs: Any = None,
        max_num_nodes: int | None = None,
        transform: Callable[[Any], Any] | None = None,
        drop_last: bool = False,
        num_workers: int = 2,
        seed: int = 0,
        output: str | None = None,
        **kwargs: Any,
    ) -> None:
        refuse_unknown(type(self).__name__, kwargs, stacklevel=4)
        distributed._refuse_copies(dataset.world_size)
        self._transform = transform
        self._convert = _converter(output)
        self.batch_size = batch_size
        self._loader = _edgecut.GraphLoader(
            dataset._set,
            {
                "graphs": None if graphs is None else _numbers(graphs, len(dataset)),
                "batch_size": batch_size,
                "max_nodes": max_num_nodes,
                "shuffle": shuffle,
                "drop_last": drop_last,
                "seed": seed,
                "concurrency": num_workers,
            },
        )
        warn_if_empty(self, drop_last, stacklevel=3)

    def __len__(self) -> int:
        """Return the number of batches of this process in the next epoch. With ``max_num_nodes`` epochs differ."""
        return self._loader.num_batches(self._epoch)

    def _as_batch(self, arrays: dict[str, Any]) -> Any:
        return self._convert(arrays)


def _numbers(graphs: Any, num_graphs: int) -> np.ndarray:
    numbers = array(graphs, "graphs")
    if numbers.dtype == np.bool_:
        if numbers.shape != (num_graphs,):
            raise ValueError(f"`graphs`: the mask has the shape {numbers.shape}, but there are {num_graphs} graphs")
        return np.flatnonzero(numbers)
    numbers = integers(numbers, "graphs")
    refuse_numeric_mask(numbers, num_graphs, "graphs", "graphs")
    return numbers


def _converter(output: str | None) -> Callable[[dict[str, Any]], Any]:
    """Return the function that makes a batch of arrays."""
    if check_output(output) == "pyg":
        from .pyg_graphs import to_batch

        return to_batch

    def without_edge_ptr(arrays: dict[str, Any]) -> dict[str, Any]:
        return {name: values for name, values in arrays.items() if name != "edge_ptr"}

    return without_edge_ptr

"""Graphs that a program has in memory."""

from __future__ import annotations

from typing import Any

from .arguments import checked

__all__ = ["from_pyg"]


@checked
def from_pyg(data: Any, *, is_sorted: bool = False) -> Any:
    """Prepare a graph of PyG for sampling. Loaders also take the graph itself, and prepare it each.

    Parameters
    ----------
    data : Data, HeteroData, or pair of FeatureStore and GraphStore
        The graph. Loaders that are made after a change of its edges have the new ones, and earlier loaders raise an error.
        PyG's stores are read once, and must not change. Changes that ``Tensor._version`` does not count are not seen: through
        ``.data``, in arrays of NumPy, also below ``torch.from_numpy``, in inference tensors, and by other libraries. Prepare the
        graph again after these.
    is_sorted : bool, default False
        Take the edges to be sorted by destination.

    Returns
    -------
    PygGraph
        The graph for the ``data`` of loaders. They share its memory: 12 bytes per edge besides PyG's own.

    Examples
    --------
    >>> graph = edgecut.from_pyg(data)                                                       # doctest: +SKIP
    >>> train_loader = edgecut.NeighborLoader(graph, [15, 10], input_nodes=data.train_mask)  # doctest: +SKIP
    >>> test_loader = edgecut.NeighborLoader(graph, [-1, -1], input_nodes=data.test_mask)    # doctest: +SKIP
    """
    from .pyg_data import PygGraph

    return PygGraph(data, is_sorted)

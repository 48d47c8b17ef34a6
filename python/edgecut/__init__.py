"""Distributed neighbor sampling and mini-batch loading for graph neural networks on clusters of CPUs.

A graph is opened by :func:`open`, and :class:`NeighborLoader` yields its mini-batches, with the arguments and in the
layout of ``torch_geometric.loader.NeighborLoader``. With :func:`edgecut.distributed.init`, all processes of a job sample
over all parts of the graph.

>>> import edgecut
>>> store = edgecut.open("data/mygraph")                                        # doctest: +SKIP
>>> loader = edgecut.NeighborLoader(store, [15, 10], "train", batch_size=64)    # doctest: +SKIP
>>> for batch in loader:                                                        # doctest: +SKIP
...     out = model(batch.x, batch.edge_index)[:batch.batch_size]
"""

import importlib
from typing import Any

from . import distributed
from ._edgecut import EdgecutError
from .cluster_loader import ClusterLoader
from .dgl_blocks import to_dgl
from .graph_dataset import GraphDataset, fake_graphs, open_graphs
from .graph_loader import GraphDataLoader
from .in_memory import from_pyg
from .link_loader import LinkNeighborLoader
from .loader import NeighborLoader
from .partitioning import partition
from .store import EdgeType, NodeType, Store, connect, open

__version__ = "0.1.0"
__all__ = [
    "ClusterLoader",
    "EdgeType",
    "EdgecutError",
    "GraphDataLoader",
    "GraphDataset",
    "LinkNeighborLoader",
    "NeighborLoader",
    "NodeType",
    "Store",
    "connect",
    "distributed",
    "fake_graphs",
    "from_pyg",
    "open",
    "open_graphs",
    "partition",
    "to_dgl",
]

# Modules that need other packages. They are imported at their first use.
_MODULES = ("convert", "language_models", "pyg_sampler", "torch")
# Loaders that need PyG, by module. They are imported at their first use as well.
_OF_PYG = {
    "ClusterData": "pyg_clusters",
    "HGTLoader": "pyg_hgt",
    "ShaDowKHopSampler": "pyg_shadow",
}


def __getattr__(name: str) -> Any:
    if name in _OF_PYG:
        return getattr(importlib.import_module(f".{_OF_PYG[name]}", __name__), name)
    if name in _MODULES:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_OF_PYG, *_MODULES, "__version__"])

"""Reads a graph from a folder of `.npy` arrays in the format of Edgecut."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np


@dataclass
class NpyGraph:
    """A homogeneous graph in memory, with the node ids of the files."""

    edge_index: np.ndarray
    """int64 `[2, E]`: sources, then targets."""
    x: np.ndarray
    """float32 `[N, F]`."""
    y: np.ndarray
    """int64 `[N]`."""
    train_idx: np.ndarray
    """int64: the training nodes."""
    valid_idx: np.ndarray
    """int64: the validation nodes."""

    @property
    def num_nodes(self) -> int:
        return self.x.shape[0]

    @property
    def num_classes(self) -> int:
        return int(self.y.max()) + 1

    def mask(self, nodes: np.ndarray) -> np.ndarray:
        """Returns a bool mask `[N]` of nodes."""
        mask = np.zeros(self.num_nodes, dtype=bool)
        mask[nodes] = True
        return mask


def read_npy_graph(folder: Path) -> NpyGraph:
    """Reads the graph in `folder` completely, so that no timed pass waits for the disk."""

    def read(name: str) -> np.ndarray:
        return np.load(folder / f"{name}.npy")

    return NpyGraph(read("edge_index"), read("x"), read("y"), read("train_idx"), read("valid_idx"))

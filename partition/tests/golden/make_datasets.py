"""Writes the two datasets of the golden parts to the folder `datasets` beside this file."""

from pathlib import Path

import numpy as np

ROOT = Path(__file__).parent / "datasets"


def save(name: str, values, dtype) -> None:
    path = ROOT / f"{name}.npy"
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, np.asarray(values, dtype))


def homogeneous() -> None:
    """12 nodes with features, labels, times and splits; 24 edges with features, weights and times; held-out edges."""
    n = np.arange(12)
    save("homogeneous/x", np.stack([n / 2, -n], 1), np.float32)
    save("homogeneous/y", n % 3, np.int64)
    save("homogeneous/node_time", 1000 + n, np.int64)
    save("homogeneous/train_idx", n[:6], np.int64)
    save("homogeneous/valid_idx", n[6:9], np.int64)
    save("homogeneous/test_idx", n[9:], np.int64)
    src = np.concatenate([n, n])
    dst = np.concatenate([(n + 1) % 12, (n + 5) % 12])
    e = np.arange(24)
    save("homogeneous/edge_index", [src, dst], np.int64)
    save("homogeneous/edge_attr", np.stack([e, e / 4], 1), np.float16)
    save("homogeneous/edge_weight", 1 + e / 8, np.float32)
    save("homogeneous/edge_time", 2000 + e, np.int64)
    save("homogeneous/valid_edge_index", [[0, 3, 6], [2, 5, 8]], np.int64)
    save("homogeneous/valid_edge_time", [3000, 3001, 3002], np.int64)
    save("homogeneous/valid_neg", [[4, 9], [7, 10], [1, 11]], np.int64)
    save("homogeneous/test_edge_index", [[1, 4], [3, 6]], np.int64)
    save("homogeneous/test_edge_time", [4000, 4001], np.int64)
    save("homogeneous/test_neg", [[8, 0], [2, 11]], np.int64)


def heterogeneous() -> None:
    """8 papers with features and labels that 5 authors without features write, and that cite each other."""
    paper = np.arange(8)
    save("heterogeneous/nodes/paper/x", np.stack([paper, paper * paper, -paper], 1), np.float16)
    save("heterogeneous/nodes/paper/y", paper % 2, np.int64)
    save("heterogeneous/nodes/paper/train_idx", [0, 1, 2, 3], np.int64)
    save("heterogeneous/nodes/paper/valid_idx", [4, 5], np.int64)
    save("heterogeneous/nodes/paper/test_idx", [6, 7], np.int64)
    save("heterogeneous/nodes/author/num_nodes", [5], np.int64)
    written = [[0, 1, 2, 3, 4, 0, 2, 4, 1], [0, 1, 2, 3, 4, 5, 6, 7, 0]]
    save("heterogeneous/edges/author__writes__paper/edge_index", written, np.int64)
    save("heterogeneous/edges/author__writes__paper/edge_weight", np.arange(1, 10) / 2, np.float32)
    cites = [[1, 2, 3, 4, 5, 6, 7, 7], [0, 0, 1, 1, 2, 3, 4, 0]]
    save("heterogeneous/edges/paper__cites__paper/edge_index", cites, np.int64)
    save("heterogeneous/edges/paper__cites__paper/valid_edge_index", [[6, 7], [0, 1]], np.int64)
    save("heterogeneous/edges/paper__cites__paper/valid_edge_neg", [[3, 5], [7, 6]], np.int64)
    save("heterogeneous/edges/paper__cites__paper/test_edge_index", [[5], [0]], np.int64)


homogeneous()
heterogeneous()

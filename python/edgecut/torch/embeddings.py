"""Learned embeddings of node types without features, in the files of a model."""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

__all__ = ["PREFIX", "read_embeddings"]

# The names of tables in a model file begin with it.
PREFIX = "embeddings."


def read_embeddings(path: str | os.PathLike[str], metadata: dict[str, str]) -> dict[str, np.ndarray]:
    """Return the table of each node type that has one in files of its own, with a row per node of the dataset.

    Raises
    ------
    FileNotFoundError
        If a file of the folder beside the model is missing.
    ValueError
        If the files do not belong to the model, or lack rows.
    """
    index = json.loads(metadata.get("embeddings", "{}"))
    shards = [shard["file"] for shard in index.get("shards", [])]
    if not shards:
        return {}
    # The folder is beside the file that a link points to.
    folder = pathlib.Path(os.path.realpath(path) + ".embeddings")
    for name in shards:
        if name != os.path.basename(name):
            raise ValueError(f"{os.fspath(path)} lists {name!r} among its embeddings, which is not the name of a file")
        if not (folder / name).exists():
            raise FileNotFoundError(f"{folder / name} is missing: copy the files of the model's embeddings to this folder")
    num_bytes = sum((folder / name).stat().st_size for name in shards)
    tables = {t["node_type"]: _table(t, num_bytes, folder) for t in index["tables"]}
    missing = {node_type: np.ones(len(table), bool) for node_type, table in tables.items()}
    for name in shards:
        shard = folder / name
        try:
            # Not as tensors: old versions of PyTorch lack the type of the ids.
            with safe_open(str(shard), "numpy") as file:
                if (file.metadata() or {}).get("save") != index["save"]:
                    raise ValueError(f"{shard} has embeddings of another model than {os.fspath(path)}")
                for node_type, table in tables.items():
                    ids = file.get_tensor(f"original_ids.{node_type}")
                    rows = file.get_tensor(f"{PREFIX}{node_type}")
                    _check_rows(ids, rows, table, f"{shard}: the embeddings of {node_type}")
                    table[ids] = rows
                    missing[node_type][ids] = False
        except SafetensorError as error:
            raise ValueError(f"{shard}: not a valid safetensors file of embeddings: {error}") from error
    for node_type, rows in missing.items():
        if rows.any():
            raise ValueError(f"{folder} lacks the embeddings of {int(rows.sum())} nodes of type {node_type}")
    return tables


def _table(described: dict[str, Any], num_bytes: int, folder: pathlib.Path) -> np.ndarray:
    """Return an empty table. The files in `folder` with `num_bytes` together must be able to fill it."""
    shape = described["num_nodes"], described["dim"]
    if not all(isinstance(length, int) and length >= 0 for length in shape):
        raise ValueError(f"the metadata describes embeddings of {shape[0]!r} nodes with {shape[1]!r} columns")
    # A row takes at least the bytes of its id.
    if 4 * shape[0] * max(shape[1], 1) > num_bytes:
        raise ValueError(
            f"the metadata describes {shape[0]} embeddings with {shape[1]} columns of nodes of type {described['node_type']}, "
            f"but the files in {folder} have {num_bytes} bytes only"
        )
    return np.empty(shape, np.float32)


def _check_rows(ids: np.ndarray, rows: np.ndarray, table: np.ndarray, what: str) -> None:
    num_nodes, dim = table.shape
    if ids.ndim != 1 or not np.issubdtype(ids.dtype, np.integer) or rows.dtype != np.float32:
        raise ValueError(f"{what} are {rows.dtype} with ids of {ids.dtype}, expected float32 with a vector of integers")
    if rows.shape != (len(ids), dim):
        raise ValueError(f"{what} have the shape {rows.shape}, expected {(len(ids), dim)}")
    if len(ids) > 0 and not 0 <= ids.min() <= ids.max() < num_nodes:
        raise ValueError(f"{what} have an id that is not one of the {num_nodes} nodes")

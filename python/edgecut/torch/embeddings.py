"""Learned embeddings of node types without features, in the files of a model."""

from __future__ import annotations

import json
import os
import pathlib

import numpy as np
from safetensors import safe_open

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
    tables = {t["node_type"]: np.empty((t["num_nodes"], t["dim"]), np.float32) for t in index["tables"]}
    missing = {node_type: np.ones(len(table), bool) for node_type, table in tables.items()}
    for name in shards:
        if name != os.path.basename(name):
            raise ValueError(f"{os.fspath(path)} lists {name!r} among its embeddings, which is not the name of a file")
        shard = folder / name
        if not shard.exists():
            raise FileNotFoundError(f"{shard} is missing: copy the files of the model's embeddings to this folder")
        # Not as tensors: old versions of PyTorch lack the type of the ids.
        with safe_open(str(shard), "numpy") as file:
            if (file.metadata() or {}).get("save") != index["save"]:
                raise ValueError(f"{shard} has embeddings of another model than {os.fspath(path)}")
            for node_type, table in tables.items():
                ids = file.get_tensor(f"original_ids.{node_type}")
                table[ids] = file.get_tensor(f"{PREFIX}{node_type}")
                missing[node_type][ids] = False
    for node_type, rows in missing.items():
        if rows.any():
            raise ValueError(f"{folder} lacks the embeddings of {int(rows.sum())} nodes of type {node_type}")
    return tables

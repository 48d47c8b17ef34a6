"""Batches as objects of PyG."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data, HeteroData

from .loader import _to_dict
from .store import Store


def to_pyg(store: Store, arrays: dict[str, Any], seed_type: int) -> Data | HeteroData:
    """Return a batch of arrays as PyG's ``Data`` or ``HeteroData``. The tensors share the memory of the arrays."""
    batch = _to_dict(store, arrays, seed_type)
    if not store.is_heterogeneous:
        return Data(**{name: _tensor(values) for name, values in batch.items()})
    data = HeteroData()
    seeds = data[store.node_types[seed_type].name]
    for name, values in batch.items():
        if name in ("num_sampled_nodes", "num_sampled_edges"):
            data[name] = values
        elif isinstance(values, dict):
            for key, array in values.items():
                data[key][name] = _tensor(array)
        else:
            seeds[name] = _tensor(values)
    return data


def _tensor(values: Any) -> Any:
    return torch.from_numpy(values) if isinstance(values, np.ndarray) else values

"""Batches as objects of PyG."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data, HeteroData

from .loader import to_dict
from .store import Store


def to_pyg(
    store: Store, nodes: list[dict[str, Any]], edges: list[dict[str, Any]], of_inputs: dict[str, Any]
) -> Data | HeteroData:
    """Return a batch of arrays as PyG's ``Data`` or ``HeteroData``. The tensors share the memory of the arrays."""
    batch = to_dict(store, nodes, edges, of_inputs)
    if not store.is_heterogeneous:
        return Data(**{name: _tensor(values) for name, values in batch.items()})
    data = HeteroData()
    for name, by_type in batch.items():
        for key, values in by_type.items():
            data[key][name] = _tensor(values)
    return data


def _tensor(values: Any) -> Any:
    return torch.from_numpy(values) if isinstance(values, np.ndarray) else values

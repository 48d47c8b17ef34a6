"""Batches of whole graphs as objects of PyG."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch_geometric.data import Batch, Data

__all__ = ["to_batch"]


def to_batch(arrays: dict[str, Any]) -> Batch:
    """Return a batch of arrays as PyG's ``Batch``. The tensors share the memory of the arrays."""
    tensors = {name: torch.from_numpy(values) for name, values in arrays.items() if isinstance(values, np.ndarray)}
    num_graphs = arrays["num_graphs"]
    edge_ptr = tensors.pop("edge_ptr")
    ptr = tensors["ptr"]
    batch = Batch(_base_cls=Data, **tensors)
    batch.num_nodes = len(tensors["batch"])
    batch._num_nodes = ptr.diff().tolist()
    # From these PyG takes single graphs out of the batch.
    graphs = torch.arange(num_graphs + 1)
    slices = {"x": ptr, "edge_index": edge_ptr, "edge_attr": edge_ptr, "y": graphs, "input_id": graphs}
    slices = {name: starts for name, starts in slices.items() if name in batch}
    no_offset = torch.zeros(num_graphs, dtype=torch.int64)
    batch._num_graphs = num_graphs
    batch._slice_dict = slices
    batch._inc_dict = {name: ptr[:-1] if name == "edge_index" else no_offset for name in slices}
    return batch

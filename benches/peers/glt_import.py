"""Makes GraphLearn-for-PyTorch importable without torch_sparse.

The package index has torch_sparse only as source code. These scripts use it, through GraphLearn, only to sort an edge
list into compressed rows. If torch_sparse is missing, a stand-in provides this."""

import importlib.util
import sys
import types

import torch
import torch_geometric  # noqa: F401  Imported first, because it looks for the real torch_sparse at its import.


class SparseTensor:
    """The part of `torch_sparse.SparseTensor` that GraphLearn uses: the storage of an edge list sorted by row."""

    def __init__(
        self, row: torch.Tensor, col: torch.Tensor, value: torch.Tensor | None, sparse_sizes: tuple[int, int]
    ) -> None:
        num_rows, num_cols = sparse_sizes
        order = torch.argsort(row * num_cols + col)
        rowptr = torch.cat([torch.zeros(1, dtype=torch.long), torch.bincount(row, minlength=num_rows).cumsum(0)])
        sorted_col, sorted_value = col[order], None if value is None else value[order]
        self.storage = types.SimpleNamespace(rowptr=lambda: rowptr, col=lambda: sorted_col, value=lambda: sorted_value)


if importlib.util.find_spec("torch_sparse") is None:
    stand_in = types.ModuleType("torch_sparse")
    stand_in.SparseTensor = SparseTensor
    sys.modules["torch_sparse"] = stand_in

import graphlearn_torch as glt  # noqa: E402, F401  Imported last, because it needs torch_sparse or the stand-in.

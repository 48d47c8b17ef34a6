"""The feed-forward part of transformer blocks."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["FeedForward"]


class FeedForward(torch.nn.Module):
    """The part that ``--feed-forward`` adds after a layer, ``x + output(gelu(hidden(norm(x))))``.

    Dropout follows GELU, and precedes the sum.

    Parameters
    ----------
    channels : int
        The number of columns of ``x``.
    ratio : int
        The width between the dense layers, as a multiple of ``channels``.
    dropout : float
        The probability of dropout.
    """

    def __init__(self, channels: int, ratio: int, dropout: float) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(channels)
        self.hidden = torch.nn.Linear(channels, ratio * channels)
        self.output = torch.nn.Linear(ratio * channels, channels)
        self.dropout = dropout
        dense = [f"{layer}.{name}" for layer in ("hidden", "output") for name in ("weight", "bias")]
        self.edgecut_tensors = {"norm.gamma": "norm.weight", "norm.beta": "norm.bias"} | {name: name for name in dense}

    def forward(self, x: Tensor) -> Tensor:
        """Return the rows after the part."""
        hidden = F.dropout(F.gelu(self.hidden(self.norm(x))), self.dropout, self.training)
        return x + F.dropout(self.output(hidden), self.dropout, self.training)

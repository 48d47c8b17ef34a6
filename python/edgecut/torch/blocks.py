"""The nodes and edges of a batch that each layer of a model reads."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..arguments import check_hops

__all__ = ["Block", "blocks", "blocks_of"]


@dataclass(frozen=True)
class Block:
    """The edges that a layer reads. Its destinations are the first of its sources.

    Attributes
    ----------
    edge_index : Tensor
        The edges, ordered by their destinations.
    num_src : int
        The number of rows that the layer reads.
    num_dst : int
        The number of rows that it computes.
    edge_attr : Tensor or None
        The features of the edges that the layer reads, with the encoding of their times.
    edge_weight : Tensor or None
        The weights of the edges by which the layer multiplies messages.
    """

    edge_index: Tensor
    num_src: int
    num_dst: int
    edge_attr: Tensor | None = None
    edge_weight: Tensor | None = None

    def adj_t(self) -> Tensor:
        """Return the edges as a sparse matrix in CSR form, with the shape [num_dst, num_src].

        PyG's layers compute sums and means with it several times faster than with ``edge_index``. It needs PyTorch 2.
        """
        src, dst = self.edge_index
        if (dst.diff() < 0).any():
            raise ValueError("`edge_index` is not ordered by destination, as a loader returns it: leave the order of its edges as it is")
        counts = torch.bincount(dst, minlength=self.num_dst)
        rows = torch.cat([counts.new_zeros(1), counts.cumsum(dim=0)])
        ones = torch.ones(len(src), device=src.device)
        with warnings.catch_warnings():
            # PyTorch calls its matrices in CSR form beta.
            warnings.filterwarnings("ignore", "Sparse CSR tensor support")
            return torch.sparse_csr_tensor(rows, src, ones, (self.num_dst, self.num_src))


def blocks(batch: Any) -> list[Block]:
    """Return the block of each layer of a model that has as many layers as the batch has hops, like those of DGL.

    A layer of PyG takes a block as ``conv((x, x[:block.num_dst]), block.edge_index)`` or, faster, with ``block.adj_t()``.
    It then computes only the rows that the later layers need; the last layer computes those of the input nodes.

    Parameters
    ----------
    batch : Data
        A batch of a homogeneous graph from a loader.

    Raises
    ------
    ValueError
        If the batch has other edges than the hops have sampled, for example edges of a transform.

    Examples
    --------
    >>> x = batch.x                                                     # doctest: +SKIP
    >>> for conv, block in zip(convs, edgecut.torch.blocks(batch)):     # doctest: +SKIP
    ...     x = conv((x, x[:block.num_dst]), block.adj_t()).relu()
    """
    check_hops(batch.edge_index, batch.num_sampled_edges)
    return blocks_of(batch.edge_index, batch.num_sampled_nodes, batch.num_sampled_edges)


def blocks_of(
    edge_index: Tensor,
    num_nodes: Sequence[int],
    num_edges: Sequence[int],
    edge_attr: Tensor | None = None,
    edge_weight: Tensor | None = None,
) -> list[Block]:
    """Return the blocks for the numbers of nodes and edges by hop."""
    if len(num_nodes) != len(num_edges) + 1:
        raise ValueError(f"there are the numbers of nodes of {len(num_nodes)} hops, but of edges of {len(num_edges)}")
    made = []
    for hops in range(len(num_edges), 0, -1):
        count = sum(num_edges[:hops])
        values = [rows if rows is None else rows[:count] for rows in (edge_attr, edge_weight)]
        made.append(Block(edge_index[:, :count], sum(num_nodes[: hops + 1]), sum(num_nodes[:hops]), *values))
    return made

"""Models that score pairs of nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from .convs import NamedTensors
from .network import RelationalNet
from .settings import Settings

__all__ = ["LinkModel"]


class LinkModel(torch.nn.Module):
    """An encoder of nodes and a decoder of their pairs, as ``train link`` trains it.

    Parameters
    ----------
    config : dict
        The settings, as the file of a model stores them: ``encoder``, the settings of a :class:`RelationalNet` without
        outputs, and ``decoder``, which is ``"dot"`` or ``"distmult"``.
    num_nodes : dict of str to int, optional
        The number of nodes of each node type without features.
    pyg_layers : list of dict, optional
        The layers of the encoder, see :class:`RelationalNet`.

    Attributes
    ----------
    encoder : RelationalNet
        The encoder.
    relations : torch.nn.Parameter or None
        The vectors of DistMult, with the shape [edge types, channels].
    config : dict
        The settings.
    """

    def __init__(
        self,
        config: dict[str, Any],
        num_nodes: Mapping[str, int] | None = None,
        pyg_layers: list[dict[str, Any]] | None = None,
    ) -> None:
        super().__init__()
        self.config = config
        settings = Settings(config, "model for links")
        self.encoder = RelationalNet(settings["encoder"], num_nodes, pyg_layers)
        self.pyg_layers = pyg_layers
        decoder = settings["decoder"]
        if decoder not in ("dot", "distmult"):
            raise ValueError(f"`decoder` of a model for links is {decoder!r}: choose from 'dot' and 'distmult'")
        settings.finish()
        self.relations = None
        if decoder == "distmult":
            shape = len(self.encoder.edge_types), self.encoder.config["hidden_channels"]
            self.relations = torch.nn.Parameter(torch.empty(shape).uniform_(0, 2))

    def encode(self, x: Any, edge_index: Any, n_id: Any = None) -> Any:
        """Return the rows of the nodes. The arguments are those of :meth:`RelationalNet.forward`."""
        return self.encoder(x, edge_index, n_id)

    def decode(self, src: Tensor, dst: Tensor, edge_type: int = 0) -> Tensor:
        """Return the score of each pair, whose sigmoid is the probability of an edge.

        Parameters
        ----------
        src, dst : Tensor
            The rows of the sources and of the destinations, with the shape [pairs, channels].
        edge_type : int, default 0
            The number of the edge type.
        """
        query = src if self.relations is None else src * self.relations[edge_type]
        return (query * dst).sum(dim=-1)

    def forward(self, x: Any, edge_index: Any, edge_label_index: Tensor, edge_type: int = 0, n_id: Any = None) -> Tensor:
        """Return the scores of the edges ``edge_label_index`` of one edge type. See :meth:`encode` for ``x``,
        ``edge_index`` and ``n_id``."""
        rows = self.encode(x, edge_index, n_id)
        if self.encoder.is_homogeneous:
            src, dst = rows, rows
        else:
            src_type, _, dst_type = self.encoder.edge_types[edge_type]
            src, dst = rows[src_type], rows[dst_type]
        return self.decode(src[edge_label_index[0]], dst[edge_label_index[1]], edge_type)

    def named_tensors(self) -> NamedTensors:
        """Return the tensors of the model by their names in a file. They share memory with the parameters."""
        yield from self.encoder.named_tensors("encoder.")
        if self.relations is not None:
            yield "decoder.relations", self.relations.detach().T

    def named_embeddings(self) -> NamedTensors:
        """Return the embeddings by their names in a file."""
        yield from self.encoder.named_embeddings()

"""Stacks of convolutions over homogeneous graphs."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.nn import GCNConv, SAGEConv
from torch_geometric.utils import add_self_loops

from .blocks import Block, blocks_of
from .convs import NamedTensors, make_gat_layer, make_gin, make_layer, tensors_of
from .settings import Settings, normalized_rows

__all__ = ["ConvStack"]


class ConvStack(torch.nn.Module):
    """GraphSAGE, a GCN, or a GAT for nodes of a homogeneous graph, as ``train node`` trains it.

    Parameters
    ----------
    config : dict
        The settings, as the file of a model stores them: ``kind``, ``in_channels``, ``hidden_channels``, ``num_classes``,
        ``num_layers``, ``residual``, ``layer_norm``, ``dropout``, ``input_dropout``, ``normalize_features``. ``kind`` is
        ``{"sage": {"aggregation": "mean"}}``, ``"gcn"``, or ``{"gat": {"heads": 4, "version": "v2",
        "attention_dropout": 0.0, "projection_bias": True}}``.
    pyg_layers : list of dict, optional
        The layers of another kind, as the file of a model describes them.

    Attributes
    ----------
    convs : torch.nn.ModuleList
        The layers of PyG.
    norms : torch.nn.ModuleList
        The normalization of the input of each layer but the first; empty without ``layer_norm``.
    config : dict
        The settings.
    """

    def __init__(self, config: dict[str, Any], pyg_layers: list[dict[str, Any]] | None = None) -> None:
        super().__init__()
        self.config = config
        settings = Settings(config, "stack of convolutions")
        hidden = settings.positive("hidden_channels")
        num_layers = settings.positive("num_layers")
        widths = [settings.positive("in_channels"), *[hidden] * (num_layers - 1), settings.positive("num_classes")]
        kind, entries = settings.kind("kind")
        self.pyg_layers = pyg_layers
        self.convs = torch.nn.ModuleList(
            make_layer(pyg_layers[number]) if pyg_layers else _conv(kind, Settings(entries, kind), fan_in, fan_out, is_last=number == num_layers - 1)
            for number, (fan_in, fan_out) in enumerate(zip(widths, widths[1:]))
        )
        num_norms = num_layers - 1 if settings.get("layer_norm", False) else 0
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(hidden) for _ in range(num_norms))
        self.residual: bool = settings.get("residual", False)
        self.dropout = settings.probability("dropout")
        self.input_dropout = settings.probability("input_dropout")
        self.normalize_features: bool = settings["normalize_features"]
        self.adds_self_loops = kind in ("gcn", "gat")
        self.activation = F.elu if kind == "gat" else F.relu
        settings.finish()

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        num_sampled_nodes_per_hop: list[int] | None = None,
        num_sampled_edges_per_hop: list[int] | None = None,
    ) -> Tensor:
        """Return the logits of all nodes.

        With the numbers of nodes and edges by hop, ``batch.num_sampled_nodes`` and ``batch.num_sampled_edges``, each layer
        computes only the nodes that the later layers need, and the result has the logits of the input nodes.
        """
        hops = num_sampled_nodes_per_hop, num_sampled_edges_per_hop
        if self.normalize_features:
            x = normalized_rows(x)
        x = F.dropout(x, self.input_dropout, self.training)
        last = len(self.convs) - 1
        for number, (conv, block) in enumerate(zip(self.convs, self._blocks(x, edge_index, hops))):
            rows = self.norms[number - 1](x) if number > 0 and len(self.norms) > 0 else x
            if self.adds_self_loops:
                # Like `train`, and unlike PyG's layers, this keeps self loops of the data beside the ones that it adds.
                rows = conv(rows, add_self_loops(block.edge_index, num_nodes=len(rows))[0])[: block.num_dst]
            else:
                rows = conv((rows, rows[: block.num_dst]), block.edge_index)
            if number < last:
                rows = F.dropout(self.activation(rows), self.dropout, self.training)
            # The first and the last layer change the number of columns.
            x = x[: block.num_dst] + rows if self.residual and 0 < number < last else rows
        return x

    def _blocks(
        self, x: Tensor, edge_index: Tensor, hops: tuple[list[int] | None, list[int] | None]
    ) -> list[Block]:
        num_nodes, num_edges = hops
        if num_nodes is None or num_edges is None:
            return [Block(edge_index, num_src=len(x), num_dst=len(x))] * len(self.convs)
        if len(num_edges) != len(self.convs):
            raise ValueError(f"the batch has {len(num_edges)} hops, but the model has {len(self.convs)} layers")
        return blocks_of(edge_index, num_nodes, num_edges)

    def named_tensors(self) -> NamedTensors:
        """Return the tensors of the model by their names in a file. They share memory with the parameters."""
        for number, conv in enumerate(self.convs):
            yield from tensors_of(conv, f"layers.{number}.")
        for number, norm in enumerate(self.norms):
            yield from tensors_of(norm, f"norms.{number}.")


def _conv(kind: str, settings: Settings, fan_in: int, fan_out: int, is_last: bool) -> torch.nn.Module:
    if kind == "sage":
        conv = SAGEConv(fan_in, fan_out, aggr=settings["aggregation"])
    elif kind == "gcn":
        conv = GCNConv(fan_in, fan_out, add_self_loops=False)
    elif kind == "gat":
        conv = make_gat_layer(settings, fan_in, fan_out, is_last)
    elif kind == "gin":
        conv = make_gin(fan_in, fan_out, settings.positive("mlp_layers"), False, settings["learn_epsilon"])
    else:
        raise ValueError(f"`kind` of a stack of convolutions is {kind!r}: choose from 'sage', 'gcn', 'gat' and 'gin'")
    settings.finish()
    return conv

"""The layers of a network: a convolution of PyG, one per edge type, or one that reads all edge types.

A layer takes the rows of each node type and the block of each edge type, and returns the outputs of the node types that are
a destination, by their numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import GCNConv, GINConv, GINEConv, RGCNConv, SAGEConv
from torch_geometric.utils import add_self_loops

from .blocks import Block
from .convs import NamedTensors, make_gat, make_gin, make_layer, tensors_of
from .edge_layers import EdgeAggregation, EdgeRgcn, Hgt, Pna
from .settings import Settings

__all__ = ["EdgeValues", "LayerFactory"]

Blocks = list[Block]


@dataclass(frozen=True)
class EdgeValues:
    """The values of the edges of a type that a network reads.

    Attributes
    ----------
    dim : int
        The number of features, with the columns of encoded times.
    weighted : bool
        Whether messages are multiplied by weights.
    """

    dim: int
    weighted: bool

    @property
    def any(self) -> bool:
        return self.dim > 0 or self.weighted


class LayerFactory:
    """The settings of the layers of a network."""

    def __init__(
        self,
        settings: Settings,
        num_node_types: int,
        ends: list[tuple[int, int]],
        edges: list[EdgeValues],
        pyg_layers: list[dict[str, Any]] | None,
    ) -> None:
        self.pyg_layers = pyg_layers
        self.kind, entries = settings.kind("kind")
        self.entries = Settings(entries, self.kind)
        self.mean = settings["relation_aggregation"] == "mean"
        self.num_node_types = num_node_types
        self.ends = ends
        self.edges = edges

    def direct(self, number: int, channels: tuple[int, int], is_result: bool, batch_norm: bool) -> torch.nn.Module:
        """Return a layer with a single convolution."""
        edges = self.edges[0]
        entries = self.entries
        if self.kind in ("sage", "graphconv") and edges.any:
            conv = EdgeAggregation(self.kind, channels, edges.dim, entries["aggregation"], is_message=False)
            entries.finish()
            return _Direct(conv)
        if self.pyg_layers:
            return _Direct(make_layer(self.pyg_layers[number]))
        if self.kind == "sage":
            conv = SAGEConv(*channels, aggr=entries["aggregation"])
        elif self.kind == "gcn":
            conv = GCNConv(*channels, add_self_loops=False)
        elif self.kind == "gat":
            conv = self._gat(channels, is_result, edges.dim or None)
        elif self.kind == "gin":
            conv = make_gin(*channels, entries.positive("mlp_layers"), batch_norm, entries["learn_epsilon"])
        elif self.kind == "gine":
            mlp_layers, learn_epsilon = entries.positive("mlp_layers"), entries["learn_epsilon"]
            conv = make_gin(*channels, mlp_layers, batch_norm, learn_epsilon, edges.dim)
        elif self.kind == "pna":
            conv = Pna(channels, edges.dim, entries.positive("mean_degree"), is_message=False)
        else:
            choices = "'sage', 'gcn', 'gat', 'gin', 'gine' and 'pna'"
            raise ValueError(f"`kind` of a network without encoders is {self.kind!r}: choose from {choices}")
        entries.finish()
        return _Direct(conv, adds_self_loops=self.kind in ("gcn", "gat"))

    def _gat(self, channels: tuple[int, int], is_result: bool, edge_dim: int | None) -> torch.nn.Module:
        entries = self.entries
        heads = entries.positive("heads")
        version = entries["version"]
        dropout = entries.probability("attention_dropout")
        more = {"dropout": dropout, "add_self_loops": False, "edge_dim": edge_dim}
        conv = make_gat(version, *channels, 1 if is_result else heads, **more)
        if not entries.get("projection_bias", False) and version == "v2":
            conv.lin_l.bias = None
            conv.lin_r.bias = None
        return conv

    def typed(self, channels: int) -> torch.nn.Module:
        """Return a layer over typed edges between rows of one width."""
        entries = self.entries
        has_values = any(edges.any for edges in self.edges)
        if self.pyg_layers and not (self.kind == "graphconv" and has_values):
            return _Typed([make_layer(layer) for layer in self.pyg_layers], channels, self)
        edge_dims = [edges.dim for edges in self.edges]
        if self.kind == "hgt":
            heads, dropout = entries.positive("heads"), entries.probability("attention_dropout")
            entries.finish()
            return Hgt(channels, heads, dropout, self.ends, edge_dims)
        if self.kind == "rgcn":
            decomposition, sizes = entries.kind("decomposition")
            known = {"none": {}, "basis": {"num_bases": sizes.get("num_bases")}}
            known["block-diagonal"] = {"num_blocks": sizes.get("num_blocks")}
            if decomposition not in known:
                raise ValueError(f"`decomposition` of an R-GCN is {decomposition!r}: choose from {', '.join(known)}")
            conv = RGCNConv(channels, channels, len(self.ends), **known[decomposition])
            made: torch.nn.Module = EdgeRgcn(conv, self.ends, edge_dims)
        else:
            ends = enumerate(self.ends)
            messages = [self._message(channels, src != dst, self.edges[relation]) for relation, (src, dst) in ends]
            made = _Typed(messages, channels, self)
        entries.finish()
        return made

    def _message(self, channels: int, between_types: bool, edges: EdgeValues) -> torch.nn.Module:
        """Return the convolution of one edge type, without the destinations' own part of the output."""
        entries = self.entries
        if self.kind == "graphconv" or (self.kind == "sage" and edges.any):
            aggregation = entries["aggregation"]
            return EdgeAggregation(self.kind, (channels, channels), edges.dim, aggregation, is_message=True)
        if self.kind == "sage":
            aggregation = entries["aggregation"]
            return SAGEConv((channels, channels), channels, aggr=aggregation, root_weight=False, bias=False)
        if self.kind == "gat":
            version, heads = entries["version"], entries.positive("heads")
            dropout = entries.probability("attention_dropout")
            # The projections have no biases here, whatever the settings say.
            entries.get("projection_bias", False)
            # Only a layer between two node types has weights of its own for destinations.
            width = (channels, channels) if between_types else channels
            more = {"dropout": dropout, "add_self_loops": False, "edge_dim": edges.dim or None, "bias": False}
            return make_gat(version, width, channels, heads, **more)
        if self.kind == "gin":
            return make_gin(channels, channels, entries.positive("mlp_layers"), False, entries["learn_epsilon"])
        if self.kind == "gine":
            mlp_layers, learn_epsilon = entries.positive("mlp_layers"), entries["learn_epsilon"]
            return make_gin(channels, channels, mlp_layers, False, learn_epsilon, edges.dim)
        if self.kind == "pna":
            return Pna((channels, channels), edges.dim, entries.positive("mean_degree"), is_message=True)
        choices = "'sage', 'gat', 'gin', 'gine', 'pna', 'rgcn' and 'hgt'"
        raise ValueError(f"`kind` of a network with encoders is {self.kind!r}: choose from {choices}")


class _Direct(torch.nn.Module):
    """A convolution over the only edge type."""

    def __init__(self, conv: torch.nn.Module, adds_self_loops: bool = False) -> None:
        super().__init__()
        self.conv = conv
        self.adds_self_loops = adds_self_loops

    def forward(self, rows: list[Tensor], blocks: Blocks) -> dict[int, Tensor]:
        (x,), (block,) = rows, blocks
        if self.adds_self_loops:
            # Like `train`, and unlike PyG's layers, this keeps self loops of the data beside the ones that it adds. Such a
            # loop has the weight 1, and the mean features of the edges of its node.
            values = block.edge_weight if isinstance(self.conv, GCNConv) else block.edge_attr
            fill = 1.0 if isinstance(self.conv, GCNConv) else "mean"
            edge_index, values = add_self_loops(block.edge_index, values, fill, num_nodes=len(x))
            return {0: self.conv(x, edge_index, values)[: block.num_dst]}
        return {0: _apply(self.conv, (x, x[: block.num_dst]), block)}

    def named_tensors(self, before: str) -> NamedTensors:
        yield from tensors_of(self.conv, before)


class _Typed(torch.nn.Module):
    """A convolution per edge type. Their messages are combined and added to a dense layer of the destinations."""

    def __init__(self, convs: list[torch.nn.Module], channels: int, settings: LayerFactory) -> None:
        super().__init__()
        self.convs = torch.nn.ModuleList(convs)
        self.ends = settings.ends
        self.mean = settings.mean
        destinations = sorted({dst for _, dst in settings.ends})
        self.own = torch.nn.ModuleDict({str(number): torch.nn.Linear(channels, channels) for number in destinations})

    def forward(self, rows: list[Tensor], blocks: Blocks) -> dict[int, Tensor]:
        outputs = {}
        for node_type, own in self.own.items():
            number = int(node_type)
            entering = [relation for relation, (_, dst) in enumerate(self.ends) if dst == number]
            messages = [self._message(r, rows, blocks[r]) for r in entering]
            # The mean is over all edge types into the node type, including those without edges.
            outputs[number] = own(rows[number]) + sum(messages) * (1 / len(entering) if self.mean else 1)
        return outputs

    def _message(self, relation: int, rows: list[Tensor], block: Block) -> Tensor:
        src, dst = self.ends[relation]
        x = rows[src] if src == dst else (rows[src], rows[dst])
        message = _apply(self.convs[relation], x, block)
        if isinstance(self.convs[relation], (GINConv, GINEConv)):
            # A node without edges of this type has no message.
            has_edges = message.new_zeros(len(message), 1)
            message = message * has_edges.index_fill_(0, block.edge_index[1], 1.0)
        return message

    def named_tensors(self, before: str) -> NamedTensors:
        for relation, conv in enumerate(self.convs):
            if isinstance(conv, EdgeAggregation) and conv.kind == "sage":
                yield f"{before}conv.weights.{relation}", conv.lin_neighbors.weight.detach()
                if conv.lin_edge is not None:
                    yield f"{before}conv.weights.{relation}.weight_edge", conv.lin_edge.weight.detach()
            elif hasattr(conv, "edgecut_tensors") or isinstance(conv, (GINConv, GINEConv)):
                yield from tensors_of(conv, f"{before}conv.relations.{relation}.")
            elif isinstance(conv, SAGEConv):
                yield f"{before}conv.weights.{relation}", conv.lin_l.weight.detach()
            else:
                yield from tensors_of(conv, f"{before}conv.attentions.{relation}.")
        for number, own in self.own.items():
            yield from tensors_of(own, f"{before}conv.own.{number}.")


def _apply(conv: torch.nn.Module, x: Tensor | tuple[Tensor, Tensor], block: Block) -> Tensor:
    """Return the output of a convolution over the edges of a block and their values."""
    if isinstance(conv, EdgeAggregation):
        return conv(x, block.edge_index, block.edge_attr, block.edge_weight)
    if block.edge_attr is None:
        return conv(x, block.edge_index)
    return conv(x, block.edge_index, block.edge_attr)

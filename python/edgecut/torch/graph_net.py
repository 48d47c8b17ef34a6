"""Models that classify whole graphs."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.nn import GCNConv, SAGEConv, global_add_pool, global_max_pool, global_mean_pool
from torch_geometric.utils import add_self_loops

from .convs import NamedTensors, make_gat_layer, make_gin, make_layer, tensors_of
from .settings import Settings

__all__ = ["GraphNet"]

_POOLING = {"mean": global_mean_pool, "sum": global_add_pool, "max": global_max_pool}


class GraphNet(torch.nn.Module):
    """GIN, a GCN or GraphSAGE that classifies whole graphs, as ``train graph`` trains it.

    Parameters
    ----------
    config : dict
        The settings, as the file of a model stores them: ``conv``, ``in_channels``, ``hidden_channels``, ``num_classes``,
        ``num_layers``, ``pooling``, ``readout``, ``batch_norm``, ``dropout``. ``conv`` is ``{"gin": {"mlp_layers": 2,
        "learn_epsilon": False}}``, ``"gcn"``, or ``{"sage": {"aggregation": "mean"}}``; ``pooling`` is ``"mean"``,
        ``"sum"`` or ``"max"``; ``readout`` is ``"last"`` or ``"jumping-knowledge"``.
    pyg_layers : list of dict, optional
        The layers of another kind, as the file of a model describes them.

    Attributes
    ----------
    convs : torch.nn.ModuleList
        The layers of PyG.
    norms : torch.nn.ModuleList
        The batch normalization after each layer; empty without ``batch_norm``.
    output : torch.nn.Linear
        The layer from the pooled rows to the classes.
    config : dict
        The settings.
    """

    def __init__(self, config: dict[str, Any], pyg_layers: list[dict[str, Any]] | None = None) -> None:
        super().__init__()
        self.config = config
        settings = Settings(config, "model for whole graphs")
        in_channels, hidden = settings.positive("in_channels"), settings.positive("hidden_channels")
        num_layers = settings.positive("num_layers")
        batch_norm = settings["batch_norm"]
        kind, entries = settings.kind("conv")
        widths = [in_channels, *[hidden] * (num_layers - 1)]
        self.pyg_layers = pyg_layers
        self.convs = torch.nn.ModuleList(
            make_layer(pyg_layers[number]) if pyg_layers else _conv(kind, Settings(entries, kind), width, hidden, batch_norm)
            for number, width in enumerate(widths)
        )
        self.adds_self_loops = kind in ("gcn", "gat")
        self.norms = torch.nn.ModuleList(torch.nn.BatchNorm1d(hidden) for _ in range(num_layers if batch_norm else 0))
        self.has_jumping_knowledge = _choice(settings, "readout", ("last", "jumping-knowledge")) == "jumping-knowledge"
        self.pool = _POOLING[_choice(settings, "pooling", tuple(_POOLING))]
        self.dropout = settings.probability("dropout")
        pooled = in_channels + num_layers * hidden if self.has_jumping_knowledge else hidden
        self.output = torch.nn.Linear(pooled, settings.positive("num_classes"))
        settings.finish()

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor, batch_size: int | None = None) -> Tensor:
        """Return the logits of the graphs.

        Parameters
        ----------
        x : Tensor
            The features of the nodes.
        edge_index : Tensor
            The edges.
        batch : Tensor
            The position of the graph to which a node belongs.
        batch_size : int, optional
            The number of graphs. The default is the last one of ``batch``.
        """
        if self.adds_self_loops:
            # Like `train`, and unlike PyG's layer, this keeps self loops of the data beside the ones that it adds.
            edge_index, _ = add_self_loops(edge_index, num_nodes=len(x))
        pooled = []
        for number, conv in enumerate(self.convs):
            if self.has_jumping_knowledge:
                pooled.append(self.pool(x, batch, batch_size))
            x = conv(x, edge_index)
            x = F.relu(self.norms[number](x) if len(self.norms) > 0 else x)
        pooled.append(self.pool(x, batch, batch_size))
        return self.output(F.dropout(torch.cat(pooled, dim=1), self.dropout, self.training))

    def named_tensors(self) -> NamedTensors:
        """Return the tensors of the model by their names in a file. They share memory with the parameters."""
        for number, conv in enumerate(self.convs):
            yield from tensors_of(conv, f"layers.{number}.")
        for number, norm in enumerate(self.norms):
            yield from tensors_of(norm, f"norms.{number}.")
        yield from tensors_of(self.output, "output.")


def _choice(settings: Settings, name: str, choices: tuple[str, ...]) -> str:
    value = settings[name]
    if value not in choices:
        raise ValueError(f"`{name}` of a model for whole graphs is {value!r}: choose from {', '.join(choices)}")
    return value


def _conv(kind: str, settings: Settings, fan_in: int, fan_out: int, batch_norm: bool) -> torch.nn.Module:
    if kind == "gin":
        conv = make_gin(fan_in, fan_out, settings.positive("mlp_layers"), batch_norm, settings["learn_epsilon"])
    elif kind == "gcn":
        conv = GCNConv(fan_in, fan_out, add_self_loops=False)
    elif kind == "sage":
        conv = SAGEConv(fan_in, fan_out, aggr=settings["aggregation"])
    elif kind == "gat":
        conv = make_gat_layer(settings, fan_in, fan_out, is_last=False)
    else:
        raise ValueError(f"`conv` of a model for whole graphs is {kind!r}: choose from 'gin', 'gcn', 'sage' and 'gat'")
    settings.finish()
    return conv

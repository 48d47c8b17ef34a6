"""Layers of PyG, and the names of their tensors in a model file.

The tensors of a layer are pairs of a name and a tensor that shares memory with the layer's parameter, in the layout of the
file. Values are therefore loaded with ``copy_``, and saved as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch_geometric.nn
from torch import Tensor
from torch_geometric.nn import GATConv, GATv2Conv, GCNConv, GINConv, GINEConv, GraphNorm, RGCNConv, SAGEConv

__all__ = ["NamedTensors", "make_gat", "make_gin", "make_layer", "tensors_of", "tensors_of_mlp"]

NamedTensors = Iterator[tuple[str, Tensor]]

_NAMES: dict[type, dict[str, str]] = {
    SAGEConv: {"weight_neighbors": "lin_l.weight", "bias": "lin_l.bias", "weight_self": "lin_r.weight"},
    GCNConv: {"weight": "lin.weight", "bias": "bias"},
    GATConv: {
        "weight_src": "lin.weight",
        "attention_src": "att_src",
        "attention_dst": "att_dst",
        "weight_edge": "lin_edge.weight",
        "attention_edge": "att_edge",
        "bias": "bias",
    },
    GATv2Conv: {
        "weight_src": "lin_l.weight",
        "weight_dst": "lin_r.weight",
        "bias_src": "lin_l.bias",
        "bias_dst": "lin_r.bias",
        "attention_src": "att",
        "weight_edge": "lin_edge.weight",
        "bias": "bias",
    },
    torch.nn.Linear: {"weight": "weight", "bias": "bias"},
    torch.nn.LayerNorm: {"gamma": "weight", "beta": "bias"},
    torch.nn.BatchNorm1d: {
        "gamma": "weight",
        "beta": "bias",
        "running_mean": "running_mean",
        "running_var": "running_var",
    },
    GraphNorm: {"gamma": "weight", "beta": "bias", "alpha": "mean_scale"},
}
# The weights of a `GATConv` between two node types.
_BETWEEN_TYPES = {"weight_src": "lin_src.weight", "weight_dst": "lin_dst.weight"}


def tensors_of(layer: torch.nn.Module, before: str) -> NamedTensors:
    """Return the tensors of a layer by their names in a file, each preceded by ``before``."""
    if isinstance(layer, RGCNConv):
        yield from _tensors_of_rgcn(layer, before)
    elif isinstance(layer, GINConv):
        yield from tensors_of_mlp(layer.nn, f"{before}mlp.")
        if isinstance(layer.eps, torch.nn.Parameter):
            yield f"{before}epsilon", layer.eps.detach()
    elif isinstance(layer, GINEConv):
        yield from tensors_of_mlp(layer.nn, f"{before}gin.mlp.")
        if isinstance(layer.eps, torch.nn.Parameter):
            yield f"{before}gin.epsilon", layer.eps.detach()
        yield f"{before}edge.weight", layer.lin.weight.detach()
        yield f"{before}edge.bias", layer.lin.bias.detach()
    else:
        names = layer.edgecut_tensors if hasattr(layer, "edgecut_tensors") else _NAMES[type(layer)]
        if isinstance(layer, GATConv) and layer.lin is None:
            names = {**names, **_BETWEEN_TYPES}
        for name, path in names.items():
            value: Any = layer
            for part in path.split("."):
                # A layer without features of edges, or a bias, has no such module.
                value = None if value is None else getattr(value, part)
            if value is not None:
                yield before + name, value.detach()


def _tensors_of_rgcn(layer: RGCNConv, before: str) -> NamedTensors:
    weight = layer.weight.detach()
    if layer.num_bases is not None:
        yield f"{before}weights.bases", weight
        yield f"{before}weights.coefficients", layer.comp.detach().T
    else:
        # Blocks of a diagonal are stored as they are, matrices as `[out_channels, in_channels]`.
        name = "matrices" if layer.num_blocks is None else "blocks"
        for number, of_type in enumerate(weight):
            yield f"{before}weights.{name}.{number}", of_type.T if of_type.dim() == 2 else of_type
    yield f"{before}weight_self", layer.root.detach().T
    yield f"{before}bias", layer.bias.detach()


def tensors_of_mlp(mlp: torch.nn.Sequential, before: str) -> NamedTensors:
    """Return the tensors of the dense layers and normalizations of an MLP."""
    for kind, name in ((torch.nn.Linear, "layers"), (torch.nn.BatchNorm1d, "norms")):
        for number, layer in enumerate(layer for layer in mlp if isinstance(layer, kind)):
            yield from tensors_of(layer, f"{before}{name}.{number}.")


def make_gat(
    version: str, in_channels: int | tuple[int, int], out_channels: int, heads: int, **more: Any
) -> torch.nn.Module:
    """Return a layer of graph attention whose heads are concatenated to ``out_channels``."""
    if version not in ("v1", "v2"):
        raise ValueError(f"`version` of graph attention is {version!r}: choose from 'v1' and 'v2'")
    if out_channels % heads != 0:
        raise ValueError(f"{heads} heads do not divide {out_channels} channels")
    return (GATConv if version == "v1" else GATv2Conv)(in_channels, out_channels // heads, heads=heads, **more)


def make_layer(description: dict[str, Any]) -> torch.nn.Module:
    """Return the layer that a model file describes: a class of PyG, its arguments, and the names of its tensors."""
    layer = getattr(torch_geometric.nn, description["class"])(**description["arguments"])
    layer.edgecut_tensors = dict(description["tensors"])
    return layer


def make_gin(
    in_channels: int, out_channels: int, mlp_layers: int, batch_norm: bool, learn_epsilon: bool, edge_dim: int | None = None
) -> GINConv | GINEConv:
    """Return a layer of a graph isomorphism network with an MLP of ``mlp_layers`` layers, over edge features if there are
    some."""
    layers: list[torch.nn.Module] = [torch.nn.Linear(in_channels, out_channels)]
    for _ in range(mlp_layers - 1):
        if batch_norm:
            layers.append(torch.nn.BatchNorm1d(out_channels))
        layers += [torch.nn.ReLU(), torch.nn.Linear(out_channels, out_channels)]
    mlp = torch.nn.Sequential(*layers)
    if edge_dim is not None:
        return GINEConv(mlp, train_eps=learn_epsilon, edge_dim=edge_dim)
    return GINConv(mlp, train_eps=learn_epsilon)

"""Models of PyG as stacks of convolutions."""

from __future__ import annotations

from typing import Any

import torch
from torch_geometric.nn import GCN, GATConv, GATv2Conv, GCNConv, GraphSAGE, SAGEConv

from .network import ConvStack

__all__ = ["from_pyg"]


def from_pyg(model: torch.nn.Module, normalize_features: bool) -> ConvStack:
    """Return a :class:`ConvStack` that computes the same as PyG's ``GraphSAGE``, ``GCN`` or ``GAT``, with copies of its
    weights.

    Raises
    ------
    ValueError
        If the model has settings that ``train`` does not have.
    """
    if model.jk_mode is not None:
        raise ValueError(
            f"a model with jk={model.jk_mode!r} cannot be saved: the jumping knowledge of `train` also reads the input, or its"
            " output layer has another form"
        )
    kind = _kind(model)
    expected = torch.nn.ELU if "gat" in kind else torch.nn.ReLU
    if len(model.convs) > 1 and not isinstance(model.act, expected):
        name = expected.__name__
        raise ValueError(f"the activation is {model.act}, but `train` has {name} in such models: use act={name.lower()!r}")
    if len(model.convs) > 1 and getattr(model.act, "alpha", 1.0) != 1.0:
        raise ValueError(f"the activation is {model.act}, but `train` has alpha=1")
    norms = [norm for norm in model.norms if not isinstance(norm, torch.nn.Identity)]
    if any(not _is_layer_norm(norm) for norm in norms) or (norms and not model.act_first):
        raise ValueError(
            f"the normalization {norms[0]} cannot be saved: `train` has layer normalization of rows after the activation, "
            "norm='layer_norm', norm_kwargs={'mode': 'node'}, act_first=True"
        )
    weights = [_projection(conv).weight for conv in model.convs]
    stack = ConvStack(
        {
            "kind": kind,
            "in_channels": weights[0].shape[1],
            # A single layer has no hidden rows, and the settings need a number.
            "hidden_channels": weights[0].shape[0],
            "num_classes": weights[-1].shape[0],
            "num_layers": len(weights),
            "residual": False,
            "layer_norm": bool(norms),
            "dropout": model.dropout.p,
            "input_dropout": 0.0,
            "normalize_features": normalize_features,
        }
    )
    for ours, theirs in zip(_modules(stack), [*model.convs, *norms]):
        if ours.state_dict().keys() != theirs.state_dict().keys():
            raise ValueError(f"{theirs} cannot be saved: in `train` it has the parameters {', '.join(ours.state_dict())}")
        ours.load_state_dict(theirs.state_dict())
    return stack


def _modules(stack: ConvStack) -> list[torch.nn.Module]:
    return [*(layer.conv for layer in stack.layers), *(norm for norms in stack.norms_before for norm in norms)]


def _kind(model: torch.nn.Module) -> Any:
    """Return the kind of a model, after a check that all settings of its layers are those of `train`."""
    first = model.convs[0]
    for conv in model.convs:
        _check(conv, {"flow": "source_to_target"})
        # PyG has two names for the sum.
        if not isinstance(model, GraphSAGE) and conv.aggr not in ("add", "sum"):
            raise ValueError(f"{conv} has aggr={conv.aggr!r}, but `train` has the sum")
    if isinstance(model, GraphSAGE):
        for conv in model.convs:
            _check(conv, {"aggr": first.aggr, "normalize": False, "root_weight": True, "project": False})
            if first.aggr not in ("mean", "sum", "add", "max") or conv.lin_l.bias is None:
                raise ValueError(f"{conv} cannot be saved: `train` has the aggregations mean, sum and max, and biases")
        return {"sage": {"aggregation": "sum" if first.aggr == "add" else first.aggr}}
    if isinstance(model, GCN):
        for conv in model.convs:
            _check(conv, {"improved": False, "add_self_loops": True, "normalize": True})
        return "gcn"
    version = "v2" if isinstance(first, GATv2Conv) else "v1"
    for conv in model.convs:
        _check(conv, {"negative_slope": 0.2, "add_self_loops": True, "edge_dim": None, "dropout": first.dropout})
        _check(conv, {"share_weights": False} if version == "v2" else {})
        _check(conv, {"residual": False} if hasattr(conv, "residual") else {})
    if model.convs[-1].heads != 1 or any(not conv.concat and conv.heads > 1 for conv in model.convs):
        raise ValueError(
            f"{model.convs[-1]} has several heads, but the last layer of a GAT of `train` has one: use ConvStack"
        )
    settings = {"heads": first.heads, "version": version, "attention_dropout": first.dropout, "projection_bias": True}
    return {"gat": settings}


def _check(conv: torch.nn.Module, expected: dict[str, Any]) -> None:
    for name, value in expected.items():
        if getattr(conv, name) != value:
            found = getattr(conv, name)
            raise ValueError(f"{conv} has {name}={found}, which `train` does not have: use {name}={value}")


def _is_layer_norm(norm: torch.nn.Module) -> bool:
    has_our_settings = getattr(norm, "mode", None) == "node" and getattr(norm, "affine", False)
    return has_our_settings and norm.eps == 1e-5


def _projection(conv: torch.nn.Module) -> torch.nn.Module:
    """Return the linear layer of a convolution that is applied to neighbors."""
    if isinstance(conv, (GCNConv, GATConv)):
        return conv.lin
    if isinstance(conv, (SAGEConv, GATv2Conv)):
        return conv.lin_l
    raise ValueError(f"{conv} cannot be saved: `train` has SAGEConv, GCNConv, GATConv and GATv2Conv")

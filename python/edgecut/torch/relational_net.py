"""Networks over typed edges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.nn import GINConv, RGCNConv, SAGEConv

from .convs import NamedTensors, make_gat, make_gin, make_layer, tensors_of
from .embeddings import PREFIX
from .settings import Settings, normalized_rows

__all__ = ["RelationalNet"]

EdgeType = tuple[str, str, str]


class RelationalNet(torch.nn.Module):
    """An R-GCN, GraphSAGE or GAT over typed edges, with an encoder per node type, as ``train node`` and ``train link``
    train it for heterogeneous graphs and with ``--encoder-decoder``.

    Parameters
    ----------
    config : dict
        The settings, as the file of a model stores them: ``kind``, ``graph``, ``outputs``, ``hidden_channels``,
        ``num_layers``, ``relation_aggregation``, ``residual``, ``layer_norm``, ``dropout``, ``input_dropout``,
        ``normalize_features``.
    num_nodes : dict of str to int, optional
        The number of nodes of each node type without features, whose embeddings the model learns.
    pyg_layers : list of dict, optional
        The layers of another kind by edge type, as the file of a model describes them.

    Attributes
    ----------
    node_types : list of str
        The node types.
    edge_types : list of tuple of str
        The edge types: source, relation and destination.
    embeddings : torch.nn.ModuleDict
        The embeddings of the node types without features, by the number of the node type.
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
        settings = Settings(config, "network over typed edges")
        graph = settings["graph"]
        self.node_types: list[str] = [t["name"] for t in graph["node_types"]]
        ends = [(t["src"], t["dst"]) for t in graph["edge_types"]]
        self.edge_types: list[EdgeType] = [
            (self.node_types[t["src"]], t["relation"], self.node_types[t["dst"]]) for t in graph["edge_types"]
        ]
        hidden = settings.positive("hidden_channels")
        self.encoders = torch.nn.ModuleDict()
        self.embeddings = torch.nn.ModuleDict()
        for number, t in enumerate(graph["node_types"]):
            if t["feature_dim"] > 0:
                self.encoders[str(number)] = torch.nn.Linear(t["feature_dim"], hidden)
            elif num_nodes is None or t["name"] not in num_nodes:
                raise ValueError(f"`num_nodes` lacks the node type {t['name']}, which has no features")
            else:
                self.embeddings[str(number)] = torch.nn.Embedding(num_nodes[t["name"]], hidden)
        self.pyg_layers = pyg_layers
        conv = _Convs(settings, hidden, len(self.node_types), ends, pyg_layers)
        layer_norm = settings["layer_norm"]
        num_layers = settings["num_layers"]
        self.layers = torch.nn.ModuleList(conv.make() for _ in range(num_layers))
        self.norms = torch.nn.ModuleList(
            torch.nn.ModuleList(torch.nn.LayerNorm(hidden) for _ in self.node_types if layer_norm)
            for _ in range(num_layers)
        )
        self.outputs = torch.nn.ModuleDict(
            {str(output["node_type"]): torch.nn.Linear(hidden, output["channels"]) for output in settings["outputs"]}
        )
        self.residual: bool = settings["residual"]
        self.dropout = settings.probability("dropout")
        self.input_dropout = settings.probability("input_dropout")
        self.normalize_features: bool = settings["normalize_features"]
        settings.finish()

    @property
    def is_homogeneous(self) -> bool:
        """Whether there is one node type and one edge type. The model then takes and returns tensors, not dicts."""
        return len(self.node_types) == 1 and len(self.edge_types) == 1

    def forward(self, x: Any, edge_index: Any, n_id: Any = None) -> Any:
        """Return the output of each node: logits of the node types with an output layer, and rows of the last layer of
        the others.

        Parameters
        ----------
        x : dict of str to Tensor, or Tensor
            The features by node type, ``batch.x_dict``. For a homogeneous graph ``batch.x``, and so for the others.
        edge_index : dict of tuple to Tensor, or Tensor
            The edges by edge type, ``batch.edge_index_dict``.
        n_id : dict of str to Tensor, or Tensor; optional
            The ids of the nodes, ``batch.n_id_dict``, for node types without features. The default is all nodes.

        Returns
        -------
        dict of str to Tensor, or Tensor
            The outputs by node type.
        """
        if not self.is_homogeneous:
            return self._forward(x, edge_index, n_id or {})
        name = self.node_types[0]
        features = {} if x is None else {name: x}
        ids = {} if n_id is None else {name: n_id}
        return self._forward(features, {self.edge_types[0]: edge_index}, ids)[name]

    def _forward(
        self, x: Mapping[str, Tensor], edge_index: Mapping[EdgeType, Tensor], n_id: Mapping[str, Tensor]
    ) -> dict[str, Tensor]:
        edges = [edge_index.get(name) for name in self.edge_types]
        rows = [self._encoded(number, x, n_id) for number in range(len(self.node_types))]
        for layer, norms in zip(self.layers, self.norms):
            normalized = [norm(of_type) for norm, of_type in zip(norms, rows)] if len(norms) > 0 else rows
            # The result of the last layer can be negative if it is the output.
            has_relu = layer is not self.layers[-1] or len(self.outputs) > 0
            for number, output in layer(normalized, edges).items():
                if has_relu:
                    output = F.dropout(F.relu(output), self.dropout, self.training)
                rows[number] = rows[number] + output if self.residual else output
        for number, output_layer in self.outputs.items():
            rows[int(number)] = output_layer(rows[int(number)])
        return dict(zip(self.node_types, rows))

    def _encoded(self, number: int, x: Mapping[str, Tensor], n_id: Mapping[str, Tensor]) -> Tensor:
        """Return the first rows of a node type's nodes."""
        name = self.node_types[number]
        if str(number) in self.embeddings:
            table = self.embeddings[str(number)]
            rows = table(n_id[name].long()) if name in n_id else table.weight
            return F.dropout(rows, self.dropout, self.training)
        if name not in x:
            raise ValueError(f"the features of node type {name} are missing in `x`")
        features = normalized_rows(x[name]) if self.normalize_features else x[name]
        rows = self.encoders[str(number)](F.dropout(features, self.input_dropout, self.training))
        if len(self.layers) == 0 and len(self.outputs) == 0:
            return rows
        return F.dropout(F.relu(rows), self.dropout, self.training)

    def named_tensors(self, before: str = "") -> NamedTensors:
        """Return the tensors of the model by their names in a file. They share memory with the parameters."""
        for number, encoder in self.encoders.items():
            yield from tensors_of(encoder, f"{before}encoders.{number}.")
        for number, (layer, norms) in enumerate(zip(self.layers, self.norms)):
            for of_type, norm in enumerate(norms):
                yield from tensors_of(norm, f"{before}layers.{number}.norms.{of_type}.")
            yield from layer.named_tensors(f"{before}layers.{number}.conv.")
        for number, output in self.outputs.items():
            yield from tensors_of(output, f"{before}outputs.{number}.")

    def named_embeddings(self) -> NamedTensors:
        """Return the embeddings by their names in a file."""
        for number, table in self.embeddings.items():
            yield f"{PREFIX}{self.node_types[int(number)]}", table.weight.detach()


class _Convs:
    """The settings of the layers of a network over typed edges."""

    def __init__(
        self,
        settings: Settings,
        channels: int,
        num_node_types: int,
        ends: list[tuple[int, int]],
        pyg_layers: list[dict[str, Any]] | None,
    ) -> None:
        self.pyg_layers = pyg_layers
        self.kind, entries = settings.kind("kind")
        self.entries = Settings(entries, self.kind)
        self.mean = settings["relation_aggregation"] == "mean"
        self.channels = channels
        self.num_node_types = num_node_types
        self.ends = ends

    def make(self) -> torch.nn.Module:
        entries = self.entries
        if self.pyg_layers:
            return _Typed([make_layer(layer) for layer in self.pyg_layers], self)
        if self.kind == "rgcn":
            decomposition, sizes = entries.kind("decomposition")
            known = {"none": {}, "basis": {"num_bases": sizes.get("num_bases")}}
            known["block-diagonal"] = {"num_blocks": sizes.get("num_blocks")}
            if decomposition not in known:
                raise ValueError(f"`decomposition` of an R-GCN is {decomposition!r}: choose from {', '.join(known)}")
            made: torch.nn.Module = _Rgcn(self.channels, self.num_node_types, self.ends, known[decomposition])
        elif self.kind == "sage":
            aggregation = entries["aggregation"]
            make = lambda src, dst: SAGEConv(
                (self.channels, self.channels), self.channels, aggr=aggregation, root_weight=False, bias=False
            )
            made = _Typed([make(src, dst) for src, dst in self.ends], self)
        elif self.kind == "gat":
            version, heads = entries["version"], entries.positive("heads")
            dropout = entries.probability("attention_dropout")
            # The projections have no biases here, whatever the settings say.
            entries.get("projection_bias", False)
            # Only a layer between two node types has weights of its own for destinations.
            width = lambda src, dst: self.channels if src == dst else (self.channels, self.channels)
            more = {"dropout": dropout, "add_self_loops": False, "bias": False}
            made = _Typed([make_gat(version, width(*ends), self.channels, heads, **more) for ends in self.ends], self)
        elif self.kind == "gin":
            mlp_layers, learn_epsilon = entries.positive("mlp_layers"), entries["learn_epsilon"]
            gin = [make_gin(self.channels, self.channels, mlp_layers, False, learn_epsilon) for _ in self.ends]
            made = _Typed(gin, self)
        else:
            choices = "'sage', 'gat', 'gin' and 'rgcn'"
            raise ValueError(f"`kind` of a network over typed edges is {self.kind!r}: choose from {choices}")
        entries.finish()
        return made


class _Typed(torch.nn.Module):
    """A convolution per edge type. Their messages are combined and added to a dense layer of the destinations."""

    def __init__(self, convs: list[torch.nn.Module], settings: _Convs) -> None:
        super().__init__()
        self.convs = torch.nn.ModuleList(convs)
        self.ends = settings.ends
        self.mean = settings.mean
        destinations = sorted({dst for _, dst in settings.ends})
        channels = settings.channels
        self.own = torch.nn.ModuleDict({str(number): torch.nn.Linear(channels, channels) for number in destinations})

    def forward(self, rows: list[Tensor], edges: list[Tensor | None]) -> dict[int, Tensor]:
        """Return the outputs of the node types that are a destination, by their numbers."""
        outputs = {}
        for node_type, own in self.own.items():
            number = int(node_type)
            entering = [relation for relation, (_, dst) in enumerate(self.ends) if dst == number]
            output = own(rows[number])
            messages = [self._message(r, rows, edges[r]) for r in entering if edges[r] is not None]
            if messages:
                # The mean is over all edge types into the node type, including those without edges.
                output = output + sum(messages) * (1 / len(entering) if self.mean else 1)
            outputs[number] = output
        return outputs

    def _message(self, relation: int, rows: list[Tensor], edge_index: Tensor) -> Tensor:
        src, dst = self.ends[relation]
        x = rows[src] if src == dst else (rows[src], rows[dst])
        message = self.convs[relation](x, edge_index)
        if isinstance(self.convs[relation], GINConv):
            # A node without edges of this type has no message.
            has_edges = message.new_zeros(len(message), 1)
            message = message * has_edges.index_fill_(0, edge_index[1], 1.0)
        return message

    def named_tensors(self, before: str) -> NamedTensors:
        for relation, conv in enumerate(self.convs):
            if hasattr(conv, "edgecut_tensors") or isinstance(conv, GINConv):
                yield from tensors_of(conv, f"{before}relations.{relation}.")
            elif isinstance(conv, SAGEConv):
                yield f"{before}weights.{relation}", conv.lin_l.weight.detach()
            else:
                yield from tensors_of(conv, f"{before}attentions.{relation}.")
        for number, own in self.own.items():
            yield from tensors_of(own, f"{before}own.{number}.")


class _Rgcn(torch.nn.Module):
    """An ``RGCNConv`` over the nodes of all types, which are numbered type by type."""

    def __init__(self, channels: int, num_node_types: int, ends: list[tuple[int, int]], sizes: dict[str, int]) -> None:
        super().__init__()
        self.conv = RGCNConv(channels, channels, len(ends), **sizes)
        self.ends = ends

    def forward(self, rows: list[Tensor], edges: list[Tensor | None]) -> dict[int, Tensor]:
        """Return the outputs of the node types that are a destination, by their numbers."""
        starts = [0]
        for of_type in rows:
            starts.append(starts[-1] + len(of_type))
        joined, types = [], []
        for relation, ((src, dst), edge_index) in enumerate(zip(self.ends, edges)):
            if edge_index is not None:
                joined.append(edge_index + edge_index.new_tensor([[starts[src]], [starts[dst]]]))
                types.append(edge_index.new_full((edge_index.size(1),), relation))
        if joined:
            edge_index, edge_type = torch.cat(joined, dim=1), torch.cat(types)
        else:
            edge_index = torch.empty(2, 0, dtype=torch.long, device=rows[0].device)
            edge_type = edge_index[0]
        output = self.conv(torch.cat(rows), edge_index, edge_type)
        return {number: output[starts[number] : starts[number + 1]] for number in sorted({dst for _, dst in self.ends})}

    def named_tensors(self, before: str) -> NamedTensors:
        yield from tensors_of(self.conv, f"{before}rgcn.")

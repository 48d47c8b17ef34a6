"""Networks of convolutions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.nn import GraphNorm, global_add_pool, global_max_pool, global_mean_pool

from ..arguments import check_hops
from ..store import Store
from .blocks import Block, blocks_of
from .convs import NamedTensors, make_gin, tensors_of, tensors_of_mlp
from .edge_layers import TimeEncoder
from .embeddings import PREFIX
from .feed_forward import FeedForward
from .layers import EdgeValues, LayerFactory
from .model import Model
from .settings import Settings, current, normalized_rows
from .trained_on import unread_edge_types

__all__ = ["ConvStack", "GraphNet", "Network", "RelationalNet"]

EdgeType = tuple[str, str, str]

_POOLING = {"mean": global_mean_pool, "sum": global_add_pool, "max": global_max_pool}


class Network(Model):
    """Convolutions between encoders of features, normalizations, pooling and output layers, as ``train`` trains them.

    Its subclasses differ in the form of their input.

    Parameters
    ----------
    config : dict
        The settings, as the file of a model stores them, now or in earlier versions: ``kind``, ``graph``, ``encoders``,
        ``outputs``, ``hidden_channels``, ``num_layers``, ``relation_aggregation``, ``residual``, ``layer_norm``,
        ``batch_norm``, ``graph_norm``, ``virtual_node``, ``feed_forward``, ``readout``, ``pooling``, ``dropout``,
        ``input_dropout``, ``normalize_features``.
        ``kind`` is for example ``{"sage": {"aggregation": "mean"}}`` or ``"gcn"``.
    num_nodes : dict of str to int, optional
        The number of nodes of each node type whose embeddings the model learns: the types without features, and those with
        an ``embedding_dim`` in ``graph``, which the encoder reads beside their features, or adds to them (``embedding_mode``).
    pyg_layers : list of dict, optional
        The layers of another kind, as the file of a model describes them.

    Attributes
    ----------
    node_types : list of str
        The node types.
    edge_types : list of tuple of str
        The edge types: source, relation and destination.
    embeddings : torch.nn.ModuleDict
        The embeddings of nodes, by the number of the node type.
    layers : torch.nn.ModuleList
        The layers, with the convolutions of PyG.
    decision : Decision or None
        The way from outputs to probabilities and classes, if the model was loaded from a file. :func:`save_model` keeps it. Its
        temperature and thresholds are of the logits of the file: set new ones after more training.
    trained_on : str or None
        The description of the training's data in the file, which :func:`save_model` keeps. Set it to None after training on other
        data. Edge types that have fan-outs of 0 in all hops there are not read, as in ``train predict``, since the model has
        not learned their weights.
    targets : list of dict or None
        The targets of a model of ``train multi``, each with its ``name``, ``node_type`` and ``num_outputs``.
    config : dict
        The settings.
    """

    CLASSES_OF = "node_types"

    def __init__(
        self,
        config: dict[str, Any],
        num_nodes: Mapping[str, int] | None = None,
        pyg_layers: list[dict[str, Any]] | None = None,
    ) -> None:
        super().__init__(current(config), pyg_layers)
        settings = Settings(self.config, "network")
        graph = settings["graph"]
        self.node_types: list[str] = [t["name"] for t in graph["node_types"]]
        self.feature_dims: list[int] = [t["feature_dim"] for t in graph["node_types"]]
        ends = [(t["src"], t["dst"]) for t in graph["edge_types"]]
        self.edge_types: list[EdgeType] = [
            (self.node_types[t["src"]], t["relation"], self.node_types[t["dst"]]) for t in graph["edge_types"]
        ]
        self.edge_dims: list[int] = [t.get("edge_dim", 0) for t in graph["edge_types"]]
        self.time_dims: list[int] = [t.get("time_dim", 0) for t in graph["edge_types"]]
        self.weighted: list[bool] = [t.get("weighted", False) for t in graph["edge_types"]]
        self.times = TimeEncoder(max(self.time_dims)) if max(self.time_dims) > 0 else None
        edges = [EdgeValues(*of_type) for of_type in zip(map(sum, zip(self.edge_dims, self.time_dims)), self.weighted)]
        hidden = settings.positive("hidden_channels")
        self.has_encoders: bool = settings.get("encoders", True)
        self.encoders = torch.nn.ModuleDict()
        self.projections = torch.nn.ModuleDict()
        self.embeddings = torch.nn.ModuleDict()
        for number, t in enumerate(graph["node_types"] if self.has_encoders else []):
            feature_dim, embedding_dim = t["feature_dim"], t.get("embedding_dim", 0)
            mode = t.get("embedding_mode", "concatenate")
            if mode not in ("add", "concatenate"):
                raise ValueError(f"`embedding_mode` of node type {t['name']} is {mode!r}: choose add or concatenate")
            if mode == "add":
                self.projections[str(number)] = torch.nn.Linear(feature_dim, embedding_dim)
            read = embedding_dim if mode == "add" else feature_dim + embedding_dim
            # Sums of the hidden width are the first rows.
            if read > 0 and not (mode == "add" and read == hidden):
                self.encoders[str(number)] = torch.nn.Linear(read, hidden)
            if feature_dim > 0 and embedding_dim == 0:
                continue
            if num_nodes is None or t["name"] not in num_nodes:
                raise ValueError(f"`num_nodes` lacks the node type {t['name']}, which has embeddings")
            self.embeddings[str(number)] = torch.nn.Embedding(num_nodes[t["name"]], embedding_dim or hidden)
        num_layers = settings["num_layers"] if self.has_encoders else settings.positive("num_layers")
        outputs = {output["node_type"]: output["channels"] for output in settings["outputs"]}
        readouts = ("last", "jumping-knowledge", "jumping-knowledge-max")
        readout = settings.choice("readout", readouts, default="last")
        self.has_jumping_knowledge = readout == "jumping-knowledge"
        self.takes_greatest = readout == "jumping-knowledge-max"
        pooling = settings.get("pooling", None)
        self.pool = None
        if pooling is not None:
            of_pooling = Settings(pooling, "pooling")
            self.pool = _POOLING[of_pooling.choice("aggregation", tuple(_POOLING))]
            self.pooled_dropout = of_pooling.probability("dropout")
            of_pooling.finish()
        # A stack has no output layers: the last convolution computes the outputs.
        is_stack = not (self.has_encoders or self.pool or readout != "last")
        self.has_result_layer = is_stack or len(outputs) == 0
        first = hidden if self.has_encoders else graph["node_types"][0]["feature_dim"]
        widths = [first, *[hidden] * num_layers]
        if is_stack:
            widths[-1] = outputs[0]
        read = sum(widths) if self.has_jumping_knowledge else widths[-1]
        output_layers = {} if is_stack else outputs
        self.outputs = torch.nn.ModuleDict({str(t): torch.nn.Linear(read, width) for t, width in output_layers.items()})
        layer_norm = settings.get("layer_norm", False)
        batch_norm = settings.get("batch_norm", False)
        factory = LayerFactory(settings, len(self.node_types), ends, edges, pyg_layers)
        graph_norm = settings.get("graph_norm", False)
        self.layers = torch.nn.ModuleList()
        self.norms_before = torch.nn.ModuleList()
        self.norms_after = torch.nn.ModuleList()
        for number in range(num_layers):
            is_output = is_stack and number == num_layers - 1
            reads_hidden = self.has_encoders or number > 0
            self.norms_before.append(self._norms(torch.nn.LayerNorm, hidden, layer_norm and reads_hidden))
            norm_after = GraphNorm if graph_norm else torch.nn.BatchNorm1d
            self.norms_after.append(self._norms(norm_after, hidden, (batch_norm or graph_norm) and not is_output))
            if self.has_encoders:
                self.layers.append(factory.typed(hidden))
            else:
                self.layers.append(factory.direct(number, (widths[number], widths[number + 1]), is_output, batch_norm))
        has_virtual_node = settings.get("virtual_node", False)
        mlps = [make_gin(hidden, hidden, 2, False, False).nn for _ in range(num_layers - 1 if has_virtual_node else 0)]
        # The virtual nodes before all layers but the first.
        self.virtual_nodes = torch.nn.ModuleList(mlps)
        residual = settings.get("residual", False)
        # The first and the last convolution may change the number of columns.
        self.residuals = [
            residual and (self.has_encoders or (number > 0 and not (is_stack and number == num_layers - 1)))
            for number in range(num_layers)
        ]
        has_elu = factory.kind == "gat" and not self.has_encoders and self.pool is None
        self.activation = F.elu if has_elu else F.relu
        self.dropout = settings.probability("dropout")
        self.input_dropout = settings.probability("input_dropout")
        self.normalize_features: bool = settings["normalize_features"]
        ratio = settings.positive("feed_forward") if settings.get("feed_forward", None) is not None else 0
        # The feed-forward parts after each layer by the number of the node type.
        self.feed_forward = torch.nn.ModuleList()
        for number in range(num_layers):
            is_output = is_stack and number == num_layers - 1
            destinations = sorted({dst for _, dst in ends}) if ratio > 0 and not is_output else []
            parts = {str(t): FeedForward(hidden, ratio, self.dropout) for t in destinations}
            self.feed_forward.append(torch.nn.ModuleDict(parts))
        settings.finish()

    def _norms(self, norm: type, channels: int, is_set: bool) -> torch.nn.ModuleList:
        return torch.nn.ModuleList(norm(channels) for _ in self.node_types if is_set)

    @property
    def is_homogeneous(self) -> bool:
        """Whether there is one node type and one edge type. The model then takes and returns tensors, not dicts."""
        return len(self.node_types) == 1 and len(self.edge_types) == 1

    def _values(
        self, number: int, num_edges: int, edge_attr: Tensor | None, edge_weight: Tensor | None, edge_age: Tensor | None
    ) -> dict[str, Tensor | None]:
        """Return the values of the edges of a type that the layers read."""
        name = "__".join(self.edge_types[number])
        reads = (
            ("edge_attr", edge_attr, self.edge_dims[number] > 0, (num_edges, self.edge_dims[number])),
            ("edge_weight", edge_weight, self.weighted[number], (num_edges,)),
            ("edge_age", edge_age, self.time_dims[number] > 0, (num_edges,)),
        )
        for argument, given, is_read, shape in reads:
            if is_read and given is None:
                raise ValueError(f"the model reads values of edges of type {name}: pass `{argument}`")
            if is_read and tuple(given.shape) != shape:
                found, expected = list(given.shape), list(shape)
                raise ValueError(f"`{argument}` of edges of type {name} has the shape {found}, expected {expected}")
        columns = [edge_attr] if self.edge_dims[number] > 0 else []
        if self.times is not None and self.time_dims[number] > 0:
            columns.append(self.times(edge_age))
        return {
            "edge_attr": torch.cat(columns, dim=1) if columns else None,
            "edge_weight": edge_weight if self.weighted[number] else None,
        }

    def _edges(self, number: int, edge_index: Tensor, *values: Tensor | None) -> tuple[Tensor, dict[str, Tensor | None]]:
        """Return the edges of a type that the layers read, and their values."""
        of_edges = self._values(number, edge_index.size(1), *values)
        if self.edge_types[number] not in unread_edge_types(self.trained_on, tuple(self.edge_types)):
            return edge_index, of_edges
        return edge_index[:, :0], {name: rows if rows is None else rows[:0] for name, rows in of_edges.items()}

    def _parts(
        self, rows: list[Tensor], layers: list[list[Block]], graphs: tuple[Tensor, int | None] | None = None
    ) -> list[list[Tensor]]:
        """Return the rows that the output layers read, by node type: of the last layer, or of all layers. ``graphs`` are the
        position of the graph of each node, and the number of graphs."""
        parts: list[list[Tensor]] = [[] for _ in rows]
        greatest: list[Tensor] | None = None
        of_virtual_node: Tensor | None = None
        for number, (layer, blocks) in enumerate(zip(self.layers, layers)):
            if self.has_jumping_knowledge:
                for of_type, x in zip(parts, rows):
                    of_type.append(x)
            if graphs is not None and number > 0 and len(self.virtual_nodes) > 0:
                sums = global_add_pool(rows[0], *graphs)
                of_virtual_node = self.virtual_nodes[number - 1](sums if of_virtual_node is None else of_virtual_node + sums)
                rows = [rows[0] + of_virtual_node[graphs[0]]]
            norms = self.norms_before[number]
            normalized = [norm(x) for norm, x in zip(norms, rows)] if len(norms) > 0 else rows
            is_result = self.has_result_layer and number == len(self.layers) - 1
            rows = list(rows)
            for t, x in layer(normalized, blocks).items():
                if len(self.norms_after[number]) > 0:
                    norm = self.norms_after[number][t]
                    x = norm(x, *graphs) if graphs is not None and isinstance(norm, GraphNorm) else norm(x)
                if not is_result:
                    x = F.dropout(self.activation(x), self.dropout, self.training)
                x = rows[t][: len(x)] + x if self.residuals[number] else x
                parts_of_layer = self.feed_forward[number]
                rows[t] = parts_of_layer[str(t)](x) if str(t) in parts_of_layer else x
            if self.takes_greatest:
                before = greatest or rows
                greatest = [torch.maximum(one[: len(x)], x) for one, x in zip(before, rows)]
        for of_type, x in zip(parts, greatest or rows):
            of_type.append(x)
        return parts

    def outputs_of(self, target: str, outputs: Mapping[str, Tensor] | Tensor) -> Tensor:
        """Return the outputs for one target of a model of ``train multi``.

        Parameters
        ----------
        target : str
            The name of the target, such as ``"user:churn"``.
        outputs : dict of str to Tensor, or Tensor
            The outputs of the model.

        Returns
        -------
        Tensor
            The outputs for the nodes of the target's type.

        Raises
        ------
        ValueError
            If the model does not have the target.
        """
        first = [0] * len(self.node_types)
        for entry in self.targets or []:
            node_type, width = entry["node_type"], entry["num_outputs"]
            if entry["name"] == target:
                of_type = outputs if isinstance(outputs, Tensor) else outputs[self.node_types[node_type]]
                return of_type[:, first[node_type] : first[node_type] + width]
            first[node_type] += width
        names = ", ".join(entry["name"] for entry in self.targets or [])
        raise ValueError(f"the model has no target {target}: its targets are {names or 'not named'}")

    def _outputs(self, rows: list[Tensor], layers: list[list[Block]]) -> list[Tensor]:
        """Return the outputs of all nodes by node type."""
        outputs = []
        for number, parts in enumerate(self._parts(rows, layers)):
            x = torch.cat([part[: len(parts[-1])] for part in parts], dim=1)
            outputs.append(self.outputs[str(number)](x) if str(number) in self.outputs else x)
        return outputs

    def _encoded(self, number: int, x: Mapping[str, Tensor], n_id: Mapping[str, Tensor]) -> Tensor:
        """Return the first rows of a node type's nodes."""
        name = self.node_types[number]
        columns = []
        if self.feature_dims[number] > 0:
            if name not in x:
                raise ValueError(f"the features of node type {name} are missing in `x`")
            columns.append(normalized_rows(x[name]) if self.normalize_features else x[name])
        if str(number) in self.embeddings:
            table = self.embeddings[str(number)]
            if name in n_id and n_id[name].is_floating_point():
                raise ValueError(f"`n_id` of node type {name} has {n_id[name].dtype}, but ids are whole numbers")
            columns.append(table(n_id[name].long()) if name in n_id else table.weight)
        is_encoded = str(number) in self.encoders
        if str(number) in self.projections:
            features, embeddings = columns
            features = self.projections[str(number)](F.dropout(features, self.input_dropout, self.training)) + embeddings
        else:
            features = columns[0] if len(columns) == 1 else torch.cat(columns, dim=1)
            if is_encoded or not self.has_encoders:
                features = F.dropout(features, self.input_dropout, self.training)
        if not self.has_encoders:
            return features
        if not is_encoded:
            return F.dropout(features, self.dropout, self.training)
        rows = self.encoders[str(number)](features)
        if len(self.layers) == 0 and len(self.outputs) == 0:
            return rows
        return F.dropout(F.relu(rows), self.dropout, self.training)

    def _encoded_features(self, x: Tensor) -> list[Tensor]:
        """Return the first rows of the nodes of the only type."""
        return [self._encoded(0, {self.node_types[0]: x}, {})]

    def named_tensors(self, before: str = "") -> NamedTensors:
        """Return the tensors of the model by their names in a file. They share memory with the parameters."""
        for number, encoder in self.encoders.items():
            yield from tensors_of(encoder, f"{before}encoders.{number}.")
        for number, projection in self.projections.items():
            yield from tensors_of(projection, f"{before}projections.{number}.")
        of_all_layers = 0
        for number, layer in enumerate(self.layers):
            for t, norm in enumerate([*self.norms_before[number], *self.norms_after[number]]):
                name = f"layers.{number}.norms.{t}" if self.has_encoders else f"norms.{of_all_layers}"
                of_all_layers += 1
                yield from tensors_of(norm, f"{before}{name}.")
            yield from layer.named_tensors(f"{before}layers.{number}.")
            for t, part in self.feed_forward[number].items():
                yield from tensors_of(part, f"{before}layers.{number}.feed_forward.{t}.")
        if self.times is not None:
            yield from self.times.named_tensors(f"{before}times.")
        for number, mlp in enumerate(self.virtual_nodes):
            yield from tensors_of_mlp(mlp, f"{before}virtual_nodes.{number}.mlp.")
        for number, output in self.outputs.items():
            yield from tensors_of(output, f"{before}outputs.{number}." if self.pool is None else f"{before}output.")

    def classified(self, store: Store) -> str:
        """Return the type or the label of a store whose classes the model predicts."""
        # The only types of two graphs belong together whatever their names are.
        output, = self.config["outputs"]
        node_type = store.node_types[0].name if self.is_homogeneous else self.node_types[output["node_type"]]
        # The file names the label of a type that has several.
        labels: list[str] = json.loads(self.trained_on or "{}").get("labels", [])
        return f"{node_type}:{labels[0].partition(':')[2]}".rstrip(":") if labels else node_type

    def label_of(self, target: dict[str, Any], store: Store) -> str:
        """Return the name in a store of a target of ``train multi``, which names its label if its node type has several."""
        own_type = self.node_types[target["node_type"]]
        node_type = store.node_types[0].name if self.is_homogeneous else own_type
        return node_type + target["name"].removeprefix(own_type)

    def named_embeddings(self) -> NamedTensors:
        """Return the embeddings by their names in a file."""
        for number, table in self.embeddings.items():
            yield f"{PREFIX}{self.node_types[int(number)]}", table.weight.detach()


class ConvStack(Network):
    """A network for nodes of a homogeneous graph without encoders, as ``train node`` trains it.

    See :class:`Network` for parameters and attributes.
    """

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        num_sampled_nodes_per_hop: list[int] | None = None,
        num_sampled_edges_per_hop: list[int] | None = None,
        *,
        edge_attr: Tensor | None = None,
        edge_weight: Tensor | None = None,
        edge_age: Tensor | None = None,
    ) -> Tensor:
        """Return the logits of all nodes.

        With the numbers of nodes and edges by hop, ``batch.num_sampled_nodes`` and ``batch.num_sampled_edges``, each layer
        computes only the nodes that the later layers need, and the result has the logits of the input nodes. A model that
        reads features, weights or times of edges needs ``edge_attr``, ``edge_weight``, or ``edge_age``, the time from each
        edge to the seed of its neighborhood.
        """
        sampled = edge_index
        edge_index, values = self._edges(0, edge_index, edge_attr, edge_weight, edge_age)
        if num_sampled_nodes_per_hop is None or num_sampled_edges_per_hop is None:
            blocks = [Block(edge_index, len(x), len(x), **values)] * len(self.layers)
        elif len(num_sampled_edges_per_hop) != len(self.layers):
            hops = len(num_sampled_edges_per_hop)
            raise ValueError(f"the batch has {hops} hops, but the model has {len(self.layers)} layers")
        else:
            check_hops(sampled, num_sampled_edges_per_hop)
            blocks = blocks_of(edge_index, num_sampled_nodes_per_hop, num_sampled_edges_per_hop, **values)
        return self._outputs(self._encoded_features(x), [[block] for block in blocks])[0]


class RelationalNet(Network):
    """A network over typed edges, with an encoder per node type, as ``train node`` and ``train link`` train it for
    heterogeneous graphs and with ``--encoder-decoder``.

    See :class:`Network` for parameters and attributes.
    """

    ENTRY = "encoders"

    def forward(
        self, x: Any, edge_index: Any, n_id: Any = None, *, edge_attr: Any = None, edge_weight: Any = None, edge_age: Any = None
    ) -> Any:
        """Return the output of each node: logits of the node types with an output layer, and rows of the last layer of
        the others.

        Parameters
        ----------
        x : dict of str to Tensor, or Tensor
            The features by node type, ``batch.x_dict``. For a homogeneous graph ``batch.x``, and so for the others.
        edge_index : dict of tuple to Tensor, or Tensor
            The edges by edge type, ``batch.edge_index_dict``, with all edge types of the model.
        n_id : dict of str to Tensor, or Tensor; optional
            The ids of the nodes, ``batch.n_id_dict``, for node types with embeddings: their row numbers in the data of
            the training. The default is all nodes, in the order of these.
        edge_attr, edge_weight, edge_age : dict of tuple to Tensor, or Tensor; optional
            The features of edges, their weights, and the time from each edge to the seed of its neighborhood, by edge type,
            for a model that reads them.

        Returns
        -------
        dict of str to Tensor, or Tensor
            The outputs by node type.
        """
        values = (edge_attr, edge_weight, edge_age)
        if not self.is_homogeneous:
            return self._forward(x, edge_index, n_id, *(of_edges or {} for of_edges in values))
        name = self.node_types[0]
        features = {} if x is None else {name: x}
        ids = None if n_id is None else {name: n_id}
        of_type = ({} if of_edges is None else {self.edge_types[0]: of_edges} for of_edges in values)
        return self._forward(features, {self.edge_types[0]: edge_index}, ids, *of_type)[name]

    def _forward(
        self,
        x: Mapping[str, Tensor],
        edge_index: Mapping[EdgeType, Tensor],
        n_id: Mapping[str, Tensor] | None,
        *values: Mapping[EdgeType, Tensor],
    ) -> dict[str, Tensor]:
        for name in edge_index:
            if name not in self.edge_types:
                raise ValueError(f"`edge_index`: the model has no edge type {name!r}, only {self.edge_types}")
        self._check_ids(x, edge_index, n_id)
        rows = [self._encoded(number, x, n_id or {}) for number in range(len(self.node_types))]
        sizes = dict(zip(self.node_types, map(len, rows)))
        blocks: list[Block] = []
        for number, name in enumerate(self.edge_types):
            if name not in edge_index:
                raise ValueError(f"`edge_index` lacks the edge type {name!r} of the model: pass an array without edges if there are none")
            edges, of_type = self._edges(number, edge_index[name], *(of_edges.get(name) for of_edges in values))
            blocks.append(Block(edges, sizes[name[0]], sizes[name[2]], **of_type))
        return dict(zip(self.node_types, self._outputs(rows, [blocks] * len(self.layers))))

    def _check_ids(self, x: Mapping[str, Tensor], edge_index: Mapping[EdgeType, Tensor], n_id: Mapping[str, Tensor] | None) -> None:
        """Check that the nodes of each type with embeddings have ids, or are all nodes. In a batch without ids, the model would
        read the embeddings of the first nodes."""
        for number, table in self.embeddings.items():
            name = self.node_types[int(number)]
            if n_id is not None and name in n_id:
                continue
            remedy = f"pass the ids of the nodes, such as `batch.n_id_dict`, or `torch.arange({len(table.weight)})` for all nodes"
            if n_id is not None:
                raise ValueError(f"`n_id` lacks the node type {name}, which has embeddings: {remedy}")
            numbers = [edges[row] for key, edges in edge_index.items() for row, end in ((0, key[0]), (1, key[2])) if end == name]
            nodes = len(x[name]) if name in x else max((int(ends.max()) + 1 for ends in numbers if len(ends) > 0), default=0)
            if nodes != len(table.weight):
                raise ValueError(
                    f"`n_id` is missing, and there are {nodes} nodes of type {name}, which has embeddings of {len(table.weight)}: {remedy}"
                )


class GraphNet(Network):
    """A network for whole graphs, as ``train graph`` trains it.

    See :class:`Network` for parameters and attributes.
    """

    ENTRY = "pooling"
    READS_STORE = False

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        batch: Tensor,
        batch_size: int | None = None,
        *,
        edge_attr: Tensor | None = None,
    ) -> Tensor:
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
        edge_attr : Tensor, optional
            The features of the edges, for a model that reads them.
        """
        block = Block(edge_index, len(x), len(x), **self._values(0, edge_index.size(1), edge_attr, None, None))
        parts, = self._parts(self._encoded_features(x), [[block]] * len(self.layers), (batch, batch_size))
        pooled = torch.cat([self.pool(part, batch, batch_size) for part in parts], dim=1)
        return self.outputs["0"](F.dropout(pooled, self.pooled_dropout, self.training))

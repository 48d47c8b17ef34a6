"""Models for pairs of nodes: scores of possible edges, and outputs of edges."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ..store import Store
from .convs import NamedTensors, tensors_of
from .model import Model
from .network import RelationalNet
from .settings import Settings

__all__ = ["EdgeModel", "LinkModel", "PairModel"]


class PairModel(Model):
    """An encoder of nodes and a decoder of their pairs."""

    # The name for errors.
    WHAT: ClassVar[str]

    def __init__(
        self,
        config: dict[str, Any],
        num_nodes: Mapping[str, int] | None = None,
        pyg_layers: list[dict[str, Any]] | None = None,
    ) -> None:
        super().__init__(config, pyg_layers)
        settings = Settings(config, self.WHAT)
        self.encoder = RelationalNet(settings["encoder"], num_nodes, pyg_layers)
        self._make_decoder(settings)
        settings.finish()

    def _make_decoder(self, settings: Settings) -> None:
        raise NotImplementedError

    def graph(self) -> dict[str, Any]:
        """Return the types of nodes and edges in the settings."""
        return self.encoder.graph()

    @property
    def trained_on(self) -> str | None:
        """The description of the training's data in the file. The encoder reads it."""
        return self.encoder.trained_on

    @trained_on.setter
    def trained_on(self, described: str | None) -> None:
        self.encoder.trained_on = described

    def encode(self, x: Any, edge_index: Any, n_id: Any = None, **values: Any) -> Any:
        """Return the rows of the nodes. The arguments are those of :meth:`RelationalNet.forward`."""
        return self.encoder(x, edge_index, n_id, **values)

    def _ends(self, rows: Any, edge_label_index: Tensor, edge_type: int) -> tuple[Tensor, Tensor]:
        """Return the rows of the sources and of the destinations of some edges."""
        src, dst = rows, rows
        if not self.encoder.is_homogeneous:
            src_type, _, dst_type = self.encoder.edge_types[edge_type]
            src, dst = rows[src_type], rows[dst_type]
        return src[edge_label_index[0]], dst[edge_label_index[1]]

    def named_embeddings(self) -> NamedTensors:
        """Return the embeddings by their names in a file."""
        yield from self.encoder.named_embeddings()


class LinkModel(PairModel):
    """An encoder of nodes and a decoder of their pairs, as ``train link`` trains it.

    Parameters
    ----------
    config : dict
        The settings, as the file of a model stores them: ``encoder``, the settings of a :class:`RelationalNet` without
        outputs, and ``decoder``, the name of a decoder of ``train link`` or a dict with the name and its settings, such as
        ``{"transe": {"margin": 12.0, "norm": 1}}``.
    num_nodes : dict of str to int, optional
        The number of nodes of each node type without features.
    pyg_layers : list of dict, optional
        The layers of the encoder, see :class:`RelationalNet`.

    Attributes
    ----------
    encoder : RelationalNet
        The encoder.
    relations : torch.nn.Parameter or None
        The values of the decoder for each edge type, with the shape [edge types, values]: vectors of DistMult, ComplEx and
        TransE, angles of RotatE, matrices of the bilinear decoder, or biases of the MLP.
    source, destination, product, output : torch.nn.Parameter
        The weights of the MLP; other decoders do not have them.
    config : dict
        The settings.
    """

    WHAT = "model for links"
    ENTRY = "decoder"

    def _make_decoder(self, settings: Settings) -> None:
        self.decoder, self.decoder_settings = _decoder(settings["decoder"])
        edge_types, channels = len(self.encoder.edge_types), self.encoder.config["hidden_channels"]
        self.relations = None
        width = _DECODERS[self.decoder].width(channels)
        if width > 0:
            self.relations = torch.nn.Parameter(torch.empty(edge_types, width).uniform_(0, 2))
        if self.decoder == "mlp":
            for name, columns in _MLP:
                weight = torch.empty(channels, columns or channels)
                self.register_parameter(name, torch.nn.Parameter(torch.nn.init.xavier_uniform_(weight)))

    def decode(self, src: Tensor, dst: Tensor, edge_type: int = 0) -> Tensor:
        """Return the score of each pair, whose sigmoid is the probability of an edge.

        Parameters
        ----------
        src, dst : Tensor
            The rows of the sources and of the destinations, with the shape [pairs, channels].
        edge_type : int, default 0
            The number of the edge type.
        """
        relation = None if self.relations is None else self.relations[edge_type]
        return _DECODERS[self.decoder].score(self, src, relation, dst)

    def forward(
        self, x: Any, edge_index: Any, edge_label_index: Tensor, edge_type: int = 0, n_id: Any = None, **values: Any
    ) -> Tensor:
        """Return the scores of the edges ``edge_label_index`` of one edge type. See :meth:`encode` for ``x``,
        ``edge_index``, ``n_id`` and the values of edges."""
        rows = self.encode(x, edge_index, n_id, **values)
        return self.decode(*self._ends(rows, edge_label_index, edge_type), edge_type)

    def named_tensors(self) -> NamedTensors:
        """Return the tensors of the model by their names in a file. They share memory with the parameters."""
        yield from self.encoder.named_tensors("encoder.")
        if self.relations is not None:
            yield "decoder.relations", self.relations.detach().T
        if self.decoder == "mlp":
            for name, _ in _MLP:
                yield f"decoder.{name}", getattr(self, name).detach().T


class EdgeModel(PairModel):
    """An encoder of nodes and a decoder of edges between them, as ``train edge`` trains it.

    Parameters
    ----------
    config : dict
        The settings, as the file of a model stores them: ``encoder``, the settings of a :class:`RelationalNet` without
        outputs, ``edge_type``, ``edge_decoder``, ``edge_feature_dim``, ``num_outputs``, ``target_edges`` and
        ``reverse_types``.
    num_nodes : dict of str to int, optional
        The number of nodes of each node type without features.
    pyg_layers : list of dict, optional
        The layers of the encoder, see :class:`RelationalNet`.

    Attributes
    ----------
    encoder : RelationalNet
        The encoder.
    decoder : torch.nn.ModuleDict
        The layers of the decoder by their names in a file.
    edge_type : int
        The position of the type of the edges among those of the encoder.
    decision : Decision or None
        As for :class:`RelationalNet`.
    trained_on : str or None
        As for :class:`RelationalNet`.
    config : dict
        The settings.
    """

    WHAT = "model for edges"
    ENTRY = "edge_decoder"
    CLASSES_OF = "edge_types"

    def _make_decoder(self, settings: Settings) -> None:
        self.edge_type: int = settings["edge_type"]
        self.feature_dim: int = settings["edge_feature_dim"]
        self.kind = settings.choice("edge_decoder", ("mlp", "dot", "bilinear"))
        outputs = settings.positive("num_outputs")
        # They choose the messages, which the program has chosen by the edges that it passes.
        settings["target_edges"], settings["reverse_types"]
        channels = self.encoder.config["hidden_channels"]
        self.decoder = torch.nn.ModuleDict()
        if self.kind == "mlp":
            self.decoder["hidden"] = torch.nn.Linear(3 * channels + self.feature_dim, channels)
            self.decoder["output"] = torch.nn.Linear(channels, outputs)
        elif self.kind == "dot":
            self.decoder["output"] = torch.nn.Linear(channels + self.feature_dim, outputs)
        else:
            # The matrices of all outputs, one below the other.
            self.decoder["pairs"] = torch.nn.Linear(channels, outputs * channels, bias=False)
            self.bias = torch.nn.Parameter(torch.zeros(outputs))
            if self.feature_dim > 0:
                self.decoder["features"] = torch.nn.Linear(self.feature_dim, outputs)

    def classified(self, store: Store) -> str:
        """Return the edge type of a store whose classes the model predicts."""
        # The only types of two graphs belong together whatever their names are.
        network = self.encoder
        return "__".join(store.edge_types[0].name if network.is_homogeneous else network.edge_types[self.edge_type])

    def decode(self, src: Tensor, dst: Tensor, edge_label_attr: Tensor | None = None) -> Tensor:
        """Return the outputs of each edge, with the shape [edges, outputs].

        Parameters
        ----------
        src, dst : Tensor
            The rows of the sources and of the destinations, with the shape [edges, channels].
        edge_label_attr : Tensor, optional
            The features of the edges themselves, for a model that reads them.
        """
        features = []
        if self.feature_dim > 0:
            shape = None if edge_label_attr is None else tuple(edge_label_attr.shape)
            if shape != (len(src), self.feature_dim):
                expected = [len(src), self.feature_dim]
                raise ValueError(f"the model reads the features of the edges: `edge_label_attr` must have the shape {expected}, not {shape}")
            features.append(edge_label_attr)
        if self.kind == "bilinear":
            queries = self.decoder["pairs"](src).unflatten(1, (len(self.bias), -1))
            output = (queries * dst.unsqueeze(1)).sum(dim=2) + self.bias
            return output + self.decoder["features"](*features) if features else output
        both = [src * dst, *features]
        if self.kind == "dot":
            return self.decoder["output"](torch.cat(both, dim=1))
        hidden = torch.relu(self.decoder["hidden"](torch.cat([src, dst, *both], dim=1)))
        return self.decoder["output"](F.dropout(hidden, self.encoder.dropout, self.training))

    def forward(
        self,
        x: Any,
        edge_index: Any,
        edge_label_index: Tensor,
        n_id: Any = None,
        *,
        edge_label_attr: Tensor | None = None,
        **values: Any,
    ) -> Tensor:
        """Return the outputs of the edges ``edge_label_index``, whose features are ``edge_label_attr``.

        See :meth:`encode` for the other arguments. A model of ``--target-edges exclude`` was trained on messages over other
        edges only, as a ``LinkNeighborLoader`` with ``exclude_seed_edges=True`` samples them.
        """
        rows = self.encode(x, edge_index, n_id, **values)
        return self.decode(*self._ends(rows, edge_label_index, self.edge_type), edge_label_attr)

    def named_tensors(self) -> NamedTensors:
        """Return the tensors of the model by their names in a file. They share memory with the parameters."""
        yield from self.encoder.named_tensors("encoder.")
        for name, layer in self.decoder.items():
            if name == "pairs":
                yield "decoder.weight", layer.weight.detach()
                yield "decoder.bias", self.bias.detach()
            else:
                yield from tensors_of(layer, f"decoder.{name}.")


# The weights of the MLP, and their columns if these are not the channels.
_MLP = [("source", None), ("destination", None), ("product", None), ("output", 1)]

def _dot(model: LinkModel, src: Tensor, relation: Tensor | None, dst: Tensor) -> Tensor:
    return (src * dst).sum(dim=-1)


def _distmult(model: LinkModel, src: Tensor, relation: Tensor, dst: Tensor) -> Tensor:
    return (src * relation * dst).sum(dim=-1)


def _as_complex(rows: Tensor) -> Tensor:
    """Return rows as complex numbers: the first half are the real parts, the second half the imaginary parts."""
    real, imaginary = rows.chunk(2, dim=-1)
    return torch.complex(real, imaginary)


def _complex(model: LinkModel, src: Tensor, relation: Tensor, dst: Tensor) -> Tensor:
    return (_as_complex(src) * _as_complex(relation) * _as_complex(dst).conj()).sum(dim=-1).real


def _bilinear(model: LinkModel, src: Tensor, relation: Tensor, dst: Tensor) -> Tensor:
    channels = src.shape[-1]
    return ((src @ relation.reshape(channels, channels)) * dst).sum(dim=-1)


def _transe(model: LinkModel, src: Tensor, relation: Tensor, dst: Tensor) -> Tensor:
    settings = model.decoder_settings
    return settings["margin"] - torch.linalg.vector_norm(src + relation - dst, ord=settings["norm"], dim=-1)


def _rotate(model: LinkModel, src: Tensor, relation: Tensor, dst: Tensor) -> Tensor:
    rotation = torch.polar(torch.ones_like(relation), relation)
    return model.decoder_settings["margin"] - (_as_complex(src) * rotation - _as_complex(dst)).abs().sum(dim=-1)


def _mlp(model: LinkModel, src: Tensor, relation: Tensor, dst: Tensor) -> Tensor:
    hidden = src @ model.source + dst @ model.destination + (src * dst) @ model.product + relation
    return (torch.relu(hidden) @ model.output).squeeze(-1)


class _Decoder(NamedTuple):
    """A decoder: its score, the number of values of a relation by the number of channels, and the defaults of its settings."""

    score: Callable[[LinkModel, Tensor, Any, Tensor], Tensor]
    width: Callable[[int], int] = int
    settings: Mapping[str, float] = {}


_DECODERS = {
    "dot": _Decoder(_dot, lambda channels: 0),
    "distmult": _Decoder(_distmult),
    "complex": _Decoder(_complex),
    "bilinear": _Decoder(_bilinear, lambda channels: channels * channels),
    "transe": _Decoder(_transe, settings={"margin": 12.0, "norm": 1}),
    "rotate": _Decoder(_rotate, lambda channels: channels // 2, {"margin": 12.0}),
    "mlp": _Decoder(_mlp),
}


def _decoder(given: Any) -> tuple[str, dict[str, float]]:
    """Return the name and the settings of a decoder."""
    name, settings = next(iter(given.items())) if isinstance(given, dict) and len(given) == 1 else (given, {})
    if not isinstance(name, str) or name not in _DECODERS or not set(settings) <= set(_DECODERS[name].settings):
        known = ", ".join(map(repr, _DECODERS))
        raise ValueError(f"`decoder` of a model for links is {given!r}: choose from {known}")
    return name, {**_DECODERS[name].settings, **settings}

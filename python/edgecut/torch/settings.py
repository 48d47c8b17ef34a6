"""The settings of a model, as its file stores them."""

from __future__ import annotations

from typing import Any

from torch import Tensor

__all__ = ["Settings", "current", "normalized_rows"]


class Settings:
    """The entries of a model's configuration. Every entry must be read.

    Parameters
    ----------
    config : dict
        The entries.
    what : str
        The name of the model, for errors.
    """

    def __init__(self, config: dict[str, Any], what: str) -> None:
        self._config = config
        self._what = what
        self._unread = set(config)

    def __getitem__(self, name: str) -> Any:
        if name not in self._config:
            raise ValueError(f"the configuration of a {self._what} has no entry `{name}`")
        self._unread.discard(name)
        return self._config[name]

    def get(self, name: str, default: Any) -> Any:
        """Return an entry that older files lack."""
        return self[name] if name in self._config else default

    def positive(self, name: str) -> int:
        """Return an entry that is a whole number from 1."""
        value = self[name]
        if not isinstance(value, int) or value < 1:
            raise ValueError(f"`{name}` of a {self._what} is {value!r}, but must be a whole number from 1")
        return value

    def probability(self, name: str) -> float:
        """Return an entry that is a probability of dropout."""
        value = self[name]
        if not isinstance(value, (int, float)) or not 0 <= value < 1:
            raise ValueError(f"`{name}` of a {self._what} is {value!r}, but must be at least 0 and less than 1")
        return float(value)

    def choice(self, name: str, choices: tuple[str, ...], default: str | None = None) -> str:
        """Return an entry that is one of the words. Files lack an entry with its default."""
        value = self[name] if default is None else self.get(name, default)
        if value not in choices:
            raise ValueError(f"`{name}` of a {self._what} is {value!r}: choose from {', '.join(choices)}")
        return value

    def kind(self, name: str) -> tuple[str, dict[str, Any]]:
        """Return an entry that is a kind of layers: its name and its own entries."""
        value = self[name]
        if isinstance(value, str):
            return value, {}
        if isinstance(value, dict) and len(value) == 1:
            (kind, entries), = value.items()
            if isinstance(entries, dict):
                return kind, entries
        raise ValueError(f"`{name}` of a {self._what} is {value!r}, which is not a kind of layers")

    def finish(self) -> None:
        """Check that no entry is unknown."""
        if self._unread:
            raise ValueError(f"the configuration of a {self._what} has the unknown entry `{min(self._unread)}`")


def current(config: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a network in their current form.

    In earlier versions, a network without encoders had ``in_channels`` and ``num_classes`` in place of ``graph``,
    ``outputs`` and ``encoders``. A network for whole graphs also had ``conv`` in place of ``kind``, and its dropout was on
    the pooled rows.
    """
    if "graph" in config:
        return config
    config = dict(config)
    nodes = {"name": "node", "feature_dim": config.pop("in_channels")}
    edges = {"src": 0, "relation": "edge", "dst": 0}
    form = {
        "graph": {"node_types": [nodes], "edge_types": [edges]},
        "encoders": False,
        "outputs": [{"node_type": 0, "channels": config.pop("num_classes")}],
        "relation_aggregation": "sum",
    }
    if "conv" in config:
        form["kind"] = config.pop("conv")
        form["pooling"] = {"aggregation": config.pop("pooling"), "dropout": config.pop("dropout")}
        form |= {"dropout": 0.0, "input_dropout": 0.0, "normalize_features": False}
    return {"residual": False, "layer_norm": False, **config, **form}


def normalized_rows(x: Tensor) -> Tensor:
    """Return the rows of ``x`` divided by their sums, or by 1 if the sum is less, as ``--normalize-features`` does."""
    return x / x.sum(dim=-1, keepdim=True).clamp(min=1.0)

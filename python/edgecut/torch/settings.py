"""The settings of a model, as its file stores them."""

from __future__ import annotations

from typing import Any

from torch import Tensor

__all__ = ["Settings", "normalized_rows"]


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


def normalized_rows(x: Tensor) -> Tensor:
    """Return the rows of ``x`` divided by their sums, or by 1 if the sum is less, as ``--normalize-features`` does."""
    return x / x.sum(dim=-1, keepdim=True).clamp(min=1.0)

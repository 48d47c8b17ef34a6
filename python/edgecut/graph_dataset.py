"""Sets of small graphs."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import distributed
from ._edgecut import GraphSet
from .arguments import array, checked
from .membership import Membership

__all__ = ["GraphDataset", "fake_graphs", "open_graphs"]


class GraphDataset(Membership):
    """A set of small graphs, each with a class. :func:`open_graphs` and :func:`fake_graphs` create it.

    The processes of a machine hold one copy of it in memory.

    Attributes
    ----------
    name : str
        The name of the set.
    num_features : int
        The number of features per node, 0 for none.
    num_edge_features : int
        The number of features per edge, 0 for none.
    num_nodes, num_edges : int
        The numbers over all graphs. Each direction counts as an edge.
    classes : array of int64, [num_classes]
        The label of each class in the files, ascending.
    y : array of int64, [num_graphs]; or of float32, [num_graphs, T]
        The class of each graph; or its numbers to predict, if the set has these and no classes.
    """

    def __init__(self, graphs: GraphSet, reopen: Callable[[], GraphDataset]) -> None:
        super().__init__(graphs, reopen)
        self._set = graphs
        self.name = graphs.name
        self.num_features = graphs.num_features
        self.num_edge_features = graphs.num_edge_features
        self.num_nodes = graphs.num_nodes
        self.num_edges = graphs.num_edges
        self.classes = graphs.classes
        targets = graphs.targets
        self.y = graphs.labels if targets is None else targets

    @property
    def num_classes(self) -> int:
        """The number of classes."""
        return len(self.classes)

    def __len__(self) -> int:
        """Return the number of graphs."""
        return len(self.y)

    @checked
    def split(
        self, fractions: Sequence[float] = (0.8, 0.1, 0.1), *, seed: int = 0
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Split the graphs at random, as ``train graph --split`` does.

        Parameters
        ----------
        fractions : three float
            The shares of training, validation and test graphs. Their sum is 1.
        seed : int, default 0
            The seed of the choice.

        Returns
        -------
        tuple of three arrays of int64
            The numbers of the graphs, ascending, for the argument ``graphs`` of :class:`edgecut.GraphDataLoader`.

        Raises
        ------
        ValueError
            If the fractions are not three shares of 1.

        Examples
        --------
        >>> import edgecut
        >>> train, valid, test = edgecut.fake_graphs(num_graphs=50).split(seed=7)
        >>> len(train), len(valid), len(test)
        (40, 5, 5)
        """
        shares = array(fractions, "fractions")
        if shares.shape != (3,) or not np.issubdtype(shares.dtype, np.number):
            raise ValueError(f"`fractions` is {fractions!r}: give three numbers, those of training, validation and test")
        train, valid, test = self._set.split(tuple(shares.tolist()), seed)
        return train, valid, test

    @checked
    def folds(self, num_folds: int = 10, *, seed: int = 0) -> list[tuple[np.ndarray, np.ndarray]]:
        """Split the graphs into folds of a cross-validation, with each class spread evenly over them.

        Parameters
        ----------
        num_folds : int, default 10
            The number of folds.
        seed : int, default 0
            The seed of the choice.

        Returns
        -------
        list of pairs of arrays of int64
            The training graphs and the test graphs of each fold.

        Raises
        ------
        ValueError
            If there are fewer than 2 folds, or more than graphs.

        Examples
        --------
        >>> import edgecut
        >>> [len(test) for train, test in edgecut.fake_graphs(num_graphs=50).folds(5)]
        [10, 10, 10, 10, 10]
        """
        return self._set.folds(num_folds, seed)

    def _identity(self) -> str:
        return f"{self._set.fingerprint:016x}"

    def __repr__(self) -> str:
        return f"GraphDataset({self.name!r}, num_graphs={len(self)}, num_nodes={self.num_nodes}, num_edges={self.num_edges})"


@checked
def open_graphs(
    path: str | os.PathLike[str],
    *,
    degrees_as_features: bool = True,
    encrypt: bool = False,
    check_traffic: bool = False,
) -> GraphDataset:
    """Open a set of small graphs in the text files of TUDataset.

    After :func:`edgecut.distributed.init` every process of the job must call this. The processes of a machine share one
    copy of the graphs, which the first of them reads.

    Parameters
    ----------
    path : path
        The folder, with the name of the set: ``NAME`` contains ``NAME_A.txt``, or ``raw/NAME_A.txt`` as in PyG.
    degrees_as_features : bool, default True
        Use one-hot in-degrees as features of nodes that have neither attributes nor labels.
    encrypt, check_traffic : bool, default False
        The protection of all connections between the processes of the job, as for :func:`edgecut.open`.

    Returns
    -------
    GraphDataset

    Raises
    ------
    ValueError
        If there is no such folder.
    EdgecutError
        If a file is missing or wrong, or the other processes do not join in time.

    Examples
    --------
    >>> dataset = edgecut.open_graphs("data/tu/MUTAG")    # doctest: +SKIP
    """
    protection: dict[str, Any] = {"encrypt": encrypt, "check_traffic": check_traffic}
    reopen = functools.partial(open_graphs, os.path.abspath(path), degrees_as_features=degrees_as_features, **protection)

    def read(job: dict[str, Any]) -> GraphDataset:
        return GraphDataset(GraphSet.open(os.fspath(path), degrees_as_features, job), reopen)

    return distributed._open_in_job(read, **protection)


@checked
def fake_graphs(
    num_graphs: int = 1000,
    avg_num_nodes: int = 20,
    num_classes: int = 2,
    *,
    seed: int = 0,
    encrypt: bool = False,
    check_traffic: bool = False,
) -> GraphDataset:
    """Generate a set of small graphs, as ``train graph --dataset fake-graphs`` does.

    Graphs of later classes have more edges to hubs. The features of nodes are one-hot in-degrees.

    Parameters
    ----------
    num_graphs : int, default 1000
        The number of graphs.
    avg_num_nodes : int, default 20
        The mean number of nodes per graph.
    num_classes : int, default 2
        The number of classes.
    seed : int, default 0
        The seed of all random choices.
    encrypt, check_traffic : bool, default False
        The protection of all connections between the processes of the job, as for :func:`edgecut.open`.

    Returns
    -------
    GraphDataset

    Raises
    ------
    EdgecutError
        If a number is out of range.

    Examples
    --------
    >>> import edgecut
    >>> len(edgecut.fake_graphs(num_graphs=50))
    50
    """
    settings: dict[str, Any] = {
        "num_graphs": num_graphs,
        "avg_num_nodes": avg_num_nodes,
        "num_classes": num_classes,
        "seed": seed,
    }
    protection: dict[str, Any] = {"encrypt": encrypt, "check_traffic": check_traffic}
    reopen = functools.partial(fake_graphs, **settings, **protection)
    return distributed._open_in_job(lambda job: GraphDataset(GraphSet.generate(settings, job), reopen), **protection)

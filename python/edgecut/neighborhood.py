"""Neighborhoods of a batch as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _edgecut

__all__ = ["Edges", "Neighborhood", "Nodes", "induced", "ranges"]


@dataclass
class Nodes:
    """The nodes of one type, the seeds first.

    ``batch`` has the seed of each node, if neighborhoods are disjoint. ``per_hop`` has the number of nodes that each hop
    added, if it is known.
    """

    ids: np.ndarray
    batch: np.ndarray | None
    per_hop: list[int] | None


@dataclass
class Edges:
    """The edges of one type: the numbers of their ends in the batch, and their positions in the graph."""

    row: np.ndarray
    col: np.ndarray
    positions: np.ndarray
    per_hop: list[int] | None


@dataclass
class Neighborhood:
    """The nodes and edges of a batch, by type."""

    nodes: list[Nodes]
    edges: list[Edges]

    @classmethod
    def sample(
        cls, sampler: _edgecut.Sampler, is_disjoint: bool, seeds: dict[str, Any], ends: list[tuple[int, int]]
    ) -> Neighborhood:
        """Sample the neighborhoods of seeds. `ends` has the node types of sources and destinations, by edge type.

        A seed may occur several times. Without disjoint neighborhoods, its copies get the same neighbors.
        """
        repeated = {} if is_disjoint else _repeated(seeds["nodes"])
        distinct = list(seeds["nodes"])
        for t, (firsts, _) in repeated.items():
            distinct[t] = distinct[t][firsts]
        found = cls._read(sampler.sample({**seeds, "nodes": distinct}), is_disjoint)
        for t, (firsts, numbers) in repeated.items():
            found._repeat_seeds(t, firsts, numbers, ends)
        return found

    @classmethod
    def _read(cls, found: dict[str, Any], is_disjoint: bool) -> Neighborhood:
        nodes = [Nodes(ids, batch if is_disjoint else None, per_hop) for ids, batch, per_hop in found["nodes"]]
        edges = []
        for both_ends, positions, per_hop in found["edges"]:
            num_edges = len(positions)
            edges.append(Edges(both_ends[:num_edges], both_ends[num_edges:], positions, per_hop))
        return cls(nodes, edges)

    def _repeat_seeds(self, node_type: int, firsts: np.ndarray, numbers: np.ndarray, ends: list[tuple[int, int]]) -> None:
        """Give each entry of a list of seeds a node of its own.

        `firsts` has the position in the list of each distinct seed, and `numbers` the number of the distinct seed of each
        entry.
        """
        nodes = self.nodes[node_type]
        num_distinct, num_seeds = len(firsts), len(numbers)
        num_copies = num_seeds - num_distinct
        moved = np.arange(len(nodes.ids)) + num_copies
        moved[:num_distinct] = firsts
        nodes.ids = np.concatenate([nodes.ids[:num_distinct][numbers], nodes.ids[num_distinct:]])
        if nodes.per_hop is not None:
            nodes.per_hop[0] += num_copies
        is_copy = np.ones(num_seeds, bool)
        is_copy[firsts] = False
        copies = np.flatnonzero(is_copy)
        for edges, (src, dst) in zip(self.edges, ends):
            if dst == node_type:
                # The edges into a seed are contiguous, since edges are ordered by destination.
                starts = np.searchsorted(edges.col, numbers[copies])
                counts = np.searchsorted(edges.col, numbers[copies], side="right") - starts
                copied = ranges(starts, counts)
                col = np.concatenate([moved[edges.col], np.repeat(copies, counts)])
                taken = np.concatenate([np.arange(len(edges.col)), copied])
                order = np.argsort(col, kind="stable")
                edges.col, taken = col[order], taken[order]
                edges.row, edges.positions = edges.row[taken], edges.positions[taken]
                if edges.per_hop:
                    edges.per_hop[0] += len(copied)
            if src == node_type:
                edges.row = moved[edges.row]


def induced(
    found: Neighborhood,
    ends: list[tuple[int, int]],
    edges_into: list[tuple[np.ndarray, np.ndarray]],
    excluded: list[dict[str, Any]] | None = None,
) -> Neighborhood:
    """Return the nodes of a neighborhood with all edges between them, or those within each disjoint neighborhood.

    `edges_into` has the first edge of each destination of the graph, and the source of each edge, by edge type. `excluded`
    has the edges to leave out, by edge type, as :meth:`Neighborhood.sample` gets them.
    """
    edges = []
    for number, ((src, dst), (starts, sources)) in enumerate(zip(ends, edges_into)):
        destinations = found.nodes[dst].ids
        counts = starts[destinations + 1] - starts[destinations]
        positions = ranges(starts[destinations], counts)
        col = np.repeat(np.arange(len(destinations)), counts)
        if excluded:
            batch = found.nodes[dst].batch
            of_edges = None if batch is None else batch[col]
            is_kept = ~_is_excluded(sources[positions], destinations[col], of_edges, excluded[number])
            positions, col = positions[is_kept], col[is_kept]
        ids, wanted = found.nodes[src].ids, sources[positions]
        batch, batch_of_edges = found.nodes[src].batch, found.nodes[dst].batch
        if batch is not None and batch_of_edges is not None:
            # The numbers of a node in different neighborhoods differ.
            num_ids = 1 + max(ids.max(initial=0), wanted.max(initial=0))
            ids, wanted = ids + batch * num_ids, wanted + batch_of_edges[col] * num_ids
        order = np.argsort(ids, kind="stable")
        ordered = ids[order]
        at = np.searchsorted(ordered, wanted)
        is_found = at < len(ids)
        is_found[is_found] = ordered[at[is_found]] == wanted[is_found]
        edges.append(Edges(order[at[is_found]], col[is_found], positions[is_found], None))
    nodes = [Nodes(of_type.ids, of_type.batch, None) for of_type in found.nodes]
    return Neighborhood(nodes, edges)


def _is_excluded(src: np.ndarray, dst: np.ndarray, batch: np.ndarray | None, excluded: dict[str, Any]) -> np.ndarray:
    """Return whether each edge is one of the excluded edges, in its neighborhood if these are disjoint."""
    # Few edges lead to the destination of an excluded one.
    is_excluded = np.isin(dst, excluded["dst"])
    at = np.flatnonzero(is_excluded)
    edges, wanted = [src[at], dst[at]], [excluded["src"], excluded["dst"]]
    if batch is not None:
        edges.append(batch[at])
        wanted.append(excluded["batch"])
    distinct, numbers = np.unique(np.concatenate([np.stack(wanted, 1), np.stack(edges, 1)]), axis=0, return_inverse=True)
    is_wanted = np.zeros(len(distinct), bool)
    numbers = numbers.ravel()
    is_wanted[numbers[: len(wanted[0])]] = True
    is_excluded[at] = is_wanted[numbers[len(wanted[0]) :]]
    return is_excluded


def _repeated(seeds: list[np.ndarray]) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    """Return :func:`_firsts` of the types that have a seed twice."""
    return {t: _firsts(ids) for t, ids in enumerate(seeds) if len(np.unique(ids)) < len(ids)}


def _firsts(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first position of each distinct id, ascending, and the number of the distinct id of each position."""
    _, firsts, numbers = np.unique(ids, return_index=True, return_inverse=True)
    order = np.argsort(firsts)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return firsts[order], rank[numbers.ravel()]


def ranges(starts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return the numbers of all ranges, one after the other."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total) + np.repeat(starts - (ends - counts), counts)

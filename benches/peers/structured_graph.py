#!/usr/bin/env python3
"""Writes a graph with a known structure as a folder of arrays, to compare methods of partitioning.

`blocks`: a degree-corrected stochastic block model. Each node belongs to one of CLASSES * SUBBLOCKS communities and has a
weight rank**-ALPHA. An edge picks its first end by weight, and its second inside the same community with probability
P_IN, inside the same class with probability P_CLASS, and otherwise anywhere.
`geometric`: uniform points in a square, joined within a radius.
`rmat`: R-MAT with the parameters of Graph500, which has no communities.

Edges have both directions, no self loops and no duplicates. A tenth of the nodes are for training. Ids are in random order.
"""
import argparse
import os

import numpy as np


def weighted_pick(rng, cumulative, low, high):
    """Draws an index from each range low..high, by the weights with these cumulative sums."""
    base = np.where(low > 0, cumulative[low - 1], 0.0)
    drawn = base + rng.random(len(low)) * (cumulative[high - 1] - base)
    return np.minimum(np.searchsorted(cumulative, drawn, side="right"), high - 1)


def blocks(rng, args):
    num_blocks = args.classes * args.subblocks
    sizes = rng.lognormal(0.0, 0.6, num_blocks)
    bounds = np.concatenate([[0], np.round(np.cumsum(sizes) / sizes.sum() * args.nodes)]).astype(np.int64)
    block = np.repeat(np.arange(num_blocks), np.diff(bounds))
    class_bounds = bounds[:: args.subblocks]
    rank = np.arange(args.nodes) - bounds[block] + 1
    cumulative = np.cumsum(rank.astype(np.float64) ** -args.alpha * rng.lognormal(0.0, 0.5, args.nodes))
    keys = np.empty(0, np.int64)
    while len(keys) < args.edges // 2:
        count = min(4_000_000, int((args.edges // 2 - len(keys)) * 1.15) + 1000)
        u = weighted_pick(rng, cumulative, np.zeros(count, np.int64), np.full(count, args.nodes, np.int64))
        kind = rng.random(count)
        cls = block[u] // args.subblocks
        inside, in_class = kind < args.p_in, kind < args.p_in + args.p_class
        low = np.where(inside, bounds[block[u]], np.where(in_class, class_bounds[cls], 0))
        high = np.where(inside, bounds[block[u] + 1], np.where(in_class, class_bounds[cls + 1], args.nodes))
        keys = np.unique(np.concatenate([keys, pair_keys(u, weighted_pick(rng, cumulative, low, high), args.nodes)]))
    return keys


def geometric(rng, args):
    radius = np.sqrt(args.edges / args.nodes / np.pi / args.nodes)
    side = int(1 / radius)
    x, y = rng.random(args.nodes), rng.random(args.nodes)
    column, row = (x * side).astype(np.int64), (y * side).astype(np.int64)
    order = np.argsort(column * side + row, kind="stable")
    start = np.searchsorted((column * side + row)[order], np.arange(side * side + 1))
    keys = []
    for right, up in ((0, 0), (0, 1), (1, -1), (1, 0), (1, 1)):
        exists = (column + right < side) & (row + up >= 0) & (row + up < side)
        cell = np.where(exists, (column + right) * side + row + up, 0)
        count = np.where(exists, start[cell + 1] - start[cell], 0)
        a = np.repeat(np.arange(args.nodes), count)
        b = order[np.repeat(start[cell], count) + np.arange(len(a)) - np.repeat(np.cumsum(count) - count, count)]
        near = (x[a] - x[b]) ** 2 + (y[a] - y[b]) ** 2 <= radius * radius
        keys.append(pair_keys(a[near], b[near], args.nodes))
    return np.unique(np.concatenate(keys))


def rmat(rng, args):
    count = int(args.edges // 2 * 1.25)
    u, v = np.zeros(count, np.int64), np.zeros(count, np.int64)
    for _ in range((args.nodes - 1).bit_length()):
        drawn = rng.random(count)
        u = u * 2 + (drawn >= 0.76)
        v = v * 2 + (((drawn >= 0.57) & (drawn < 0.76)) | (drawn >= 0.95))
    return np.unique(pair_keys(u, v, args.nodes))


def pair_keys(u, v, num_nodes):
    """One number for each pair of different nodes."""
    u, v = u[u != v], v[u != v]
    return np.minimum(u, v) * num_nodes + np.maximum(u, v)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("structure", choices=["blocks", "geometric", "rmat"])
    parser.add_argument("--out", required=True)
    parser.add_argument("--nodes", type=int, default=600_000, help="for rmat, rounded up to a power of two")
    parser.add_argument("--edges", type=int, default=30_000_000, help="edges in both directions, about")
    parser.add_argument("--classes", type=int, default=47)
    parser.add_argument("--subblocks", type=int, default=4, help="communities per class")
    parser.add_argument("--p-in", type=float, default=0.75)
    parser.add_argument("--p-class", type=float, default=0.10)
    parser.add_argument("--alpha", type=float, default=0.6)
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()
    rng = np.random.default_rng(args.seed)
    if args.structure == "rmat":
        args.nodes = 1 << (args.nodes - 1).bit_length()
    keys = {"blocks": blocks, "geometric": geometric, "rmat": rmat}[args.structure](rng, args)
    keys = keys[np.sort(rng.permutation(len(keys))[: args.edges // 2])]
    ids = rng.permutation(args.nodes)
    u, v = ids[keys // args.nodes], ids[keys % args.nodes]
    both = np.sort(np.concatenate([v * args.nodes + u, u * args.nodes + v]))
    order = rng.permutation(args.nodes)
    os.makedirs(args.out, exist_ok=True)
    arrays = {
        "edge_index": np.stack([both % args.nodes, both // args.nodes]),
        "num_nodes": np.array([args.nodes]),
        "train_idx": np.sort(order[: args.nodes // 10]),
        "val_idx": np.sort(order[args.nodes // 10 : args.nodes // 10 * 3 // 2]),
    }
    for name, values in arrays.items():
        np.save(os.path.join(args.out, name + ".npy"), values)
    print(f"{args.structure}: {args.nodes} nodes, {len(both)} edges in both directions, written to {args.out}")


if __name__ == "__main__":
    main()

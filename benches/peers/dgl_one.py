#!/usr/bin/env python3
"""Runs DGL on one machine, with its classic DataLoader or with GraphBolt: samples, gathers features, or trains.

DGL's samplers expect the fan-out of the input layer first, so the fan-outs are reversed here."""

import argparse
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

import dgl
import dgl.graphbolt as gb
import torch

from measure import Pass, add_batch_flags, peak_rss_mb, report, run_passes, summary
from npy_graph import NpyGraph, read_npy_graph
from sage import Sage, Trainer


class Batch(NamedTuple):
    """The input of a model. `x` and `y` are None if only sampling is measured."""

    blocks: list
    x: torch.Tensor | None
    y: torch.Tensor | None
    num_seeds: int
    num_edges: int
    num_input_nodes: int


class Classic:
    """Batches of `dgl.dataloading.DataLoader`."""

    def __init__(self, args: argparse.Namespace, graph: NpyGraph) -> None:
        self.gather = args.mode != "sample"
        g = dgl.graph(tuple(torch.from_numpy(graph.edge_index)), num_nodes=graph.num_nodes).formats("csc")
        g.create_formats_()
        if self.gather:
            g.ndata["x"], g.ndata["y"] = torch.from_numpy(graph.x), torch.from_numpy(graph.y)
        prefetch = {"prefetch_node_feats": ["x"], "prefetch_labels": ["y"]} if self.gather else {}
        sampler = dgl.dataloading.NeighborSampler(args.num_neighbors[::-1], **prefetch)
        worker = args.overlap == "worker"
        self.loader = dgl.dataloading.DataLoader(
            g,
            torch.from_numpy(graph.train_idx),
            sampler,
            batch_size=args.batch_size,
            shuffle=True,
            drop_last=True,
            num_workers=int(worker),
            persistent_workers=worker,
        )

    def __iter__(self) -> Iterator[Batch]:
        for input_nodes, seeds, blocks in self.loader:
            x = blocks[0].srcdata["x"] if self.gather else None
            y = blocks[-1].dstdata["y"] if self.gather else None
            yield Batch(blocks, x, y, len(seeds), sum(b.num_edges() for b in blocks), len(input_nodes))


class GraphBolt:
    """Batches of `dgl.graphbolt.DataLoader`."""

    def __init__(self, args: argparse.Namespace, graph: NpyGraph) -> None:
        self.gather = args.mode != "sample"
        g = dgl.graph(tuple(torch.from_numpy(graph.edge_index)), num_nodes=graph.num_nodes)
        indptr, indices, _ = g.adj_tensors("csc")
        seeds, labels = torch.from_numpy(graph.train_idx), torch.from_numpy(graph.y)
        items = gb.ItemSet((seeds, labels[seeds]), names=("seed_nodes", "labels"))
        pipe = gb.ItemSampler(items, batch_size=args.batch_size, shuffle=True, drop_last=True)
        pipe = pipe.sample_neighbor(gb.fused_csc_sampling_graph(indptr, indices), args.num_neighbors[::-1])
        if self.gather:
            features = {("node", None, "x"): gb.TorchBasedFeature(torch.from_numpy(graph.x))}
            pipe = pipe.fetch_feature(gb.BasicFeatureStore(features), node_feature_keys=["x"])
        if args.overlap == "thread":
            # GraphBolt runs the stages before a copy to a device ahead, on a thread.
            pipe = pipe.copy_to(torch.device("cpu"))
        worker = args.overlap == "worker"
        self.loader = gb.DataLoader(pipe, num_workers=int(worker), persistent_workers=worker)

    def __iter__(self) -> Iterator[Batch]:
        for batch in self.loader:
            edges = sum(subgraph.sampled_csc.indices.numel() for subgraph in batch.sampled_subgraphs)
            x = batch.node_features["x"] if self.gather else None
            yield Batch(batch.blocks, x, batch.labels, len(batch.seed_nodes), edges, len(batch.input_nodes))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_batch_flags(parser)
    parser.add_argument("--engine", choices=["classic", "graphbolt"], default="classic")
    parser.add_argument(
        "--overlap", choices=["none", "thread", "worker"], default="none", help="what prefetches the batches"
    )
    args = parser.parse_args()
    if args.engine == "classic" and args.overlap == "thread":
        parser.error("--overlap thread: the classic DataLoader prefetches with a thread only for a GPU")
    graph = read_npy_graph(args.data)
    loader = (Classic if args.engine == "classic" else GraphBolt)(args, graph)
    model = Sage(graph.x.shape[1], args.hidden_channels, graph.num_classes, len(args.num_neighbors))
    trainer = Trainer(model)

    def one_pass(this: Pass) -> None:
        for batch in islice(loader, args.num_batches or None):
            this.got_batch(batch.num_seeds, batch.num_edges, batch.num_input_nodes)
            if args.mode == "train":
                trainer.step(batch.blocks, batch.x, batch.y)
                this.did_step()

    passes = run_passes(one_pass, args.passes)
    report(
        f"dgl-{args.engine}",
        mode=args.mode,
        overlap=args.overlap,
        threads=torch.get_num_threads(),
        **summary(passes, args.batch_size),
        peak_rss_mb=peak_rss_mb(),
    )


if __name__ == "__main__":
    main()

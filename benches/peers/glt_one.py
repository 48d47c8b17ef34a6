#!/usr/bin/env python3
"""Runs GraphLearn-for-PyTorch on one machine: samples, gathers features, or trains PyG's GraphSAGE.

GraphLearn samples neighbors with replacement and keeps each sampled edge once, so its batches are smaller."""

import argparse
from itertools import islice

import torch
from torch.nn import functional
from torch_geometric.nn import GraphSAGE

from glt_import import glt
from measure import Pass, add_batch_flags, peak_rss_mb, report, run_passes, summary
from npy_graph import NpyGraph, read_npy_graph


def make_loader(args: argparse.Namespace, graph: NpyGraph) -> "glt.loader.NeighborLoader":
    """Returns a loader in this process."""
    dataset = glt.data.Dataset()
    dataset.init_graph(edge_index=torch.from_numpy(graph.edge_index), graph_mode="CPU", directed=False)
    dataset.init_node_features(node_feature_data=torch.from_numpy(graph.x), with_gpu=False)
    dataset.init_node_labels(node_label_data=torch.from_numpy(graph.y))
    return glt.loader.NeighborLoader(
        dataset,
        args.num_neighbors,
        torch.from_numpy(graph.train_idx),
        batch_size=args.batch_size,
        shuffle=True,
        drop_last=True,
        device=torch.device("cpu"),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_batch_flags(parser)
    args = parser.parse_args()
    graph = read_npy_graph(args.data)
    loader = make_loader(args, graph)
    model = GraphSAGE(graph.x.shape[1], args.hidden_channels, len(args.num_neighbors), graph.num_classes)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)

    def sample_only(this: Pass) -> None:
        # The loader always gathers features, so this mode calls its sampler directly.
        order = torch.randperm(len(graph.train_idx))
        whole_batches = len(order) // args.batch_size
        for batch in order.split(args.batch_size)[: args.num_batches or whole_batches]:
            seeds = torch.from_numpy(graph.train_idx)[batch]
            sampled = loader.sampler.sample_from_nodes(glt.sampler.NodeSamplerInput(node=seeds))
            this.got_batch(len(seeds), sampled.row.numel(), sampled.node.numel())

    def one_pass(this: Pass) -> None:
        for batch in islice(loader, args.num_batches or None):
            this.got_batch(batch.batch_size, batch.edge_index.shape[1], batch.node.numel())
            if args.mode == "train":
                optimizer.zero_grad()
                out = model(batch.x, batch.edge_index)[: batch.batch_size]
                functional.cross_entropy(out, batch.y[: batch.batch_size]).backward()
                optimizer.step()
                this.did_step()

    passes = run_passes(sample_only if args.mode == "sample" else one_pass, args.passes)
    report(
        "glt",
        mode=args.mode,
        threads=torch.get_num_threads(),
        **summary(passes, args.batch_size),
        peak_rss_mb=peak_rss_mb(),
    )


if __name__ == "__main__":
    main()

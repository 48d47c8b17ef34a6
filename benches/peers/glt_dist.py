#!/usr/bin/env python3
"""Runs one rank of GraphLearn-for-PyTorch: samples and gathers features, or trains PyG's GraphSAGE.

Start it once per rank through two_namespaces.py, on the parts that glt_partition.py wrote."""

import argparse
import os
from itertools import islice
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch.nn import functional
from torch_geometric.nn import GraphSAGE

from glt_import import glt
from measure import Pass, add_batch_flags, peak_rss_mb, process_started_at, report, run_passes, summary
from two_namespaces import INTERFACE

TRAINER_PORT = 29811
SAMPLER_PORT = 29821


def my_seeds(data: Path, part_of_nodes: torch.Tensor, rank: int, world_size: int) -> torch.Tensor:
    """Returns training nodes of this rank's part, the same number on every rank."""
    train = torch.from_numpy(np.load(data / "train_idx.npy"))
    owners = part_of_nodes[train]
    equal_share = int(torch.bincount(owners, minlength=world_size).min())
    return train[owners == rank][:equal_share]


def make_loader(args: argparse.Namespace, part_of_nodes: torch.Tensor) -> "glt.distributed.DistNeighborLoader":
    """Returns a loader whose sampler runs in this process."""
    dataset = glt.distributed.DistDataset()
    dataset.load(str(args.parts), args.rank, graph_mode="CPU", feature_with_gpu=False)
    dataset.init_node_labels(torch.from_numpy(np.load(args.data / "y.npy")))
    return glt.distributed.DistNeighborLoader(
        data=dataset,
        num_neighbors=args.num_neighbors,
        input_nodes=my_seeds(args.data, part_of_nodes, args.rank, len(args.addrs)),
        batch_size=args.batch_size,
        shuffle=True,
        drop_last=True,
        collect_features=args.mode != "sample",
        to_device=torch.device("cpu"),
        worker_options=glt.distributed.CollocatedDistSamplingWorkerOptions(
            master_addr=args.addrs[0], master_port=SAMPLER_PORT
        ),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_batch_flags(parser)
    parser.add_argument("--parts", type=Path, required=True, help="folder with the parts of GraphLearn")
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--addrs", type=lambda text: text.split(","), required=True, help="addresses of all ranks")
    args = parser.parse_args()
    world_size = len(args.addrs)
    torch.manual_seed(args.rank)
    part_of_nodes = torch.from_numpy(np.load(args.parts / "part_of_nodes.npy"))
    glt.distributed.init_worker_group(world_size=world_size, rank=args.rank, group_name="peers")
    address = f"tcp://{args.addrs[0]}:{TRAINER_PORT}"
    dist.init_process_group("gloo", rank=args.rank, world_size=world_size, init_method=address)
    loader = make_loader(args, part_of_nodes)
    labels, x = (np.load(args.data / f"{name}.npy", mmap_mode="r") for name in ("y", "x"))
    model = GraphSAGE(x.shape[1], args.hidden_channels, len(args.num_neighbors), int(labels.max()) + 1)
    model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)

    def one_pass(this: Pass) -> None:
        for batch in islice(loader, args.num_batches or None):
            this.got_batch(batch.batch_size, batch.edge_index.shape[1], batch.node.numel())
            this.remote_nodes += int((part_of_nodes[batch.node] != args.rank).sum())
            if args.mode == "train":
                this.restart_lap()
                optimizer.zero_grad()
                out = model(batch.x, batch.edge_index)[: batch.batch_size]
                functional.cross_entropy(out, batch.y[: batch.batch_size]).backward()
                optimizer.step()
                this.did_step()
        dist.barrier()

    passes = run_passes(one_pass, args.passes, interface=INTERFACE)
    report(
        "glt",
        rank=args.rank,
        mode=args.mode,
        threads=torch.get_num_threads(),
        **summary(passes, args.batch_size),
        first_batch_s=round(passes[0].first_batch_at - process_started_at(), 2),
        peak_rss_mb=peak_rss_mb(),
    )
    dist.barrier()
    # GraphLearn's threads keep the process alive after its normal end.
    os._exit(0)


if __name__ == "__main__":
    main()

"""Trains GraphSAGE with PyTorch's DistributedDataParallel on a partitioned graph.

    torchrun --nproc-per-node 2 python/examples/ddp_sage.py data/partitions/mygraph/2-parts

Each process holds one part of the graph, and samples over all parts. Started without a launcher, it trains alone.
"""

import argparse
import os
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch_geometric.nn import GraphSAGE

import edgecut


def forward(model, batch):
    """Return the scores of the input nodes. Each layer computes only the nodes that later layers need."""
    return model(
        batch.x,
        batch.edge_index,
        num_sampled_nodes_per_hop=batch.num_sampled_nodes,
        num_sampled_edges_per_hop=batch.num_sampled_edges,
    )[: batch.batch_size]


@torch.no_grad()
def accuracy(model, loader):
    """Return the share of correct predictions over all processes."""
    model.eval()
    counts = torch.zeros(2)
    for batch in loader:
        correct = forward(model, batch).argmax(dim=1) == batch.y
        counts += torch.tensor([correct.sum(), len(correct)])
    if dist.is_initialized():
        dist.all_reduce(counts)
    return float(counts[0] / counts[1])


def train(args):
    """Train and evaluate on the graph, and print the accuracies."""
    with edgecut.open(args.graph) as store:
        load = lambda nodes, **more: edgecut.NeighborLoader(
            store, args.num_neighbors, nodes, batch_size=args.batch_size, **more
        )
        training, valid, test = load("train", shuffle=True), load("valid"), load("test")
        model = GraphSAGE(
            store.num_features, args.hidden_channels, num_layers=len(args.num_neighbors), out_channels=store.num_classes
        )
        trained = DistributedDataParallel(model) if dist.is_initialized() else model
        optimizer = torch.optim.Adam(trained.parameters(), lr=args.lr)
        for epoch in range(args.num_epochs):
            start = time.perf_counter()
            trained.train()
            for batch in training:
                optimizer.zero_grad()
                # A process may have no input nodes in the last step. The sum of no losses has gradients of 0.
                loss = F.cross_entropy(forward(trained, batch), batch.y, reduction="sum") / max(batch.batch_size, 1)
                loss.backward()
                optimizer.step()
            seconds = time.perf_counter() - start
            valid_accuracy = accuracy(model, valid)
            if store.rank == 0:
                print(f"epoch {epoch + 1}/{args.num_epochs}: {seconds:.2f} s, valid {100 * valid_accuracy:.2f} %", flush=True)
        test_accuracy = accuracy(model, test)
        if store.rank == 0:
            print(f"test accuracy {100 * test_accuracy:.2f} %")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graph", help="the folder of the parts")
    parser.add_argument("--num-neighbors", type=int, nargs="+", default=[15, 10])
    parser.add_argument("--hidden-channels", type=int, default=64)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--num-epochs", type=int, default=5)
    parser.add_argument("--lr", type=float, default=0.01)
    args = parser.parse_args()

    torch.manual_seed(0)
    if int(os.environ.get("WORLD_SIZE", 1)) > 1:
        dist.init_process_group("gloo")
        edgecut.distributed.init()

    # The model of DistributedDataParallel must be gone before the process group ends. It would otherwise end the group
    # later, and wait with Python's lock for threads of PyTorch that need the lock.
    train(args)
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()

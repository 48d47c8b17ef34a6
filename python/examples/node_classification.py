"""Trains GraphSAGE on a partitioned graph, with the flags and steps of DGL's distributed `node_classification.py`.

    torchrun --nproc-per-node 2 python/examples/node_classification.py --part_config PARTS

README.md beside this file compares both programs.
"""

import argparse
import socket
import time

import numpy as np
import torch as th
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch_geometric.nn import SAGEConv

import edgecut
import edgecut.torch


class DistSAGE(nn.Module):
    """GraphSAGE with the mean of the neighbors."""

    def __init__(self, in_feats, n_hidden, n_classes, n_layers, activation, dropout):
        super().__init__()
        sizes = [in_feats, *[n_hidden] * (n_layers - 1), n_classes]
        self.layers = nn.ModuleList(SAGEConv(*ends, aggr="mean") for ends in zip(sizes, sizes[1:]))
        self.dropout = nn.Dropout(dropout)
        self.activation = activation

    def forward(self, batch):
        h = batch.x
        for i, (layer, block) in enumerate(zip(self.layers, edgecut.torch.blocks(batch))):
            h = layer((h, h[: block.num_dst]), block.edge_index)
            if i != len(self.layers) - 1:
                h = self.dropout(self.activation(h))
        return h


def compute_acc(pred, labels):
    """Return the accuracy of predictions."""
    return (th.argmax(pred, dim=1) == labels).float().sum() / max(len(pred), 1)


@th.no_grad()
def evaluate(model, loaders):
    """Return the accuracy over all processes on the nodes of each loader."""
    model.eval()
    accuracies = []
    for loader in loaders:
        counts = th.zeros(2)
        for batch in loader:
            counts += th.tensor([(model(batch).argmax(dim=1) == batch.y).sum(), batch.batch_size])
        th.distributed.all_reduce(counts)
        accuracies.append(float(counts[0] / counts[1]))
    model.train()
    return accuracies


def run(args, store):
    """Train and evaluate. Return the mean seconds of an epoch and the test accuracy."""
    fanouts = [int(fanout) for fanout in args.fan_out.split(",")]
    if len(fanouts) != args.num_layers:
        raise SystemExit(f"--fan_out {args.fan_out} has {len(fanouts)} numbers, but --num_layers is {args.num_layers}")
    # DGL lists the fan-out of the input nodes last, PyG and Edgecut first.
    dataloader = edgecut.NeighborLoader(store, fanouts[::-1], "train", batch_size=args.batch_size, shuffle=True)
    # All neighbors: the exact result, as of the original's inference layer by layer.
    neighbors = [-1] * args.num_layers
    eval_loaders = [
        edgecut.NeighborLoader(store, neighbors, split, batch_size=args.batch_size_eval) for split in ("valid", "test")
    ]
    model = DistSAGE(store.num_features, args.num_hidden, store.num_classes, args.num_layers, F.relu, args.dropout)
    model = th.nn.parallel.DistributedDataParallel(model)
    loss_fcn = nn.CrossEntropyLoss(reduction="sum")
    optimizer = optim.Adam(model.parameters(), lr=args.lr)

    epoch_time = []
    test_acc = 0.0
    for epoch in range(1, args.num_epochs + 1):
        tic = start = time.time()
        sample_time = compute_time = 0
        num_seeds = num_inputs = 0
        step_time = []
        for step, batch in enumerate(dataloader):
            tic_step = time.time()
            sample_time += tic_step - start
            num_seeds += batch.batch_size
            num_inputs += len(batch.n_id)
            batch_pred = model(batch)
            # All processes take the same number of steps, of which the last can be without nodes.
            loss = loss_fcn(batch_pred, batch.y) / max(batch.batch_size, 1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            start = time.time()
            compute_time += start - tic_step
            step_time.append(start - tic_step)
            if (step + 1) % args.log_every == 0:
                print(
                    f"Part {store.rank} | Epoch {epoch:05d} | Step {step:05d} | Loss {loss.item():.4f} "
                    f"| Train Acc {compute_acc(batch_pred, batch.y):.4f} "
                    f"| Mean step time {np.mean(step_time[-args.log_every:]):.3f} s"
                )
        epoch_time.append(time.time() - tic)
        print(
            f"Part {store.rank}, Epoch Time(s): {epoch_time[-1]:.4f}, sample+data_copy: {sample_time:.4f}, "
            f"forward+backward+update: {compute_time:.4f}, #seeds: {num_seeds}, #inputs: {num_inputs}"
        )
        if epoch % args.eval_every == 0 or epoch == args.num_epochs:
            start = time.time()
            val_acc, test_acc = evaluate(model.module, eval_loaders)
            print(
                f"Part {store.rank}, Val Acc {val_acc:.4f}, Test Acc {test_acc:.4f}, time: {time.time() - start:.4f}",
                flush=True,
            )
    return np.mean(epoch_time[-max(int(args.num_epochs * 0.8), 1) :]), test_acc


def main(args):
    print(f"{socket.gethostname()}: Initializing PyTorch process group.")
    th.distributed.init_process_group(backend=args.backend)
    edgecut.distributed.init()
    with edgecut.open(args.part_config) as store:
        print(f"Rank of {socket.gethostname()}: {store.rank}, number of classes: {store.num_classes}")
        epoch_time, test_acc = run(args, store)
        print(
            f"Summary of node classification(GraphSAGE): GraphName {store.name} | TrainEpochTime(mean) {epoch_time:.4f} "
            f"| TestAccuracy {test_acc:.4f}",
            flush=True,
        )
    th.distributed.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--part_config", required=True, help="the folder of the parts")
    add("--backend", default="gloo", help="PyTorch's backend of collectives")
    add("--num_epochs", type=int, default=20)
    add("--num_hidden", type=int, default=16)
    add("--num_layers", type=int, default=2)
    add("--fan_out", default="10,25", help="neighbors per layer, those of the input nodes last")
    add("--batch_size", type=int, default=1000)
    add("--batch_size_eval", type=int, default=1000)
    add("--log_every", type=int, default=20)
    add("--eval_every", type=int, default=5)
    add("--lr", type=float, default=0.003)
    add("--dropout", type=float, default=0.5)
    main(parser.parse_args())

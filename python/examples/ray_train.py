"""Trains GraphSAGE with Ray Train on a partitioned graph, with a worker per part.

    python3 python/examples/ray_train.py data/partitions/mygraph/2-parts --num-workers 2

Ray makes PyTorch's process group of its workers, whose ranks and addresses Edgecut takes. On a cluster of Ray, all machines
need the parts.
"""

import argparse
import os
import tempfile

import ray.train
import torch
import torch.nn.functional as F
from ray.train.torch import TorchTrainer, prepare_model
from torch_geometric.nn import GraphSAGE

import edgecut
import edgecut.torch


def train_worker(config):
    """Train on this worker's share of the nodes, and report the accuracy over all workers."""
    torch.manual_seed(0)
    edgecut.distributed.init()
    with edgecut.open(config["graph"]) as store:
        training = edgecut.NeighborLoader(store, [10, 5], "train", batch_size=config["batch_size"], shuffle=True)
        test = edgecut.NeighborLoader(store, [10, 5], "test", batch_size=config["batch_size"])
        model = prepare_model(GraphSAGE(store.num_features, 64, num_layers=2, out_channels=store.num_classes))
        optimizer = torch.optim.Adam(model.parameters(), lr=config["lr"])
        for epoch in range(config["num_epochs"]):
            model.train()
            for batch in training:
                optimizer.zero_grad()
                out = model(batch.x, batch.edge_index)[: batch.batch_size]
                # A worker may have no input nodes in the last step.
                loss = F.cross_entropy(out, batch.y, reduction="sum") / max(batch.batch_size, 1)
                loss.backward()
                optimizer.step()
            report({"epoch": epoch + 1, "test_accuracy": accuracy(model, test)}, model)


def report(metrics, model):
    """Report the metrics of an epoch to Ray, with the model that the first worker saves for `train predict`."""
    if ray.train.get_context().get_world_rank() > 0:
        ray.train.report(metrics)
        return
    with tempfile.TemporaryDirectory() as folder:
        edgecut.torch.save_model(model, os.path.join(folder, "model.safetensors"))
        ray.train.report(metrics, checkpoint=ray.train.Checkpoint.from_directory(folder))


@torch.no_grad()
def accuracy(model, loader):
    """Return the share of correct predictions over all workers."""
    model.eval()
    counts = torch.zeros(2)
    for batch in loader:
        correct = model(batch.x, batch.edge_index)[: batch.batch_size].argmax(dim=1) == batch.y
        counts += torch.tensor([correct.sum(), len(correct)])
    if torch.distributed.get_world_size() > 1:
        torch.distributed.all_reduce(counts)
    return float(counts[0] / counts[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graph", help="the folder of the parts")
    parser.add_argument("--num-workers", type=int, default=2)
    parser.add_argument("--storage-path", help="the folder for results and models; all machines need it [default: ~/ray_results]")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--num-epochs", type=int, default=3)
    parser.add_argument("--lr", type=float, default=0.01)
    args = parser.parse_args()
    settings = {**vars(args), "graph": os.path.abspath(args.graph)}
    scaling = ray.train.ScalingConfig(num_workers=args.num_workers)
    run = ray.train.RunConfig(storage_path=args.storage_path)
    result = TorchTrainer(train_worker, train_loop_config=settings, scaling_config=scaling, run_config=run).fit()
    if result.error is not None:
        raise result.error
    print(f"model in {result.checkpoint.path}")
    print(f"test accuracy {100 * result.metrics['test_accuracy']:.2f} %")


if __name__ == "__main__":
    main()

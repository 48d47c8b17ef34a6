"""Trains GraphSAGE with Lightning on a partitioned graph, with a process per part.

    python3 python/examples/lightning_sage.py data/partitions/mygraph/2-parts --devices 2

Lightning starts the processes and makes PyTorch's process group of them, whose ranks and addresses Edgecut takes.
"""

import argparse

import torch
import torch.nn.functional as F
from lightning import LightningDataModule, LightningModule, Trainer
from torch_geometric.nn import GraphSAGE

import edgecut


class Parts(LightningDataModule):
    """Loaders of a graph in parts. Each process loads its share of the nodes."""

    def __init__(self, graph, batch_size):
        super().__init__()
        self.graph, self.batch_size = graph, batch_size
        self.store = None

    def setup(self, stage):
        # The process group exists now, so the store joins it.
        if self.store is None:
            edgecut.distributed.init()
            self.store = edgecut.open(self.graph)

    def loader(self, split, **more):
        return edgecut.NeighborLoader(self.store, [10, 5], split, batch_size=self.batch_size, **more)

    def train_dataloader(self):
        return self.loader("train", shuffle=True)

    def val_dataloader(self):
        return self.loader("valid")

    def test_dataloader(self):
        return self.loader("test")


class Sage(LightningModule):
    def __init__(self, parts, lr):
        super().__init__()
        self.parts, self.lr = parts, lr
        self.model = None

    def configure_model(self):
        # The sizes are known when the graph is open.
        if self.model is None:
            store = self.parts.store
            self.model = GraphSAGE(store.num_features, 64, num_layers=2, out_channels=store.num_classes)

    def forward(self, batch):
        return self.model(batch.x, batch.edge_index)[: batch.batch_size]

    def training_step(self, batch, number):
        # A process may have no input nodes in the last step.
        return F.cross_entropy(self(batch), batch.y, reduction="sum") / max(batch.batch_size, 1)

    def count(self, batch, name):
        correct = (self(batch).argmax(dim=1) == batch.y).float().sum()
        # Sums over all processes, whose quotient is the accuracy.
        for what, value in (("correct", correct), ("number", float(batch.batch_size))):
            self.log(f"{name}_{what}", value, on_epoch=True, reduce_fx="sum", sync_dist=True, batch_size=1)

    def validation_step(self, batch, number):
        self.count(batch, "valid")

    def test_step(self, batch, number):
        self.count(batch, "test")

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.lr)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graph", help="the folder of the parts")
    parser.add_argument("--devices", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--num-epochs", type=int, default=3)
    parser.add_argument("--lr", type=float, default=0.01)
    args = parser.parse_args()
    torch.manual_seed(0)
    parts = Parts(args.graph, args.batch_size)
    model = Sage(parts, args.lr)
    more = {"enable_progress_bar": False, "enable_checkpointing": False, "logger": False, "enable_model_summary": False}
    trainer = Trainer(accelerator="cpu", strategy="ddp", devices=args.devices, max_epochs=args.num_epochs, **more)
    trainer.fit(model, datamodule=parts)
    (metrics,) = trainer.test(model, datamodule=parts, verbose=False)
    if trainer.is_global_zero:
        print(f"test accuracy {100 * metrics['test_correct'] / metrics['test_number']:.2f} %")
    # All processes close the store together.
    parts.store.close()


if __name__ == "__main__":
    main()

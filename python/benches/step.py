"""Times training steps of GraphSAGE with PyTorch: 3 layers, 256 hidden channels, fan-outs 15,10,5, batches of 1024 nodes.

    python python/benches/step.py DATASET                       # Edgecut's loader
    python python/benches/step.py DATASET --loader pyg          # PyG's, which needs pyg-lib or torch-sparse
    python python/benches/step.py DATASET --loader dgl          # DGL's loader and layers
    torchrun --nproc-per-node 2 python/benches/step.py PARTS    # Edgecut's loader and DistributedDataParallel

DATASET is a folder of arrays (docs/src/data.md): edge_index.npy, x.npy, y.npy, train_idx.npy. Edgecut also takes parts.
A line of JSON has the means per step: `wait_ms` is the time until the batch is there, `compute_ms` that of forward pass,
backward pass and update.
"""

import argparse
import json
import os
import pathlib
import resource
import time

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F

FAN_OUTS = [15, 10, 5]
BATCH_SIZE = 1024
HIDDEN = 256


class Steps:
    """A loader and a model that takes its batches and returns the logits of their input nodes.

    `labels` returns the labels of a batch, `size` its numbers of edges and of nodes.
    """

    def __init__(self, model, batches, labels, size):
        self.model, self.batches, self.labels, self.size = model, batches, labels, size


class Sage(torch.nn.Module):
    """PyG's GraphSAGE on batches of PyG."""

    def __init__(self, num_features, num_classes, layers):
        from torch_geometric.nn import GraphSAGE

        super().__init__()
        self.sage = GraphSAGE(num_features, HIDDEN, num_layers=len(FAN_OUTS), out_channels=num_classes)
        self.layers = layers

    def forward(self, batch):
        return self.on_whole(batch) if self.layers == "pyg" else self.on_blocks(batch)

    def on_whole(self, batch):
        hops = {}
        # PyG's sampler counts by hop only with pyg-lib.
        if batch.get("num_sampled_nodes") is not None:
            hops = {
                "num_sampled_nodes_per_hop": batch.num_sampled_nodes,
                "num_sampled_edges_per_hop": batch.num_sampled_edges,
            }
        return self.sage(batch.x, batch.edge_index, **hops)[: batch.batch_size]

    def on_blocks(self, batch):
        import edgecut.torch

        x = batch.x
        blocks = edgecut.torch.blocks(batch)
        for conv, block in zip(self.sage.convs, blocks):
            x = conv((x, x[: block.num_dst]), block.adj_t() if self.layers == "csr" else block.edge_index)
            x = x.relu() if block is not blocks[-1] else x
        return x


class DglSage(torch.nn.Module):
    """GraphSAGE of DGL's layers on its batches."""

    def __init__(self, num_features, num_classes):
        from dgl.nn.pytorch import SAGEConv

        super().__init__()
        widths = [num_features, *[HIDDEN] * (len(FAN_OUTS) - 1), num_classes]
        self.layers = torch.nn.ModuleList(SAGEConv(*ends, "mean") for ends in zip(widths, widths[1:]))

    def forward(self, batch):
        _, _, blocks = batch
        h = blocks[0].srcdata["x"]
        for layer, block in zip(self.layers, blocks):
            h = layer(block, h)
            h = h.relu() if layer is not self.layers[-1] else h
        return h


def labels_pyg(batch):
    return batch.y[: batch.batch_size]


def size_pyg(batch):
    return batch.edge_index.shape[1], len(batch.x)


def edgecut_steps(args):
    import edgecut

    store = edgecut.open(args.dataset, num_threads=args.num_workers)
    loader = edgecut.NeighborLoader(
        store, FAN_OUTS, "train", batch_size=BATCH_SIZE, shuffle=True, num_workers=args.concurrency
    )
    return Steps(Sage(store.num_features, store.num_classes, args.layers), loader, labels_pyg, size_pyg)


def arrays(dataset):
    names = ("edge_index", "x", "y", "train_idx")
    return {name: torch.from_numpy(np.load(pathlib.Path(dataset) / f"{name}.npy")) for name in names}


def pyg_steps(args):
    from torch_geometric.data import Data
    from torch_geometric.loader import NeighborLoader

    data = arrays(args.dataset)
    graph = Data(x=data["x"], y=data["y"].long(), edge_index=data["edge_index"].long())
    loader = NeighborLoader(
        graph,
        FAN_OUTS,
        input_nodes=data["train_idx"].long(),
        batch_size=BATCH_SIZE,
        shuffle=True,
        num_workers=args.num_workers or 0,
    )
    return Steps(Sage(graph.num_features, int(graph.y.max()) + 1, args.layers), loader, labels_pyg, size_pyg)


def dgl_steps(args):
    import dgl

    data = arrays(args.dataset)
    graph = dgl.graph(tuple(data["edge_index"].long()), num_nodes=len(data["x"])).formats("csc")
    graph.create_formats_()
    graph.ndata["x"], graph.ndata["y"] = data["x"], data["y"].long()
    # DGL lists the fan-out of the input nodes last.
    sampler = dgl.dataloading.NeighborSampler(FAN_OUTS[::-1], prefetch_node_feats=["x"], prefetch_labels=["y"])
    loader = dgl.dataloading.DataLoader(
        graph,
        data["train_idx"].long(),
        sampler,
        batch_size=BATCH_SIZE,
        shuffle=True,
        num_workers=args.num_workers or 0,
    )
    model = DglSage(data["x"].shape[1], int(data["y"].max()) + 1)
    return Steps(
        model,
        loader,
        lambda batch: batch[2][-1].dstdata["y"],
        lambda batch: (sum(block.num_edges() for block in batch[2]), len(batch[0])),
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", help="folder of arrays, or of parts")
    parser.add_argument("--loader", choices=["edgecut", "pyg", "dgl"], default="edgecut")
    parser.add_argument(
        "--layers",
        choices=["csr", "blocks", "pyg"],
        help="PyG's layers on sparse matrices or edges of each layer (edgecut.torch.blocks), or PyG's GraphSAGE as it is. "
        "Default: csr for Edgecut's loader, pyg for PyG's",
    )
    parser.add_argument("--num-batches", type=int, default=20, help="timed steps (default 20), after 2 others")
    parser.add_argument(
        "--num-workers",
        type=int,
        help="Edgecut: threads that sample (default: the cores). PyG and DGL: worker processes (default 0)",
    )
    parser.add_argument("--concurrency", type=int, default=2, help="Edgecut: batches that are made at the same time")
    parser.add_argument("--num-threads", type=int, help="threads of PyTorch (default: its own choice)")
    parser.add_argument("--no-training", action="store_true", help="load the batches only")
    args = parser.parse_args()
    args.layers = args.layers or ("csr" if args.loader == "edgecut" else "pyg")
    if args.num_threads:
        torch.set_num_threads(args.num_threads)
    world_size = int(os.environ.get("WORLD_SIZE", 1))
    if world_size > 1:
        if args.loader != "edgecut":
            parser.error("several processes need `--loader edgecut`")
        import edgecut

        dist.init_process_group("gloo")
        edgecut.distributed.init()
    torch.manual_seed(0)
    steps = {"edgecut": edgecut_steps, "pyg": pyg_steps, "dgl": dgl_steps}[args.loader](args)
    result = measure(steps, args, world_size)
    versions = {"torch": torch.__version__, "threads": torch.get_num_threads()}
    if world_size == 1 or dist.get_rank() == 0:
        settings = {"loader": args.loader, "layers": args.layers, "world_size": world_size}
        print(json.dumps({**settings, **versions, **result}), flush=True)
    if world_size > 1:
        dist.barrier()
        dist.destroy_process_group()


def measure(steps, args, world_size):
    """Return the means of the timed steps."""
    model = steps.model
    if world_size > 1:
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    warmup = 2
    waited = computed = edges = nodes = 0
    batches = iter(steps.batches)
    for number in range(warmup + args.num_batches):
        before = time.perf_counter()
        try:
            batch = next(batches)
        except StopIteration:
            batches = iter(steps.batches)
            batch = next(batches)
        loaded = time.perf_counter()
        if not args.no_training:
            optimizer.zero_grad()
            out, y = model(batch), steps.labels(batch)
            (F.cross_entropy(out, y, reduction="sum") / max(len(y), 1)).backward()
            optimizer.step()
        if number >= warmup:
            waited += loaded - before
            computed += time.perf_counter() - loaded
            of_batch = steps.size(batch)
            edges += of_batch[0]
            nodes += of_batch[1]
    count = args.num_batches
    return {
        "step_ms": round(1e3 * (waited + computed) / count, 1),
        "wait_ms": round(1e3 * waited / count, 1),
        "compute_ms": round(1e3 * computed / count, 1),
        "wait_percent": round(100 * waited / (waited + computed), 1),
        "edges": round(edges / count),
        "nodes": round(nodes / count),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


if __name__ == "__main__":
    main()

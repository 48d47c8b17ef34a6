"""Trains GraphSAGE on a partitioned graph, one process per node, with the flags and steps of PyG's `node_ogb_cpu.py`.

    python3 python/examples/node_ogb_cpu.py --dataset_root_dir PARTS --num_nodes 2 --node_rank 0 --master_addr HOST
    python3 python/examples/node_ogb_cpu.py --dataset_root_dir PARTS --num_nodes 2 --node_rank 1 --master_addr HOST

README.md beside this file compares both programs.
"""

import argparse
import os
import time

import torch
import torch.distributed
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch_geometric.nn import GraphSAGE, to_hetero
from tqdm import tqdm

import edgecut


def forward(model, batch, node_type):
    """Return the logits and the labels of the input nodes."""
    if node_type is None:
        return model(batch.x, batch.edge_index)[: batch.batch_size], batch.y
    nodes = batch[node_type]
    return model(batch.x_dict, batch.edge_index_dict)[node_type][: nodes.batch_size], nodes.y


@torch.no_grad()
def test(model, loader, node_type, rank, epoch, log, progress_bar):
    model.eval()
    counts = torch.zeros(2)
    start_time = batch_time = time.time()
    for i, batch in enumerate(tqdm(loader, desc=f"[Node {rank}] Test", disable=not progress_bar)):
        y_pred, y_true = forward(model, batch, node_type)
        correct = int((y_pred.argmax(dim=-1) == y_true).sum())
        counts += torch.tensor([correct, len(y_true)])
        accuracy = correct / max(len(y_true), 1)
        log(f"[Node {rank}] Test: epoch={epoch}, it={i}, acc={accuracy:.4f}, time={time.time() - batch_time:.4f}")
        batch_time = time.time()
    # The accuracy over all processes; the original prints that of each one.
    torch.distributed.all_reduce(counts)
    accuracy = float(counts[0] / counts[1])
    print(f"[Node {rank}] Test epoch {epoch} END: acc={accuracy:.4f}, time={time.time() - start_time:.2f}", flush=True)


def train(model, loader, optimizer, node_type, rank, epoch, log, progress_bar):
    model.train()
    total_loss = total_examples = 0
    start_time = batch_time = time.time()
    for i, batch in enumerate(tqdm(loader, desc=f"[Node {rank}] Train", disable=not progress_bar)):
        optimizer.zero_grad()
        out, target = forward(model, batch, node_type)
        # All processes take the same number of steps, of which the last can be without nodes.
        loss = F.cross_entropy(out, target, reduction="sum") / max(len(target), 1)
        loss.backward()
        optimizer.step()
        total_loss += float(loss) * len(target)
        total_examples += len(target)
        log(f"[Node {rank}] Train: epoch={epoch}, it={i}, loss={loss:.4f}, time={time.time() - batch_time:.4f}")
        batch_time = time.time()
    print(
        f"[Node {rank}] Train epoch {epoch} END: loss={total_loss / max(total_examples, 1):.4f}, "
        f"time={time.time() - start_time:.2f}",
        flush=True,
    )


def run_proc(local_proc_rank, args):
    print("--- Initialize DDP training group ...")
    os.environ |= {"MASTER_ADDR": args.master_addr, "MASTER_PORT": str(args.ddp_port)}
    os.environ |= {"RANK": str(args.node_rank), "WORLD_SIZE": str(args.num_nodes)}
    torch.distributed.init_process_group(backend="gloo")
    edgecut.distributed.init(master_port=args.train_loader_port)

    print("--- Loading data partition files ...")
    with edgecut.open(args.dataset_root_dir, num_threads=args.num_workers) as store:
        print(f"Partition metadata: {store}")
        run_epochs(store, args)
        print(f"--- [Node {store.rank}] Closing ---")
    torch.distributed.destroy_process_group()


def run_epochs(store, args):
    print("--- Initialize distributed loaders ...")
    num_neighbors = [int(i) for i in args.num_neighbors.split(",")]
    # The node type that has labels, of a heterogeneous graph.
    labeled = next(t for t in store.node_types if t.num_classes > 0)
    node_type = labeled.name if store.is_heterogeneous else None
    load = lambda split, shuffle: edgecut.NeighborLoader(
        store,
        num_neighbors,
        input_nodes=split if node_type is None else (node_type, split),
        batch_size=args.batch_size,
        shuffle=shuffle,
        num_workers=args.concurrency,
    )
    train_loader, test_loader = load("train", True), load("test", False)

    print("--- Initialize model ...")
    model = GraphSAGE(
        in_channels=store.num_features,
        hidden_channels=256,
        num_layers=len(num_neighbors),
        out_channels=labeled.num_classes,
    )
    if node_type is not None:  # Turn model into a heterogeneous variant:
        model = to_hetero(model, ([t.name for t in store.node_types], [t.name for t in store.edge_types]))
    # Enable DDP:
    model = DistributedDataParallel(model, find_unused_parameters=node_type is not None)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.0004)

    log = logger(args)
    print(f"--- Start training for {args.num_epochs} epochs ...")
    for epoch in range(1, args.num_epochs + 1):
        train(model, train_loader, optimizer, node_type, store.rank, epoch, log, args.progress_bar)
        if epoch % 5 == 0:
            test(model, test_loader, node_type, store.rank, epoch, log, args.progress_bar)


def logger(args):
    """Return the function that takes a line per batch."""
    def log(line):
        if args.logging:
            with open(f"dist_cpu-node{args.node_rank}.txt", "a") as file:
                file.write(f"{line}\n")
        if not args.progress_bar:
            print(line)

    return log


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--dataset_root_dir", default="data/partitions/ogbn-products/2-parts", help="the folder of the parts")
    add("--num_nodes", type=int, default=2, help="number of nodes")
    add("--num_neighbors", default="15,10,5", help="neighbors per hop")
    add("--node_rank", type=int, default=0, help="number of this node")
    add("--num_epochs", type=int, default=100)
    add("--batch_size", type=int, default=1024)
    add("--num_workers", type=int, help="threads that sample (default: the cores of this process)")
    add("--concurrency", type=int, default=2, help="batches that are made at the same time")
    add("--master_addr", default="localhost", help="address of node 0")
    add("--ddp_port", type=int, default=11111, help="port of PyTorch on node 0")
    add("--train_loader_port", type=int, default=11112, help="port of Edgecut on node 0")
    add("--logging", action="store_true", help="append a line per batch to dist_cpu-nodeRANK.txt")
    add("--progress_bar", action="store_true")
    args = parser.parse_args()
    print("--- Launching training processes ...")
    torch.multiprocessing.spawn(run_proc, args=(args,), join=True)
    print("--- Finished training processes ...")

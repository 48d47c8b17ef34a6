#!/usr/bin/env python3
"""Runs one rank of DistDGL: a server and a trainer that sample, gather features, or train.

Start it once per rank through two_namespaces.py, on the parts that dgl_partition.py wrote. OMP_NUM_THREADS sets the
number of threads of every process."""

import argparse
import os
import subprocess
import sys
import tempfile
from itertools import islice
from pathlib import Path

import dgl
import numpy as np
import torch
import torch.distributed as dist

from dgl_partition import GRAPH_NAME
from measure import (
    Pass,
    add_accuracy_flag,
    add_batch_flags,
    peak_rss_mb,
    peak_rss_mb_of,
    process_started_at,
    report,
    run_passes,
    seconds_until,
    summary,
)
from sage import Sage, Trainer
from two_namespaces import INTERFACE

SERVER_PORT = 30050
TRAINER_PORT = 30057
SECONDS_TO_END = 30
"""The time that the server has to end after the trainer."""


class Client:
    """The trainer of one rank, connected to all servers."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        torch.manual_seed(args.rank)
        dgl.distributed.initialize(os.environ["DGL_IP_CONFIG"])
        dist.init_process_group(
            "gloo",
            rank=args.rank,
            world_size=len(args.addrs),
            init_method=f"tcp://{args.addrs[0]}:{TRAINER_PORT}",
        )
        self.graph = dgl.distributed.DistGraph(GRAPH_NAME, part_config=os.environ["DGL_CONF_PATH"])
        self.book = self.graph.get_partition_book()
        self.loader = self.loader_of("train_mask", shuffle=True, drop_last=True)
        self.remote_share: float | None = None
        """The fraction of input nodes of other parts, counted in the first pass only, because counting takes time."""
        self.trainer = self.make_trainer() if args.mode == "train" else None

    def loader_of(self, mask: str, **flags: bool) -> dgl.dataloading.DistNodeDataLoader:
        """Returns the batches of this rank's share of the nodes of a mask."""
        seeds = dgl.distributed.node_split(self.graph.ndata[mask], self.book, force_even=True)
        sampler = dgl.dataloading.NeighborSampler(self.args.num_neighbors[::-1])
        return dgl.dataloading.DistNodeDataLoader(
            self.graph, seeds, sampler, batch_size=self.args.batch_size, **flags
        )

    def validate(self) -> float:
        """Returns the accuracy on the validation nodes of all ranks."""
        right_and_all = torch.zeros(2, dtype=torch.float64)
        with torch.no_grad():
            # Without the wrapper, whose forward pass waits for the other ranks.
            model = self.trainer.model.module
            for input_nodes, seeds, blocks in self.loader_of("valid_mask", shuffle=False, drop_last=False):
                x, y = self.graph.ndata["x"][input_nodes], self.graph.ndata["y"][seeds]
                right_and_all += torch.tensor([int((model(blocks, x).argmax(1) == y).sum()), len(seeds)])
        dist.all_reduce(right_and_all)
        return float(right_and_all[0] / right_and_all[1])

    def make_trainer(self) -> Trainer:
        """Creates a data-parallel model with its optimizer."""
        num_classes = int(np.load(self.args.data / "y.npy", mmap_mode="r").max()) + 1
        in_channels = self.graph.ndata["x"].shape[1]
        model = Sage(in_channels, self.args.hidden_channels, num_classes, len(self.args.num_neighbors))
        return Trainer(torch.nn.parallel.DistributedDataParallel(model))

    def one_pass(self, this: Pass) -> None:
        """Runs one pass, which ends when all ranks are done."""
        remote = 0
        for input_nodes, seeds, blocks in islice(self.loader, self.args.num_batches or None):
            if self.args.mode != "sample":
                x, y = self.graph.ndata["x"][input_nodes], self.graph.ndata["y"][seeds]
            this.got_batch(len(seeds), sum(block.num_edges() for block in blocks), len(input_nodes))
            if self.remote_share is None:
                remote += int((self.book.nid2partid(input_nodes) != self.book.partid).sum())
            if self.trainer:
                this.restart_lap()
                self.trainer.step(blocks, x, y)
                this.did_step()
        dist.barrier()
        if self.remote_share is None:
            self.remote_share = remote / this.input_nodes
        this.remote_nodes = self.remote_share * this.input_nodes


def train_until_accurate(client: Client) -> None:
    """Trains up to the wanted accuracy, and reports the seconds of training."""
    args, accuracies, seconds = client.args, [], []
    while len(seconds) < args.passes and max(accuracies, default=0) < args.until_accuracy:
        (this,) = run_passes(client.one_pass, 0, (args.server_pid,), INTERFACE)
        seconds.append(this.wall)
        accuracies.append(client.validate())
    report(
        "distdgl",
        rank=args.rank,
        until_s=seconds_until(accuracies, seconds, args.until_accuracy),
        epochs=len(seconds),
        accuracy=accuracies[-1],
    )
    dist.barrier()


def run_client(args: argparse.Namespace) -> None:
    """Measures and reports."""
    client = Client(args)
    if args.until_accuracy is not None:
        train_until_accurate(client)
        return
    passes = run_passes(client.one_pass, args.passes, (args.server_pid,), INTERFACE)
    report(
        "distdgl",
        rank=args.rank,
        mode=args.mode,
        threads=torch.get_num_threads(),
        **summary(passes, args.batch_size),
        first_batch_s=round(passes[0].first_batch_at - args.started_at, 2),
        peak_rss_mb=peak_rss_mb() + peak_rss_mb_of(args.server_pid),
        server_peak_rss_mb=peak_rss_mb_of(args.server_pid),
    )
    # Ranks leave together, so that no server ends while another rank still sends requests to it.
    dist.barrier()


def run_machine(args: argparse.Namespace) -> int:
    """Starts this rank's server and its trainer, and waits for both."""
    with tempfile.TemporaryDirectory() as folder:
        addresses = Path(folder, "ip_config.txt")
        addresses.write_text("".join(f"{address} {SERVER_PORT}\n" for address in args.addrs))
        environment = os.environ | {
            "DGLBACKEND": "pytorch",
            "DGL_CONF_PATH": str(args.parts / f"{GRAPH_NAME}.json"),
            "DGL_DIST_MODE": "distributed",
            "DGL_GRAPH_FORMAT": "csc",
            "DGL_GROUP_ID": "0",
            "DGL_IP_CONFIG": str(addresses),
            "DGL_NUM_CLIENT": str(len(args.addrs)),
            "DGL_NUM_SAMPLER": "0",
            "DGL_NUM_SERVER": "1",
            "DGL_SERVER_ID": str(args.rank),
        }
        command = [sys.executable, *sys.argv, f"--started-at={process_started_at()}"]
        server = subprocess.Popen([*command, "--role=server"], env=environment | {"DGL_ROLE": "server"})
        try:
            client = [*command, "--role=client", f"--server-pid={server.pid}"]
            status = subprocess.run(client, env=environment | {"DGL_ROLE": "client"}, check=False).returncode
            server.wait(SECONDS_TO_END if status == 0 else 1)
        except subprocess.TimeoutExpired:
            print("the server did not end by itself and is killed", file=sys.stderr)
        finally:
            server.kill()
    return abs(status)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    add_batch_flags(parser)
    add_accuracy_flag(parser)
    parser.add_argument("--parts", type=Path, required=True, help="folder with the parts of DGL")
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--addrs", type=lambda text: text.split(","), required=True, help="addresses of all ranks")
    # The remaining flags are for the two processes that this one starts.
    parser.add_argument("--role", choices=["server", "client"], help=argparse.SUPPRESS)
    parser.add_argument("--started-at", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--server-pid", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.role == "server":
        # This call serves until all trainers have left, then ends the process.
        dgl.distributed.initialize(os.environ["DGL_IP_CONFIG"])
    elif args.role == "client":
        run_client(args)
    else:
        return run_machine(args)
    return 0


if __name__ == "__main__":
    sys.exit(main())

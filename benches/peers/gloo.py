#!/usr/bin/env python3
"""Times PyTorch's all-reduce of float32 sums with gloo, between processes of this machine over loopback.

Set OMP_NUM_THREADS=1, so that every process has one thread."""

import argparse
import datetime
import os
import statistics
import time

import torch
import torch.distributed as dist

from measure import report

WARM_UPS = 3
REPEATS = 30
LARGE_REPEATS = 10
LARGE = 10_000_000
"""Larger messages than this number of bytes are repeated `LARGE_REPEATS` times."""


def time_all_reduce(num_bytes: int, world_size: int) -> dict[str, float]:
    """Returns the seconds of a call after a barrier, and the mean CPU seconds of a call over all ranks together."""
    repeats = LARGE_REPEATS if num_bytes > LARGE else REPEATS
    values = torch.empty(num_bytes // 4)
    walls, cpus = [], []
    for _ in range(WARM_UPS + repeats):
        values.fill_(1.0)
        dist.barrier()
        start, cpu = time.perf_counter(), time.process_time()
        dist.all_reduce(values)
        walls.append(time.perf_counter() - start)
        cpus.append(time.process_time() - cpu)
        assert values[0] == world_size and values[-1] == world_size
    all_cpus = torch.tensor(statistics.mean(cpus[WARM_UPS:]), dtype=torch.float64)
    dist.all_reduce(all_cpus)
    median_s, min_s = statistics.median(walls[WARM_UPS:]), min(walls[WARM_UPS:])
    return {"bytes": num_bytes, "median_s": median_s, "min_s": min_s, "cpu_s": float(all_cpus)}


def run_rank(rank: int, world_size: int, port: int, sizes: list[int]) -> None:
    """Runs one rank. Rank 0 reports."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    limit = datetime.timedelta(seconds=120)
    dist.init_process_group(
        "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world_size, timeout=limit
    )
    results = [time_all_reduce(num_bytes, world_size) for num_bytes in sizes]
    if rank == 0:
        report("gloo", world_size=world_size, torch=torch.__version__, sizes=results)
    dist.barrier()
    # Destroying the process group can block forever on a busy machine.
    os._exit(0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--world-size", type=int, default=2)
    parser.add_argument("--port", type=int, default=29611)
    parser.add_argument("--bytes", type=int, nargs="+", default=[4_096, 100_000, 1_000_000, 10_000_000, 100_000_000])
    args = parser.parse_args()
    torch.multiprocessing.spawn(run_rank, args=(args.world_size, args.port, args.bytes), nprocs=args.world_size)


if __name__ == "__main__":
    main()

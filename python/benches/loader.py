"""Times the loader alone, and a training step of GraphSAGE with and without the wait for its batch.

    python python/benches/loader.py PARTS [--num-batches 40]

Compare with `cargo run --release -p edgecut-dist-loader --example loader -- PARTS`, the loader in Rust.
"""

import argparse
import time

import edgecut

FAN_OUTS = [15, 10, 5]
BATCH_SIZE = 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graph", help="the folder of the parts")
    parser.add_argument("--num-batches", type=int, default=40)
    args = parser.parse_args()

    with edgecut.open(args.graph) as store:
        for output in ("numpy", "pyg"):
            loader = edgecut.NeighborLoader(
                store, FAN_OUTS, "train", batch_size=BATCH_SIZE, shuffle=True, output=output
            )
            batches = iter(loader)
            next(batches)
            start = time.perf_counter()
            for _ in range(args.num_batches):
                next(batches)
            seconds = time.perf_counter() - start
            print(f"loader alone, {output}: {1e3 * seconds / args.num_batches:.1f} ms per batch", flush=True)
            del batches
        step(store, args.num_batches // 4)


def step(store, num_batches):
    """Time the steps of a model with 256 hidden channels, and the wait for their batches."""
    import torch
    import torch.nn.functional as F
    from torch_geometric.nn import GraphSAGE

    loader = edgecut.NeighborLoader(store, FAN_OUTS, "train", batch_size=BATCH_SIZE, shuffle=True)
    model = GraphSAGE(store.num_features, 256, num_layers=3, out_channels=store.num_classes)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    waited = 0.0
    batches = iter(loader)
    start = time.perf_counter()
    for number in range(num_batches + 1):
        before = time.perf_counter()
        batch = next(batches)
        waited += time.perf_counter() - before
        optimizer.zero_grad()
        out = model(
            batch.x,
            batch.edge_index,
            num_sampled_nodes_per_hop=batch.num_sampled_nodes,
            num_sampled_edges_per_hop=batch.num_sampled_edges,
        )[: batch.batch_size]
        F.cross_entropy(out, batch.y).backward()
        optimizer.step()
        if number == 0:
            waited, start = 0.0, time.perf_counter()
    seconds = time.perf_counter() - start
    print(
        f"training: {1e3 * seconds / num_batches:.0f} ms per batch, of which {1e3 * waited / num_batches:.1f} ms "
        f"({100 * waited / seconds:.1f} %) wait for the loader"
    )


if __name__ == "__main__":
    main()

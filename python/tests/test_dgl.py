"""Batches as blocks of DGL."""

import numpy as np
import pytest

import edgecut

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")
dgl = pytest.importorskip("dgl")


def test_blocks_compute_what_the_whole_graph_does(parts):
    with edgecut.open(parts[1]) as store:
        features, graph = store.to_pyg()
        row, col, _ = graph.coo()
        whole = dgl.graph((row, col), num_nodes=2000)
        x = features.get_tensor(None, "x", None)
        torch.manual_seed(1)
        layers = [dgl.nn.SAGEConv(x.shape[1], 8, "mean"), dgl.nn.SAGEConv(8, 5, "mean")]
        expected = layers[1](whole, layers[0](whole, x))
        for batch in edgecut.NeighborLoader(store, [-1, -1], "train", batch_size=64):
            input_nodes, output_nodes, blocks = edgecut.to_dgl(batch)
            assert len(blocks) == 2 and torch.equal(input_nodes, batch.n_id)
            assert torch.equal(output_nodes, batch.n_id[: batch.batch_size])
            assert torch.equal(blocks[0].srcdata[dgl.NID], input_nodes)
            assert torch.equal(blocks[1].dstdata[dgl.NID], output_nodes)
            assert torch.equal(blocks[0].srcdata["x"], x[input_nodes])
            out = layers[1](blocks[1], layers[0](blocks[0], blocks[0].srcdata["x"]))
            assert torch.allclose(out, expected[output_nodes], atol=1e-5)
            for block in blocks:
                src, dst = block.edges()
                number = {int(n): i for i, n in enumerate(batch.n_id)}
                assert len(block.edata["edge_weight"]) == len(src) == block.num_edges()
                assert torch.equal(block.edata["edge_weight"], batch.edge_weight[: len(src)])
                assert max(number[int(n)] for n in block.dstdata[dgl.NID][dst]) < block.num_dst_nodes()


def test_blocks_of_typed_graphs_have_all_types(typed_parts):
    with edgecut.open(typed_parts[1]) as store:
        batch = next(iter(edgecut.NeighborLoader(store, [4, 3], ("v0", "train"), batch_size=32)))
        input_nodes, output_nodes, blocks = edgecut.to_dgl(batch)
        assert {name: len(ids) for name, ids in output_nodes.items()} == {"v0": 32, "v1": 0, "v2": 0}
        assert sorted(blocks[0].canonical_etypes) == sorted(t.name for t in store.edge_types)
        for edge_type in batch.edge_types:
            src, dst = blocks[0].edges(etype=edge_type)
            assert torch.equal(torch.stack([src, dst]), batch[edge_type].edge_index)
            of_last = blocks[1].num_edges(edge_type)
            assert of_last == batch[edge_type].num_sampled_edges[0]
        for name in batch.node_types:
            assert np.array_equal(input_nodes[name], batch[name].n_id)
            assert blocks[1].num_src_nodes(name) == blocks[0].num_dst_nodes(name)

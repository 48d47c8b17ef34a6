"""Layer-wise inference over parts has the outputs of the model on the whole graph."""

import pytest
from conftest import finished, start
from test_servers import Servers

import edgecut

pytest.importorskip("torch_geometric.nn", reason="torch_geometric is missing")
pytest.importorskip("safetensors.torch", reason="safetensors is missing")

import torch
from torch_geometric.nn import GAT, GCN, GIN, GraphSAGE

import edgecut.torch

MODELS = {
    "sage": lambda store: GraphSAGE(store.num_features, 8, num_layers=3, out_channels=5, norm="batch_norm", dropout=0.5),
    "gat": lambda store: GAT(store.num_features, 8, num_layers=2, out_channels=5, heads=2, v2=True),
    "node_norm": lambda store: GraphSAGE(store.num_features, 8, num_layers=2, norm="layer_norm", norm_kwargs={"mode": "node"}),
    "gin": lambda store: GIN(store.num_features, 8, num_layers=2, jk="last"),
}


def expected(model, store):
    features, graph = store.to_pyg()
    row, col, _ = graph.coo()
    x = features.get_tensor(group_name=None, attr_name="x", index=None)
    with torch.no_grad():
        return model(x, torch.stack([row, col]))


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("num_parts", [1, 2])
def test_outputs_are_those_of_the_whole_graph(parts, kind, num_parts):
    with edgecut.open(parts[num_parts]) as store:
        model = MODELS[kind](store).eval()
        found = edgecut.torch.inference(model, store, batch_size=300)
        assert not found.requires_grad
        torch.testing.assert_close(found, expected(model, store), atol=1e-4, rtol=1e-4)


JOB = """
import sys, torch, edgecut, edgecut.torch
from torch_geometric.nn import GraphSAGE
edgecut.distributed.init()
torch.manual_seed(3)
with edgecut.open(sys.argv[1]) as store:
    model = GraphSAGE(store.num_features, 8, num_layers=2, out_channels=5).eval()
    try:
        edgecut.torch.inference(model, store)
    except ValueError as error:
        assert "torch.distributed.init_process_group()" in str(error), error
    torch.distributed.init_process_group("gloo")
    torch.save(edgecut.torch.inference(model, store, batch_size=70), f"{sys.argv[2]}/{store.rank}.pt")
torch.distributed.destroy_process_group()
"""


def test_two_processes_compute_the_same(parts, tmp_path):
    finished(start(JOB, 2, parts[2], tmp_path))
    torch.manual_seed(3)
    with edgecut.open(parts[1]) as store:
        model = GraphSAGE(store.num_features, 8, num_layers=2, out_channels=5).eval()
        for rank in range(2):
            torch.testing.assert_close(torch.load(tmp_path / f"{rank}.pt"), expected(model, store), atol=1e-4, rtol=1e-4)


def test_a_client_of_servers_computes_the_same(parts):
    with Servers(parts[2], 2) as servers, edgecut.connect(servers.addresses) as client, edgecut.open(parts[1]) as store:
        model = MODELS["sage"](client).eval()
        torch.testing.assert_close(edgecut.torch.inference(model, client), expected(model, store), atol=1e-4, rtol=1e-4)


class Doubled(GraphSAGE):
    def forward(self, *arguments, **more):
        return 2 * super().forward(*arguments, **more)


def test_models_and_graphs_that_do_not_fit_are_refused(parts, typed_parts):
    with edgecut.open(parts[1]) as store, edgecut.open(typed_parts[1]) as typed:
        sage = GraphSAGE(store.num_features, 8, num_layers=2)
        for model, graph, why in [
            (sage.train(), store, r"call model.eval\(\)"),
            (GraphSAGE(store.num_features, 8, num_layers=2, jk="cat").eval(), store, "jk='cat', which reads all layers"),
            (GCN(store.num_features, 8, num_layers=2).eval(), store, "GCNConv, .*: save the model and use `train predict`"),
            (GraphSAGE(store.num_features, 8, num_layers=2, norm="layer_norm").eval(), store, "LayerNorm over all nodes.*mode='node'"),
            (GraphSAGE(store.num_features, 8, num_layers=2, norm="GraphNorm").eval(), store, "GraphNorm over all nodes"),
            (
                GraphSAGE(store.num_features, 8, num_layers=2, norm="batch_norm", norm_kwargs={"track_running_stats": False}).eval(),
                store,
                "BatchNorm over all nodes",
            ),
            (GIN(store.num_features, 8, num_layers=1, norm="GraphNorm").eval(), store, "GraphNorm over all nodes"),
            (GAT(store.num_features, 8, num_layers=2, edge_dim=3).eval(), store, "reads features of edges"),
            (GraphSAGE(4, 8, num_layers=2).eval(), typed, "several types"),
        ]:
            with pytest.raises(ValueError, match=why):
                edgecut.torch.inference(model, graph)
        with pytest.raises(TypeError, match="`model`, a Doubled, has its own `forward`"):
            edgecut.torch.inference(Doubled(store.num_features, 8, num_layers=2).eval(), store)
        with pytest.raises(TypeError, match="must be one of PyG's, such as GraphSAGE, not Linear"):
            edgecut.torch.inference(torch.nn.Linear(2, 2), store)

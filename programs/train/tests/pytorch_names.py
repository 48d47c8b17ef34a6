# Compares models of PyTorch Geometric with our outputs. The functions of docs/src/models.md precede these lines.
import json
import numpy as np
from safetensors import safe_open


def assert_close(found, logits, what):
    expected = torch.from_numpy(np.load(logits))
    assert found.shape == expected.shape, (what, found.shape, expected.shape)
    difference = ((found - expected).abs() / expected.abs().clamp(min=1)).max().item()
    assert difference <= 1e-5, f"{what}: outputs differ by {difference}"
    # Untrained or unread weights would give the same row for all nodes.
    assert expected.std(dim=0).min() > 1e-3, what


def check_stack(number, convs):
    x = torch.from_numpy(np.load("x.npy"))
    edge_index = torch.from_numpy(np.load("edge_index.npy")).long()
    norms = load_stack(convs, f"model-{number}.safetensors")
    with torch.no_grad():
        assert_close(forward(convs, norms, x, edge_index), f"logits-{number}.npy", str(convs))


def check_relational():
    with safe_open("model.safetensors", "pt") as file:
        graph = json.loads(file.metadata()["config"])["graph"]
    x = {}
    for number, nodes in enumerate(graph["node_types"]):
        if nodes["feature_dim"] > 0:
            x[number] = torch.from_numpy(np.load(f"x_{nodes['name']}.npy"))
    embeddings = load_embeddings("model.safetensors")
    assert sorted(embeddings) == ["v2"], embeddings.keys()
    edges = [torch.from_numpy(np.load(f"edges_{edges['relation']}.npy")) for edges in graph["edge_types"]]
    with torch.no_grad():
        assert_close(rgcn("model.safetensors", graph, x, embeddings, edges)[0], "logits.npy", "R-GCN")

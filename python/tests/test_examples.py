"""The programs and the notebook in `python/examples`, on generated graphs and on Cora."""

import json
import os
import pathlib
import re

import numpy as np
import pytest
from conftest import PATIENCE, ROOT, finished, free_ports, start

import edgecut

pytest.importorskip("torch_geometric.nn", reason="PyTorch Geometric (torch_geometric) is missing")

EXAMPLES = ROOT / "python" / "examples"
DATA = pathlib.Path(os.environ.get("EDGECUT_DATA", ROOT.parent / "shared" / "data"))


@pytest.fixture(autouse=True)
def one_thread_per_process(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def two_parts(dataset, folder):
    edgecut.partition(dataset, 2, folder, method="ldg")
    return folder


def save(folder, **arrays):
    folder.mkdir(parents=True)
    for name, values in arrays.items():
        np.save(folder / f"{name}.npy", values)


def learnable(num_nodes):
    """Features that tell the class, and a split."""
    random = np.random.default_rng(0)
    y = random.integers(0, 4, num_nodes)
    x = random.normal(size=(num_nodes, 8)).astype(np.float32)
    x[np.arange(num_nodes), y] += 3
    return {"x": x, "y": y, "train_idx": np.arange(num_nodes)[::2], "test_idx": np.arange(num_nodes)[1::2]}


def edges(num_src, num_dst):
    random = np.random.default_rng(1)
    return np.stack([random.integers(0, num_src, 1500), random.integers(0, num_dst, 1500)])


@pytest.fixture(scope="module")
def homogeneous_parts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("homogeneous")
    nodes = learnable(400)
    nodes["val_idx"] = nodes["test_idx"][::2]
    nodes["test_idx"] = nodes["test_idx"][1::2]
    save(folder / "graph", edge_index=edges(400, 400), **nodes)
    return two_parts(folder / "graph", folder / "parts")


@pytest.fixture(scope="module")
def typed_parts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("typed")
    save(folder / "graph" / "nodes" / "paper", **learnable(400))
    save(folder / "graph" / "nodes" / "author", x=np.ones((100, 8), np.float32))
    for name, sizes in [
        ("paper__cites__paper", (400, 400)),
        ("author__writes__paper", (100, 400)),
        ("paper__by__author", (400, 100)),
    ]:
        save(folder / "graph" / "edges" / name, edge_index=edges(*sizes))
    return two_parts(folder / "graph", folder / "parts")


@pytest.mark.parametrize("kind", ["homogeneous", "typed"])
def test_the_program_after_pygs_example_learns(request, tmp_path, monkeypatch, kind):
    torch = pytest.importorskip("torch")
    if kind == "typed" and int(torch.__version__.split(".")[0]) < 2:
        pytest.skip("PyG 2.8 traces models for to_hetero on PyTorch 2 only")
    parts = request.getfixturevalue(f"{kind}_parts")
    monkeypatch.chdir(tmp_path)
    flags = ("--num_neighbors", "5,3", "--num_epochs", 5, "--batch_size", 20, "--num_workers", 1, "--logging")
    ports = free_ports(2)
    flags += ("--ddp_port", ports[0], "--train_loader_port", ports[1], "--master_addr", "127.0.0.1")
    ranks = []
    for rank in range(2):
        ranks += start(EXAMPLES / "node_ogb_cpu.py", 1, "--dataset_root_dir", parts, "--node_rank", rank, *flags)
    printed = finished(ranks)
    for rank, text in enumerate(printed):
        assert len(re.findall(rf"\[Node {rank}\] Train epoch \d END: loss=", text)) == 5, text
    # Both processes print the accuracy over all nodes.
    accuracies = {re.search(r"Test epoch 5 END: acc=([\d.]+)", text)[1] for text in printed}
    assert len(accuracies) == 1 and float(accuracies.pop()) > 0.6
    assert sorted(file.name for file in tmp_path.iterdir()) == ["dist_cpu-node0.txt", "dist_cpu-node1.txt"]


def test_the_program_after_dgls_example_learns(homogeneous_parts):
    flags = ("--part_config", homogeneous_parts, "--fan_out", "3,5", "--num_epochs", 5, "--batch_size", 20, "--lr", 0.01)
    printed = finished(start(EXAMPLES / "node_classification.py", 2, *flags, "--log_every", 2))
    num_seeds = 0
    for rank, text in enumerate(printed):
        assert f"Part {rank} | Epoch 00001 | Step 00001 | Loss" in text
        seeds = re.findall(r"#seeds: (\d+)", text)
        assert len(seeds) == 5 and len(set(seeds)) == 1, text
        num_seeds += int(seeds[0])
        accuracy = re.search(r"Summary of node classification\(GraphSAGE\): .* TestAccuracy ([\d.]+)", text)[1]
        assert float(accuracy) > 0.5, text
    # Together the processes take every training node once per epoch.
    assert num_seeds == 200


def test_fan_outs_and_layers_must_agree(homogeneous_parts):
    rank, = start(EXAMPLES / "node_classification.py", 1, "--part_config", homogeneous_parts, "--num_layers", 3)
    _, errors = rank.communicate(timeout=PATIENCE)
    assert rank.returncode == 1 and "--fan_out 10,25 has 2 numbers, but --num_layers is 3" in errors


def test_the_notebook_runs(tmp_path, monkeypatch):
    if not (DATA / "cora").exists():
        pytest.skip(f"there is no dataset {DATA / 'cora'} (EDGECUT_DATA)")
    monkeypatch.setenv("EDGECUT_DATA", str(DATA))
    monkeypatch.chdir(tmp_path)
    cells = json.loads((EXAMPLES / "cora.ipynb").read_text())["cells"]
    assert all(not cell["outputs"] for cell in cells if cell["cell_type"] == "code"), "clear the outputs before a commit"
    names = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    assert names["losses"][-1] < names["losses"][0] / 4
    assert names["test_accuracy"] > 0.7
    assert names["difference"] < 1e-4
    # The branch for readers who do not have the arrays yet.
    data = {
        **learnable(40),
        "edge_index": edges(40, 40),
        **{name: np.arange(40) % 3 == at for at, name in enumerate(("train_mask", "val_mask", "test_mask"))},
    }
    names["save_arrays"]({name: names["torch"].from_numpy(values) for name, values in data.items()}, tmp_path / "saved")
    assert edgecut.open(tmp_path / "saved").num_classes == 4

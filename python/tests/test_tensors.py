"""Arrays of batches as tensors, and the interfaces of the package."""

import doctest
import gc
import importlib
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest

import edgecut


def test_tensors_share_the_memory_of_arrays_and_outlive_the_loader(parts):
    torch = pytest.importorskip("torch")
    store = edgecut.open(parts[1])
    batch = next(iter(edgecut.NeighborLoader(store, [5], batch_size=100, output="numpy")))
    tensors = {}
    for name, array in batch.items():
        if not isinstance(array, np.ndarray):
            continue
        assert array.flags.writeable and array.flags.c_contiguous and array.__dlpack_device__() == (1, 0)
        tensors[name] = torch.from_dlpack(array)
        assert tensors[name].data_ptr() == array.ctypes.data, name
    assert {"x", "edge_index", "n_id"} <= tensors.keys()
    copies = {name: tensor.clone() for name, tensor in tensors.items()}
    # A write is visible in both.
    batch["x"][0, 0] = 7
    assert tensors["x"][0, 0] == 7
    copies["x"][0, 0] = 7
    del batch, array
    store.close()
    del store
    gc.collect()
    # Memory that was freed would be used again.
    with edgecut.open(parts[1]) as store:
        list(edgecut.NeighborLoader(store, [5], batch_size=100, output="numpy"))
    for name, tensor in tensors.items():
        assert torch.equal(tensor, copies[name]), name


def test_batches_trim_to_layers(parts, typed_parts):
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch_geometric")
    from torch_geometric.nn import SAGEConv
    from torch_geometric.utils import trim_to_layer

    with edgecut.open(parts[1]) as store:
        batch = next(iter(edgecut.NeighborLoader(store, [4, 3, 2], "train", batch_size=32)))
        assert len(batch.num_sampled_nodes) == 4 and len(batch.num_sampled_edges) == 3
        assert sum(batch.num_sampled_nodes) == batch.num_nodes and sum(batch.num_sampled_edges) == batch.num_edges
        sizes = [store.num_features, 8, 8, 5]
        layers = [SAGEConv(before, after) for before, after in zip(sizes, sizes[1:])]
        whole, x, edges = batch.x, batch.x, batch.edge_index
        for number, layer in enumerate(layers):
            whole = layer(whole, batch.edge_index)
            x, edges, _ = trim_to_layer(number, batch.num_sampled_nodes, batch.num_sampled_edges, x, edges)
            x = layer(x, edges)
        # The last layer computes the seeds and the nodes of the first hop.
        assert len(x) == sum(batch.num_sampled_nodes[:2])
        assert torch.allclose(x[:32], whole[:32], atol=1e-5)
    with edgecut.open(typed_parts[1]) as store:
        batch = next(iter(edgecut.NeighborLoader(store, [4, 3], ("v0", "train"), batch_size=32)))
        x, edges, _ = trim_to_layer(
            1, batch.num_sampled_nodes_dict, batch.num_sampled_edges_dict, batch.x_dict, batch.edge_index_dict
        )
        for name, features in x.items():
            assert len(features) == sum(batch[name].num_sampled_nodes[:-1])
        inner = {name: sum(sizes[:-1]) for name, sizes in batch.num_sampled_nodes_dict.items()}
        for edge_type, ends in edges.items():
            assert ends.shape[1] == sum(batch[edge_type].num_sampled_edges[:-1])
            if ends.numel() > 0:
                assert ends[0].max() < inner[edge_type[0]] and ends[1].max() < inner[edge_type[2]]


def test_the_examples_of_docstrings_run():
    run = 0
    modules = ("graph_dataset", "graph_loader", "store", "loader", "link_loader", "cluster_loader")
    for module in ("edgecut", *(f"edgecut.{name}" for name in modules)):
        result = doctest.testmod(importlib.import_module(module), optionflags=doctest.NORMALIZE_WHITESPACE)
        assert result.failed == 0, module
        run += result.attempted
    assert run > 20


def test_public_names_have_documentation():
    for name in edgecut.__all__:
        value = getattr(edgecut, name)
        assert value.__doc__, name
        for member in getattr(value, "__all__", vars(value)):
            function = getattr(value, member)
            if callable(function) and not member.startswith("_"):
                assert function.__doc__, f"{name}.{member}"


def test_stubs_describe_the_native_module(tmp_path):
    pytest.importorskip("mypy")
    done = subprocess.run(
        [sys.executable, "-m", "mypy.stubtest", "edgecut._edgecut", "--ignore-missing-stub"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_types_of_the_package_are_consistent(tmp_path):
    pytest.importorskip("mypy")
    # A copy, since mypy would take the whole folder of installed packages for the program.
    copy = tmp_path / "edgecut"
    shutil.copytree(pathlib.Path(edgecut.__file__).parent, copy, ignore=shutil.ignore_patterns("torch", "__pycache__", "*.so"))
    files = copy.glob("*.py")
    command = [sys.executable, "-m", "mypy", "--ignore-missing-imports", "--follow-imports=silent", *map(str, files)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr

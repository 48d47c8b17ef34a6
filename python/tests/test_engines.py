"""The examples for Ray Train and Lightning, with the real packages, on two parts of a graph."""

import importlib.util
import os
import subprocess
import sys

import pytest
from conftest import PATIENCE, ROOT

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

EXAMPLES = ROOT / "python" / "examples"


def run_example(name, *arguments):
    """Run an example, and return what it has printed."""
    command = [sys.executable, EXAMPLES / name, *arguments]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0"}
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=PATIENCE, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def accuracy(output):
    return float(output.split("test accuracy ")[1].split(" %")[0])


def test_two_workers_of_ray_train_together(parts, tmp_path):
    if importlib.util.find_spec("ray") is None:
        pytest.skip("ray is missing: pip install 'ray[train]'")
    pytest.importorskip("safetensors")
    import edgecut.torch

    output = run_example("ray_train.py", parts[2], "--storage-path", tmp_path)
    assert accuracy(output) > 80, output
    folder = output.split("model in ")[1].splitlines()[0]
    assert len(edgecut.torch.load_model(os.path.join(folder, "model.safetensors")).layers) == 2


def test_two_processes_of_lightning_train_together(parts):
    if importlib.util.find_spec("lightning") is None:
        pytest.skip("lightning is missing: pip install lightning")
    if torch.__version__.startswith("1."):
        pytest.skip("Lightning works with PyTorch 2 only")
    assert accuracy(run_example("lightning_sage.py", parts[2])) > 80

"""The examples for Ray Train and Lightning, with the real packages, on two parts of a graph."""

import importlib.util
import os
import subprocess
import sys
import textwrap

import pytest
from conftest import PATIENCE, ROOT

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

EXAMPLES = ROOT / "python" / "examples"


def run_example(name, *arguments, **variables):
    """Run an example, and return what it has printed."""
    command = [sys.executable, EXAMPLES / name, *arguments]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0", **variables}
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


def lightning_on_pytorch_1(folder):
    """Return the environment in which Lightning's modules can be created on PyTorch 1 and Python 3.11.

    They import PyTorch's module of sharded tensors, which Python 3.11 refuses (a mutable default in a dataclass). Nothing
    here is sharded, so functions that do nothing take the place of its hooks, in all processes.
    """
    if not torch.__version__.startswith("1.") or sys.version_info < (3, 11):
        return {}
    stand_in = """
        import sys, types

        sharded = types.ModuleType("torch.distributed._shard.sharded_tensor")
        sharded.pre_load_state_dict_hook = sharded.state_dict_hook = lambda *arguments: None
        sys.modules["torch.distributed._shard"] = types.ModuleType("torch.distributed._shard")
        sys.modules["torch.distributed._shard.sharded_tensor"] = sharded
    """
    (folder / "sitecustomize.py").write_text(textwrap.dedent(stand_in))
    return {"PYTHONPATH": os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])}


def test_two_processes_of_lightning_train_together(parts, tmp_path):
    if importlib.util.find_spec("lightning") is None:
        pytest.skip("lightning is missing: pip install lightning")
    output = run_example("lightning_sage.py", parts[2], **lightning_on_pytorch_1(tmp_path))
    assert accuracy(output) > 80, output

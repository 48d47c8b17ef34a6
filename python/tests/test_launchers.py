"""Jobs that `launch` and torchrun start, and the port of rank 0."""

import os
import shutil
import subprocess
import sys

import pytest
from conftest import PATIENCE, PROGRAMS, ROOT, finished, free_ports, start

EXAMPLE = ROOT / "python" / "examples" / "ddp_sage.py"


def accuracy(output):
    return float(output.split("test accuracy ")[1].split(" %")[0])


@pytest.fixture
def ssh(tmp_path):
    """The port of an SSH server on this machine, and the configuration of its client."""
    sshd = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:" + os.environ["PATH"])
    if sshd is None:
        pytest.skip("openssh-server is missing (namespaces)")
    if os.geteuid() == 0:
        os.makedirs("/run/sshd", exist_ok=True)
    for key in ("user_key", "host_key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / key], check=True)
    port = free_ports(1)[0]
    server = [
        f"ListenAddress 127.0.0.1\nPort {port}\nHostKey {tmp_path}/host_key\nAuthorizedKeysFile {tmp_path}/user_key.pub",
        "PidFile none\nUsePAM no\nStrictModes no\nPasswordAuthentication no\nKbdInteractiveAuthentication no",
        f"PermitRootLogin yes\nSetEnv XDG_CACHE_HOME={tmp_path}/cache\n",
    ]
    tmp_path.joinpath("sshd_config").write_text("\n".join(server))
    user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
    client = [
        f"IdentityFile {tmp_path}/user_key\nIdentitiesOnly yes\nUser {user}\nGlobalKnownHostsFile /dev/null",
        f"UserKnownHostsFile {tmp_path}/known_hosts\nStrictHostKeyChecking accept-new\n",
    ]
    tmp_path.joinpath("ssh_config").write_text("\n".join(client))
    with subprocess.Popen([sshd, "-D", "-e", "-f", tmp_path / "sshd_config"], stderr=subprocess.PIPE, text=True) as process:
        for line in process.stderr:
            if "Server listening" in line:
                break
        yield port, tmp_path / "ssh_config"
        process.kill()


def launch(ssh, tmp_path, *command):
    """Run two processes of a command by `launch`."""
    port, config = ssh
    tmp_path.joinpath("ip_config.yaml").write_text("127.0.0.1\n")
    flags = ["--ip-config", tmp_path / "ip_config.yaml", "--ssh-config", config, "--ssh-port", port, "--num-training-procs", 2]
    if "PYTHONPATH" in os.environ:
        flags += ["--extra-envs", f"PYTHONPATH={os.environ['PYTHONPATH']}"]
    flags += ["--master-port", free_ports(2)[0], "--workspace", tmp_path]
    flags = [PROGRAMS / "launch", *flags, "--", *command]
    return subprocess.run(list(map(str, flags)), capture_output=True, text=True, timeout=PATIENCE, stdin=subprocess.DEVNULL)


def test_launch_starts_processes_that_train_together(parts, ssh, tmp_path):
    pytest.importorskip("torch_geometric")
    done = launch(ssh, tmp_path, sys.executable, EXAMPLE, parts[2], "--num-epochs", 3)
    assert done.returncode == 0, done.stdout + done.stderr
    assert accuracy(done.stdout) > 50, done.stdout


def test_launch_ends_a_job_whose_process_fails(parts, ssh, tmp_path):
    program = tmp_path / "fail.py"
    program.write_text(
        "import sys, edgecut\n"
        "edgecut.distributed.init()\n"
        "store = edgecut.open(sys.argv[1])\n"
        "print('rank', store.rank, 'of', store.world_size, flush=True)\n"
        "if store.rank == 1:\n"
        "    sys.exit(4)\n"
        "store.close()\n"
    )
    done = launch(ssh, tmp_path, sys.executable, program, parts[2])
    assert done.returncode != 0
    assert "rank 0 of 2" in done.stdout and "rank 1 of 2" in done.stdout, done.stdout + done.stderr


def test_torchrun_starts_processes_that_train_together(parts):
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch_geometric")
    if sys.version_info >= (3, 11) and torch.__version__.startswith("1."):
        pytest.skip("torchrun of PyTorch 1 does not run in Python 3.11")
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", "--master_addr", "127.0.0.1"]
    command += ["--master_port", str(free_ports(2)[0]), str(EXAMPLE), str(parts[2]), "--num-epochs", "3"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stdout + done.stderr
    assert accuracy(done.stdout) > 50, done.stdout


AFTER_PYTORCH = """
import os, socket, sys, edgecut, torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()
# Another program has taken the port after PyTorch's.
taken = socket.socket()
taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
if rank == 0:
    taken.bind(("127.0.0.1", int(os.environ["MASTER_PORT"]) + 1))
    taken.listen()
dist.barrier()
edgecut.distributed.init({arguments})
with edgecut.open(sys.argv[1]) as store, edgecut.fake_graphs(20) as graphs:
    assert store.rank == graphs.rank == rank and store.world_size == graphs.world_size == 2
    print(sum(batch["batch_size"] for batch in edgecut.NeighborLoader(store, [3], batch_size=100, output="numpy")))
dist.destroy_process_group()
"""


SPAWNED = """
import os, sys, edgecut, numpy as np, torch, torch.distributed as dist, torch.multiprocessing as mp

def work(rank, path, rendezvous, folder):
    # As Lightning sets it in each process, without RANK.
    os.environ["WORLD_SIZE"] = "2"
    dist.init_process_group("gloo", init_method=rendezvous, rank=rank, world_size=2)
    alone, graphs = edgecut.open(path), edgecut.fake_graphs(20)
    for make in (
        lambda: edgecut.NeighborLoader(alone, [3], "train", batch_size=100),
        lambda: edgecut.LinkNeighborLoader(alone, [3], batch_size=100),
        lambda: edgecut.GraphDataLoader(graphs, batch_size=100),
    ):
        try:
            make()
        except edgecut.EdgecutError as error:
            assert "each of the 2 processes" in str(error) and "edgecut.distributed.init()" in str(error), error
        else:
            raise AssertionError("each process loads everything")
    edgecut.distributed.init(join=False)
    assert not edgecut.distributed.is_initialized()
    own = edgecut.NeighborLoader(alone, [3], np.arange(rank, 2000, 2), batch_size=100, output="numpy")
    assert sum(batch["batch_size"] for batch in own) == 1000 and edgecut.open(path).world_size == 1
    edgecut.distributed.init()
    assert edgecut.distributed.is_initialized()
    with edgecut.open(path) as store, edgecut.fake_graphs(20) as graphs:
        assert store.rank == graphs.rank == rank and store.world_size == graphs.world_size == 2
        loader = edgecut.NeighborLoader(store, [3], batch_size=100, output="numpy")
        seen = torch.tensor([sum(batch["batch_size"] for batch in loader), len(list(edgecut.GraphDataLoader(graphs)))])
    dist.all_reduce(seen)
    assert seen.tolist() == [2000, 20], seen
    # PyTorch's threads must not need Python's lock while Python ends.
    dist.destroy_process_group()

if __name__ == "__main__":
    mp.spawn(work, sys.argv[1:], nprocs=2)
"""


def test_the_ranks_are_those_of_pytorch(parts, tmp_path):
    """`mp.spawn` sets no variables of a launcher, and Lightning only some."""
    pytest.importorskip("torch")
    program = tmp_path / "spawned.py"
    program.write_text(SPAWNED)
    env = {name: value for name, value in os.environ.items() if name not in ("RANK", "MASTER_ADDR", "MASTER_PORT")}
    command = [sys.executable, program, parts[2], f"file://{tmp_path}/rendezvous", tmp_path]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr


ENCRYPTED = """
import os, sys, edgecut
edgecut.distributed.init()
encrypt = os.environ["RANK"] in sys.argv[2]
with edgecut.open(sys.argv[1], encrypt=encrypt) as store, edgecut.fake_graphs(20, encrypt=encrypt) as graphs:
    print(sum(batch["batch_size"] for batch in edgecut.NeighborLoader(store, [3], batch_size=100, output="numpy")))
"""


def test_connections_of_a_job_can_be_encrypted(parts, monkeypatch):
    monkeypatch.setenv("EDGECUT_TOKEN", "a secret of the test")
    outputs = finished(start(ENCRYPTED, 2, parts[2], "01"))
    assert sum(int(out) for out in outputs) == 2000, outputs
    # All processes must agree.
    first, second = start(ENCRYPTED, 2, parts[2], "0")
    _, errors = second.communicate(timeout=PATIENCE)
    first.kill()
    first.communicate()
    assert second.returncode == 1 and "encrypt" in errors, errors


def test_the_port_of_rank_0_is_free_if_pytorch_can_tell_it(parts):
    pytest.importorskip("torch")
    outputs = finished(start(AFTER_PYTORCH.replace("{arguments}", ""), 2, parts[2]))
    assert sum(int(out) for out in outputs) == 2000, outputs
    # A port that is given is used.
    given = free_ports(2)[0]
    finished(start(AFTER_PYTORCH.replace("{arguments}", f"master_port={given}"), 2, parts[2]))

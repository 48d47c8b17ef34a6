"""Graphs and processes for the tests."""

import os
import pathlib
import socket
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The time limit in seconds of every wait. Nothing takes that long, even on a busy machine.
PATIENCE = 300
PROGRAMS = pathlib.Path(os.environ.get("EDGECUT_BIN", ROOT / "target" / "release"))

# The variables of launchers, of which the programs of tests would take their rank.
_OF_LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_", "NODE_RANK", "JOB_COMPLETION_INDEX", "MASTER_", "TORCHELASTIC_", "SLURM_", "OMPI_", "PMI")
for name in [name for name in os.environ if name.startswith(_OF_LAUNCHERS)]:
    del os.environ[name]

_started = []


@pytest.fixture(autouse=True)
def started_processes_end():
    """Kill the processes of `start` that a failed test leaves behind."""
    yield
    while _started:
        with _started.pop() as process:
            process.kill()


def run(program, *flags):
    """Run a program of Edgecut, and return its standard output."""
    done = subprocess.run([PROGRAMS / program, *map(str, flags)], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return done.stdout


def partition(folder, dataset, num_parts, *flags):
    run("partition-graph", "--dataset", dataset, "--num-partitions", num_parts, "--output-dir", folder, *flags)
    return folder


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("graphs")


@pytest.fixture(scope="session")
def parts(folder):
    """Parts of a graph by their number."""
    flags = ("--avg-num-nodes", 2000, "--edge-attributes", "--method", "ldg")
    return {n: partition(folder / f"fake-{n}", "fake", n, *flags) for n in (1, 2)}


@pytest.fixture(scope="session")
def typed_parts(folder):
    flags = ("--avg-num-nodes", 900, "--method", "ldg")
    return {n: partition(folder / f"typed-{n}", "fake-hetero", n, *flags) for n in (1, 2)}


# UDP sockets that reserve the TCP ports with their numbers among tests.
_reserved = []


def free_ports(number):
    """Return successive TCP ports at which no process listens, as `free_ports` of the crate `edgecut-testing` does.

    They are below the ports that Linux gives to sockets that ask for any port, and no other call returns them until this
    process ends.
    """
    first, num_ports = 20_000, 9_000
    found = []
    for offset in range(num_ports):
        port = first + (os.getpid() * 97 + offset) % num_ports
        if found and found[-1].getsockname()[1] + 1 != port:
            found = []
        reserving = socket.socket(type=socket.SOCK_DGRAM)
        try:
            reserving.bind(("127.0.0.1", port))
            with socket.socket() as listener:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.bind(("0.0.0.0", port))
                listener.listen()
        except OSError:
            found = []
            continue
        found.append(reserving)
        if len(found) == number:
            _reserved.extend(found)
            return [one.getsockname()[1] for one in found]
    raise OSError(f"no {number} successive ports from {first} on are free")


def start(program, world_size, *arguments, only=None):
    """Start the ranks of a job, or only some, as torchrun does, each running Python code or a file in Python."""
    # PyTorch listens on the first port, Edgecut on the next ones, one for each store.
    port = free_ports(4)[0]
    ranks = []
    for rank in range(world_size) if only is None else only:
        env = {
            **os.environ,
            "RANK": str(rank),
            "WORLD_SIZE": str(world_size),
            "LOCAL_RANK": str(rank),
            "LOCAL_WORLD_SIZE": str(world_size),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
        }
        code = [program] if isinstance(program, pathlib.Path) else ["-c", program]
        command = [sys.executable, *map(str, [*code, *arguments])]
        ranks.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    _started.extend(ranks)
    return ranks


def finished(ranks):
    """Wait for processes, which must succeed, and return what each has printed."""
    results = [rank.communicate(timeout=PATIENCE) for rank in ranks]
    assert all(rank.returncode == 0 for rank in ranks), "".join(errors for _, errors in results)
    return [output for output, _ in results]


# Reasons to skip a test although EDGECUT_REQUIRE is set: packages that are large, that have no wheels for CPUs alone or that only
# an optional step needs, and what Debian's PyTorch cannot do.
MAY_LACK = [
    "'dgl'",
    "pyg-lib",
    "PyTorch 1 ",
    "PyTorch 2 only",
]


def fail_if_required(report):
    """Turn a skipped test into a failed one where EDGECUT_REQUIRE is set, but for the needs in EDGECUT_MAY_LACK."""
    if not report.skipped or hasattr(report, "wasxfail") or "EDGECUT_REQUIRE" not in os.environ:
        return report
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    allowed = [need for need in os.environ.get("EDGECUT_MAY_LACK", "").split(",") if need]
    if not any(text in reason for text in MAY_LACK + allowed):
        report.outcome = "failed"
        report.longrepr = f"the test must run here (EDGECUT_REQUIRE is set), but: {reason}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    return fail_if_required((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    return fail_if_required((yield))

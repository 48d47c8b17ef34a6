"""Batches that sampling servers make."""

import os
import pickle
import subprocess
import sys
import time

import numpy as np
import pytest
from conftest import PATIENCE, PROGRAMS, finished, free_ports, start
from test_loader import OF_THEIR_OWN

import edgecut


class Servers:
    """Running `sampling-server` processes, one per part."""

    def __init__(self, parts, num_servers, *flags, **variables):
        self.addresses = [f"127.0.0.1:{port}" for port in free_ports(num_servers)]
        command = [PROGRAMS / "sampling-server", "--dataset-root-dir", parts, "--servers", ",".join(self.addresses), *flags]
        self.processes = [
            subprocess.Popen(
                [*map(str, command), "--server-rank", str(rank)],
                env={**os.environ, **variables},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            for rank in range(num_servers)
        ]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def servers(parts):
    with Servers(parts[2], 2) as running:
        yield running


def same(one, other):
    assert one.keys() == other.keys()
    for name in one:
        assert np.array_equal(one[name], other[name]), name


def test_a_client_has_the_batches_of_a_local_loader(parts, servers):
    draw = np.random.default_rng(2)
    ids = draw.permutation(2000)[:200]
    edges = draw.integers(0, 2000, (2, 150))
    with edgecut.connect(servers.addresses) as store, edgecut.open(parts[2]) as local:
        # The parts of the folder, also in a process that holds all of them.
        assert repr(store) == repr(local) and store.num_parts == local.num_parts == 2
        assert (store.rank, store.world_size) == (0, 1)
        for arguments in [{}, {"shuffle": True}, {"weight_attr": "edge_weight"}, {"disjoint": True}, {"replace": True}]:
            load = lambda s: list(edgecut.NeighborLoader(s, [5, 3], ids, batch_size=64, seed=3, output="numpy", **arguments))
            made, expected = load(store), load(local)
            assert len(made) == 4
            for one, other in zip(made, expected, strict=True):
                same(one, other)
        load = lambda s: list(
            edgecut.LinkNeighborLoader(s, [4, 3], edges, neg_sampling="triplet", batch_size=64, seed=7, output="numpy")
        )
        for one, other in zip(load(store), load(local), strict=True):
            same(one, other)
        # All nodes and edges of a split, in any order.
        seeds = lambda s: sorted(
            np.concatenate([b["n_id"][: b["batch_size"]] for b in edgecut.NeighborLoader(s, [2], "train", batch_size=64, output="numpy")])
        )
        assert seeds(store) == seeds(local) == local.split("train").tolist() == store.split("train").tolist()
        count = lambda s: sum(b["batch_size"] for b in edgecut.LinkNeighborLoader(s, [2], batch_size=500, output="numpy"))
        assert count(store) == count(local) == local.edge_types[0].num_edges


CLIENTS = """
import pickle, sys, edgecut
edgecut.distributed.init()
with {open} as store:
    loader = edgecut.NeighborLoader(store, [5, 3], "train", batch_size=64, shuffle=True, seed=3, output="numpy")
    links = edgecut.LinkNeighborLoader(store, [5], "train", neg_sampling="binary", batch_size=500, output="numpy")
    pickle.dump((list(loader), list(links)), open(sys.argv[2] + str(store.rank), "wb"))
"""


def test_as_many_clients_as_parts_have_the_batches_of_ranks(parts, servers, tmp_path):
    for name, opened in [("clients", "edgecut.connect()"), ("ranks", "edgecut.open(sys.argv[1])")]:
        os.environ["EDGECUT_SERVERS"] = ",".join(servers.addresses)
        try:
            ranks = start(CLIENTS.replace("{open}", opened), 2, parts[2], tmp_path / name)
        finally:
            del os.environ["EDGECUT_SERVERS"]
        finished(ranks)
    for rank in range(2):
        clients, ranks = (pickle.loads((tmp_path / f"{name}{rank}").read_bytes()) for name in ("clients", "ranks"))
        for of_clients, of_ranks in zip(clients, ranks, strict=True):
            assert len(of_clients) > 3
            for one, other in zip(of_clients, of_ranks, strict=True):
                same(one, other)


def test_clients_with_inputs_or_settings_of_their_own_are_refused(servers, monkeypatch):
    monkeypatch.setenv("EDGECUT_SERVERS", ",".join(servers.addresses))
    finished(start(OF_THEIR_OWN, 2, "servers"))


def test_a_dead_server_is_an_error_that_names_it(parts):
    with Servers(parts[2], 2) as servers:
        store = edgecut.connect(",".join(servers.addresses))
        loader = edgecut.NeighborLoader(store, [5, 5], batch_size=10, output="numpy")
        batches = iter(loader)
        next(batches)
        servers.processes[1].kill()
        with pytest.raises(edgecut.EdgecutError, match=servers.addresses[1]):
            for _ in batches:
                pass


def test_wrong_servers_are_errors(servers, monkeypatch):
    monkeypatch.delenv("EDGECUT_SERVERS", raising=False)
    for why, addresses in [
        ("EDGECUT_SERVERS is not set", None),
        ("twice", [servers.addresses[0]] * 2),
        ("HOST:PORT|port", ["127.0.0.1"]),
    ]:
        with pytest.raises(ValueError, match=why):
            edgecut.connect(addresses)
    with pytest.raises(edgecut.EdgecutError, match="order|server"):
        edgecut.connect(servers.addresses[::-1])
    free = f"127.0.0.1:{free_ports(1)[0]}"
    with pytest.raises(edgecut.EdgecutError, match=free):
        edgecut.connect(free, timeout=0.5)
    with pytest.raises(ValueError, match="`timeout`"):
        edgecut.connect(free, timeout=-1)


def test_servers_that_encrypt_need_clients_that_encrypt(parts, monkeypatch):
    monkeypatch.setenv("EDGECUT_TOKEN", "a secret of more than sixteen characters")
    with Servers(parts[1], 1, "--encrypt") as servers:
        with edgecut.connect(servers.addresses, encrypt=True) as store:
            assert sum(b["batch_size"] for b in edgecut.NeighborLoader(store, [2], "train", output="numpy", batch_size=64)) > 0
        with pytest.raises(edgecut.EdgecutError, match="encrypt"):
            edgecut.connect(servers.addresses)


def test_an_interrupt_ends_the_wait_for_servers(servers):
    program = """
import sys, edgecut
store = edgecut.connect(sys.argv[1])
loader = edgecut.NeighborLoader(store, [100, 100, 100], batch_size=2000, disjoint=True, num_workers=1, output="numpy")
print("working", flush=True)
while True:
    list(loader)
"""
    child = subprocess.Popen(
        [sys.executable, "-c", program, ",".join(servers.addresses)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout.readline() == "working\n"
    time.sleep(0.5)
    child.send_signal(2)
    _, errors = child.communicate(timeout=PATIENCE)
    assert "KeyboardInterrupt" in errors, errors

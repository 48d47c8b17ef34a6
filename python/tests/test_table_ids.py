"""Ids of tables: `Store.ids` and `Store.lookup` for nodes of parts."""

import shutil
import subprocess
import sys

import numpy as np
import pytest
from conftest import PATIENCE, run
from test_servers import Servers

import edgecut

pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is missing: pip install edgecut[convert]")

CONF = """
nodes:
  - {node_type: customer, files: customers.csv, node_id_col: id, features: [{feature_col: x}]}
  - {node_type: shop, files: shops.csv, node_id_col: id, features: [{feature_col: x}]}
  - {node_type: day, files: days.csv, features: [{feature_col: x}]}
edges:
  - {relation: [customer, buys, shop], files: buys.csv, source_id_col: a, dest_id_col: b}
  - {relation: [shop, opens, day], files: opens.csv, source_id_col: a, dest_id_col: b}
"""
CUSTOMERS = [f"ü-{number * 7 % 40:02}" for number in range(40)]
SHOPS = [1000 + number * 3 % 20 for number in range(20)]


@pytest.fixture(scope="module")
def shop_parts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shop")
    for name, header, rows in [
        ("customers", "id,x", [f"{customer},{row}" for row, customer in enumerate(CUSTOMERS)]),
        ("shops", "id,x", [f"{shop},{row}" for row, shop in enumerate(SHOPS)]),
        ("days", "x", list(map(str, range(5)))),
        ("buys", "a,b", [f"{customer},{SHOPS[row % 20]}" for row, customer in enumerate(CUSTOMERS)]),
        ("opens", "a,b", [f"{shop},{row % 5}" for row, shop in enumerate(SHOPS)]),
    ]:
        (folder / f"{name}.csv").write_text("\n".join([header, *rows]) + "\n")
    (folder / "graph.yaml").write_text(CONF)
    out = folder / "parts"
    flags = ("--dataset", "shop", "--num-partitions", 2, "--output-dir", out, "--method", "random", "--add-reverse-edges")
    run("partition-graph", "--conf", folder / "graph.yaml", *flags)
    return out


def test_numbers_of_batches_have_ids_of_tables(shop_parts, monkeypatch):
    monkeypatch.chdir(shop_parts.parent)
    with edgecut.open("parts") as store:
        monkeypatch.chdir("/")
        assert store.ids("customer").tolist() == CUSTOMERS
        assert store.ids("shop").tolist() == SHOPS and store.ids("shop").dtype == np.int64
        assert store.ids("day").tolist() == [0, 1, 2, 3, 4]
        wanted = ["ü-14", "ü-07", "ü-14"]
        numbers = store.lookup(np.array(wanted, object), "customer")
        assert numbers.tolist() == [2, 1, 2] and store.lookup(wanted, "customer").tolist() == [2, 1, 2]
        assert store.lookup(np.array([1003, 1000], np.int32), "shop").tolist() == [1, 0]
        assert store.lookup([4, 0], "day").tolist() == [4, 0]
        assert len(store.lookup([], "customer")) == 0
        loader = edgecut.NeighborLoader(store, [-1], ("customer", store.lookup(["ü-14", "ü-07"], "customer")), batch_size=2, output="numpy")
        (batch,) = loader
        assert store.ids("customer")[batch["n_id"]["customer"][:2]].tolist() == ["ü-14", "ü-07"]
        # The features of a table are the numbers of its rows.
        rows = batch["x"]["shop"][:, 0].astype(int)
        assert store.ids("shop")[batch["n_id"]["shop"]].tolist() == [SHOPS[row] for row in rows]


def test_ids_that_are_not_in_the_tables_are_errors(shop_parts, parts):
    with edgecut.open(shop_parts) as store, edgecut.open(parts[1]) as generated:
        for why, ids, node_type in [
            ("2 of 3 `ids` are no ids of customer, the first of them 'x'", ["ü-07", "x", "y"], "customer"),
            (r"the ids of customer are texts, such as \['ü-00'\]", [1, 2], "customer"),
            (r"the ids of shop are whole numbers, such as \[1000\]", ["1000"], "shop"),
            ("whole numbers, not 1 of float64", [1000.5], "shop"),
            ("must be a list of ids, not 'ü-07'", "ü-07", "customer"),
            ("must have one dimension", [["ü-07"]], "customer"),
            ("has 5, but the ids of day are row numbers below 5", [0, 5], "day"),
            ("has -1, but", [-1], "day"),
            ("`node_type` is None: choose from customer, day, shop", ["ü-07"], None),
        ]:
            with pytest.raises(ValueError, match=why):
                store.lookup(ids, node_type)
        with pytest.raises(ValueError, match=r"`input_nodes` has texts: `store.lookup\(ids, node_type\)` returns the numbers"):
            edgecut.NeighborLoader(store, [1], ("customer", ["ü-07"]))
        with pytest.raises(ValueError, match="`edge_label_index` has texts: `store.lookup"):
            edgecut.LinkNeighborLoader(store, [1], (("customer", "buys", "shop"), [["ü-07"], ["1000"]]))
        assert generated.ids().tolist() == list(range(2000)) and generated.lookup([7, 3]).tolist() == [7, 3]


def test_ids_that_are_missing_or_damaged_are_named(shop_parts, tmp_path):
    copy = tmp_path / "parts"
    shutil.copytree(shop_parts, copy)
    with edgecut.open(copy) as store:
        file = copy / "part_1" / "nodes" / "shop" / "id_map.parquet"
        content = file.read_bytes()
        file.write_bytes(content[:50])
        with pytest.raises(edgecut.EdgecutError, match="part_1/nodes/shop/id_map.parquet cannot be read: copy or partition it again"):
            store.ids("shop")
        file.write_bytes((copy / "part_0" / "nodes" / "shop" / "id_map.parquet").read_bytes())
        with pytest.raises(edgecut.EdgecutError, match="do not have each of the 20 nodes once"):
            store.ids("shop")
        file.unlink()
        with pytest.raises(edgecut.EdgecutError, match="id_map.parquet is missing: read the ids of shop on a machine that has the folders"):
            store.lookup([1000], "shop")
        file.write_bytes(content)
        assert store.ids("shop").tolist() == SHOPS


def test_ids_of_parts_that_were_replaced_are_an_error(shop_parts, tmp_path):
    folder = tmp_path / "shop"
    shutil.copytree(shop_parts.parent, folder)
    with edgecut.open(folder / "parts") as store:
        assert store.ids("shop").tolist() == SHOPS
        rows = (folder / "customers.csv").read_text().splitlines()
        (folder / "customers.csv").write_text("\n".join([rows[0], *rows[:0:-1]]) + "\n")
        flags = ("--dataset", "shop", "--num-partitions", 2, "--output-dir", folder / "parts", "--method", "random", "--overwrite")
        run("partition-graph", "--conf", folder / "graph.yaml", *flags, "--add-reverse-edges")
        why = "the parts in .* have changed since they were opened, so their nodes may have other ids: open them again"
        for read in (lambda: store.ids("customer"), lambda: store.lookup(["ü-07"], "customer"), lambda: store.class_names("customer")):
            with pytest.raises(edgecut.EdgecutError, match=why):
                read()
        # The ids that were read before belong to the open parts.
        assert store.ids("shop").tolist() == SHOPS
    with edgecut.open(folder / "parts") as store:
        assert store.ids("customer").tolist() == CUSTOMERS[::-1]


def test_ids_of_parts_on_servers_are_an_error(shop_parts):
    with Servers(shop_parts, 2) as servers, edgecut.connect(servers.addresses) as store:
        assert store.lookup([3], "day").tolist() == [3]
        with pytest.raises(ValueError, match="the ids of customer are in the parts, which servers hold: open the parts by `edgecut.open`"):
            store.ids("customer")


def test_ids_without_pyarrow_are_one_error(shop_parts):
    code = "import sys; sys.modules['pyarrow'] = None; import edgecut; store = edgecut.open(sys.argv[1]); "
    code += "print(store.ids('day').tolist()); store.ids('customer')"
    done = subprocess.run([sys.executable, "-c", code, shop_parts], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 1 and done.stdout == "[0, 1, 2, 3, 4]\n"
    assert "ValueError: ids of tables need pyarrow: pip install pyarrow" in done.stderr.splitlines()[-1]
    assert "During handling" not in done.stderr

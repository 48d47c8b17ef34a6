"""Tables that Ray Data and DuckDB write, by the programs and the lines of docs/src/tables.md."""

import json
import re

import pytest
from conftest import ROOT, run

GUIDE = (ROOT / "docs" / "src" / "tables.md").read_text()


def block(section, language):
    """Return the first block of code of a language in a section of the guide."""
    text = GUIDE.split(f"\n## {section}\n")[1].split("\n## ")[0]
    return re.search(rf"```{language}\n(.*?)```", text, re.DOTALL)[1]


def partitioned(tmp_path, conf):
    """Partition the tables of a configuration, and return the description of the parts."""
    (tmp_path / "graph.yaml").write_text(conf)
    out = tmp_path / "parts"
    flags = ["--dataset", "shop", "--num-partitions", "2", "--output-dir", out, "--json"]
    made = json.loads(run("partition-graph", "--conf", tmp_path / "graph.yaml", *flags))
    assert "all valid" in run("partition-graph", "verify", out)
    nodes = {of_type["name"]: of_type["book"][-1] for of_type in made["node_types"]}
    return nodes, [of_type["num_edges"] for of_type in made["edge_types"]], made


def test_folders_of_ray_data_are_read_as_they_are(tmp_path, monkeypatch):
    ray = pytest.importorskip("ray", reason="ray is missing")
    pytest.importorskip("ray.data", reason="ray is missing")
    monkeypatch.chdir(tmp_path)
    log = tmp_path / "data" / "log"
    log.mkdir(parents=True)
    pairs = set()
    for part in range(3):
        lines = ["who,what,day,country"]
        for row in range(20):
            who, what = f"c{(row * 7 + part) % 5}", f"p{row % 3}"
            pairs.add((who, what))
            lines.append(f"{who},{what},{19000 + row},{'FI' if who in ('c0', 'c3') else 'DE'}")
        (log / f"part-{part}.csv").write_text("\n".join(lines) + "\n")
    # A log that is too large for a process of Ray would be in more files.
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    try:
        exec(compile(block("Tables that outgrow a machine", "python"), "tables.md", "exec"), {})
    finally:
        ray.shutdown()
    conf = block("Tables that outgrow a machine", "yaml").replace("data/reduced", str(tmp_path / "data" / "reduced"))
    nodes, edges, made = partitioned(tmp_path, conf)
    assert nodes == {"customer": 5, "product": 3}
    assert edges == [len(pairs)]
    # The logarithm of the purchases, and two countries from the names of folders.
    assert next(of_type["feature_dim"] for of_type in made["node_types"] if of_type["name"] == "customer") == 3


def test_files_of_duckdb_are_read_as_they_are(tmp_path, monkeypatch):
    duckdb = pytest.importorskip("duckdb", reason="duckdb is missing")
    monkeypatch.chdir(tmp_path)
    database = duckdb.connect()
    database.sql("CREATE TABLE customers AS SELECT * FROM (VALUES ('ada', 36, 'London'), ('linus', NULL, 'Helsinki')) t(name, age, city)")
    purchases = "('ada', 'p1', 19000, 2022), ('linus', 'p1', 19010, 2022), ('ada', 'p2', 19400, 2023)"
    database.sql(f"CREATE TABLE purchases AS SELECT * FROM (VALUES {purchases}) t(who, what, day, year)")
    for line in block("Databases", "sql").splitlines():
        database.sql(line)
    conf = """
nodes:
  - node_type: customer
    files: customers.parquet
    node_id_col: name
    features:
      - {feature_col: age, impute: mean}
edges:
  - {relation: [customer, buys, product], files: purchases, source_id_col: who, dest_id_col: what, time_col: year}
"""
    nodes, edges, _ = partitioned(tmp_path, conf)
    assert (nodes, edges) == ({"customer": 2, "product": 2}, [3])

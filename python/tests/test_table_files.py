"""The files of tables: `edgecut.convert` reads them in the order and in the formats of `partition-graph`."""

import csv
import decimal
import gzip
import json
import pathlib

import numpy as np
import pytest
from conftest import run

pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is missing: pip install edgecut[convert]")

import pyarrow.parquet  # noqa: E402

from edgecut import convert, table_files  # noqa: E402

MASKS = ("train_mask", "val_mask", "test_mask")


def of_masks(splits):
    """Return the columns of masks for the numbers of the splits of rows."""
    return {name: [int(split == number) for split in splits] for number, name in enumerate(MASKS)}


def write_csv(path, separator=",", **columns):
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, delimiter=separator)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def write_conf(path, *nodes, masks=MASKS):
    """Write a configuration with tables of one node type and an edge."""
    tables = []
    for table in nodes:
        features = [{"feature_col": name} for name in (*table.pop("features", ()), *(masks if "labels" in table else ()))]
        tables.append({"node_type": "n", **table, **({"features": features} if features else {})})
    write_csv(path.parent / "edges.txt", a=[0], b=[1])
    edge = {"relation": ["n", "e", "n"], "files": "edges.txt", "source_id_col": "a", "dest_id_col": "b"}
    path.write_text(json.dumps({"nodes": tables, "edges": [edge]}))
    return path


def rows_of(conf, out):
    """Return the first feature of all nodes in the order of their rows, and the rows of training."""
    run("partition-graph", "--conf", conf, "--dataset", "g", "--num-partitions", 1, "--output-dir", out)
    folder = out / "part_0" / "nodes" / "n"
    ids = np.load(folder / "original_ids.npy")
    features = np.empty(len(ids))
    features[ids] = np.load(folder / "features.npy")[:, 0]
    train = np.load(folder / "train.npy") if (folder / "train.npy").exists() else []
    return features.tolist(), sorted(ids[train].tolist())


LABEL = [{"task_type": "classification", "label_col": "y"}]


@pytest.mark.parametrize(
    ("files", "patterns"),
    [
        (["a.csv", "b.csv"], ["b.csv", "a.csv"]),
        (["a/x.csv", "a-b/x.csv", "a0/x.csv"], ["*/x.csv"]),
        (["a/x.csv", "a-b/x.csv"], ["a-b/x.csv", "a/x.csv"]),
        ([".x.csv", "_x.csv", "x.csv"], ["*.csv", ".*.csv"]),
        (["B.CSV", "a.csv"], ["a*", "B.CSV"]),
        (["t/a.csv", "t/b.csv"], ["t"]),
        (["t/u/v/.a.csv", "t/u/w.csv", "t/x.csv"], ["t/**/*.csv", "t/**/.*.csv"]),
        (["./b.csv", "./c.csv", "../over/a.csv"], ["../over/a.csv", "./c.csv", "{}/conf/b.csv"]),
        (["{}/cwd/a.csv", "{}/cwd/d.csv"], ["d.csv", "../cwd/a.csv"]),
        (["[1].csv", "[a].csv"], ["[[]a].csv", "[1].csv"]),
    ],
)
@pytest.mark.parametrize("spelling", ["../conf/graph.json", "{}/conf/graph.json"])
def test_rows_have_the_order_of_partition_graph(tmp_path, monkeypatch, files, patterns, spelling):
    for folder in ("conf", "cwd"):
        (tmp_path / folder).mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    expected = []
    for number, file in enumerate(files):
        # Each file has one row of training, and not in the same place.
        rows = [10 * number + row for row in range(4)]
        expected += rows
        write_csv(tmp_path / "conf" / file.format(tmp_path), x=rows, y=[0, 1, 0, 1], **of_masks([(row - number) % 4 for row in range(4)]))
    table = {"files": [pattern.format(tmp_path) for pattern in patterns], "features": ["x"]}
    conf = write_conf(tmp_path / "conf" / "graph.json", {**table, "labels": LABEL}, masks=())
    named = pathlib.Path(spelling.format(tmp_path))
    assert rows_of(named, tmp_path / "parts")[0] == expected
    found, paths = table_files.table_files(named.parent, table["files"])
    assert [path.name for path in found] == [pathlib.Path(file).name for file in files]
    assert [len(paths), len(found)] == [len(files)] * 2
    write_conf(conf, {**table, "labels": LABEL})
    converted = convert.convert(named, tmp_path / "converted")
    monkeypatch.chdir("/")
    features, train = rows_of(converted, tmp_path / "converted-parts")
    assert features == expected
    assert train == [5 * number for number in range(len(files))]


@pytest.mark.parametrize("form", ["hdf5", "json"])
def test_converted_files_have_the_order_of_partition_graph(tmp_path, form):
    h5py = pytest.importorskip("h5py", reason="h5py is missing: pip install edgecut[convert]")
    for start, name in ((0, "a"), (10, "b")):
        columns = {"x": [start, start + 1], "y": [0, 1], **of_masks([start > 0, start == 0])}
        if form == "hdf5":
            with h5py.File(tmp_path / f"{name}.h5", "w") as file:
                file.update({column: np.array(values) for column, values in columns.items()})
        else:
            records = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
            (tmp_path / f"{name}.h5").write_text("\n".join(map(json.dumps, records)))
    table = {"files": ["b.h5", "a.h5"], "format": {"name": form}, "features": ["x"], "labels": LABEL}
    converted = convert.convert(write_conf(tmp_path / "graph.json", table), tmp_path / "converted")
    assert rows_of(converted, tmp_path / "parts") == ([0, 1, 10, 11], [0, 3])


def test_patterns_skip_hidden_names_that_they_do_not_spell(tmp_path):
    for number, name in enumerate(["h/e.csv", "h/.e.csv", "h/.ipynb_checkpoints/e.csv", "h/a/e.csv"]):
        write_csv(tmp_path / name, x=[number, number], y=[0, 1], **of_masks([0, 1]))
    for patterns, expected in [("h/*.csv", [0]), ("h/**/*.csv", [3, 0]), ("h/.*.csv", [1]), ("*/.i*/e.csv", [2]), ("h/*/e.csv", [3])]:
        conf = write_conf(tmp_path / "graph.json", {"files": patterns, "features": ["x"], "labels": LABEL}, masks=())
        files, _ = table_files.table_files(tmp_path, patterns)
        assert [int(file.read_text().split()[1].split(",")[0]) for file in files] == expected
        assert rows_of(conf, tmp_path / f"parts-{len(list(tmp_path.iterdir()))}")[0] == [number for number in expected for _ in range(2)]


def test_files_that_cannot_be_listed_are_named(tmp_path):
    write_csv(tmp_path / "a.csv", x=[1])
    write_csv(tmp_path / "t" / "u" / "b.csv", x=[1])
    for patterns, why in [
        (["a.csv", "./a.csv"], "a.csv is listed twice"),
        ("absent-*.csv", "there is no file .*absent-"),
        ("t", "t contains the folder u: name the files by a pattern"),
    ]:
        conf = write_conf(tmp_path / "graph.json", {"files": patterns, "features": ["x"]})
        with pytest.raises(ValueError, match=rf"graph.json: nodes\[0\]: .*{why}"):
            convert.convert(conf, tmp_path / "converted")
    with pytest.raises(ValueError, match="the format of .*b.bin is not known from its name"):
        table_files.format_of(tmp_path / "b.bin", {})


@pytest.mark.parametrize("of_ids", ["csv", "json"])
def test_the_ids_of_masks_are_in_the_table_of_the_type_that_has_ids(tmp_path, of_ids):
    ids = [3, 2, 1, 0]
    if of_ids == "csv":
        write_csv(tmp_path / "ids-1.csv", id=ids[2:], x=[2, 3])
        write_csv(tmp_path / "ids-0.csv", id=ids[:2], x=[0, 1])
        table = {"files": ["ids-1.csv", "ids-0.csv"], "node_id_col": "id", "features": ["x"]}
    else:
        (tmp_path / "ids.json").write_text(json.dumps([{"id": number, "x": row} for row, number in enumerate(ids)]))
        table = {"files": "ids.json", "format": {"name": "json"}, "node_id_col": "id", "features": ["x"]}
    write_csv(tmp_path / "masks.csv", y=[0, 1, 0, 1], **of_masks([0, 0, 1, 2]))
    masks = {"files": "masks.csv", "labels": LABEL}
    for number, nodes in enumerate([[table, masks], [masks, table]]):
        conf = write_conf(tmp_path / "graph.json", *(dict(one) for one in nodes))
        converted = convert.convert(conf, tmp_path / f"converted-{number}")
        assert rows_of(converted, tmp_path / f"parts-{number}") == ([0, 1, 2, 3], [0, 1])
    for rows, why in [(3, "fewer"), (5, "more")]:
        write_csv(tmp_path / "masks.csv", y=[0] * rows, **of_masks([0] * rows))
        with pytest.raises(ValueError, match=rf"nodes\[1\]: the table has {why} rows than the table of its type that has the ids"):
            convert.convert(write_conf(conf, dict(table), dict(masks)), tmp_path / "refused")


@pytest.mark.parametrize("of_type", [float, decimal.Decimal])
def test_ids_are_whole_numbers_of_any_type(tmp_path, of_type):
    columns = {"id": list(map(of_type, [3, 2, 1, 0])), "x": [0, 1, 2, 3], "y": [0, 1, 0, 1], **of_masks([0, 0, 1, 2])}
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "nodes.parquet")
    table = {"files": "nodes.parquet", "node_id_col": "id", "features": ["x"], "labels": LABEL}
    converted = convert.convert(write_conf(tmp_path / "graph.json", table), tmp_path / "converted")
    assert rows_of(converted, tmp_path / "parts") == ([0, 1, 2, 3], [0, 1])


def test_masks_of_edges_take_the_ends_of_another_table(tmp_path):
    write_csv(tmp_path / "ends.csv", a=["p", "q", "r"], b=["q", "r", "p"])
    write_csv(tmp_path / "masks.csv", y=[0, 1, 0], **of_masks([1, 0, 2]))
    relation = {"relation": ["n", "e", "n"]}
    masks = {"files": "masks.csv", "labels": LABEL, "features": [{"feature_col": name} for name in MASKS], **relation}
    ends = {"files": "ends.csv", "source_id_col": "a", "dest_id_col": "b", **relation}
    for edges, why in [([ends, masks], None), ([masks], "no table of the relation has `source_id_col` and `dest_id_col`")]:
        (tmp_path / "graph.json").write_text(json.dumps({"edges": edges}))
        if why is not None:
            with pytest.raises(ValueError, match=why):
                convert.convert(tmp_path / "graph.json", tmp_path / "refused")
            continue
        convert.convert(tmp_path / "graph.json", tmp_path / "converted")
        assert (tmp_path / "converted" / "edges-1-train.json").read_text() == '["q", "r"]\n'


def test_masks_in_files_of_tabs_with_line_breaks_and_compression_are_read(tmp_path):
    rows = 30_000
    columns = {"id": [f"n{row}" for row in range(rows)], "x": range(rows), "y": [row % 2 for row in range(rows)]}
    text = ["a field\nof two lines, with commas\tand tabs"] * rows
    # Values that are written in another way after the first block.
    masks = {name: [str(value) if row < 20_000 else f"{value}.0" for row, value in enumerate(mask)] for name, mask in of_masks([row % 3 for row in range(rows)]).items()}
    write_csv(tmp_path / "plain.tsv", "\t", **columns, text=text, **masks)
    # The content tells that a file is compressed.
    (tmp_path / "nodes.tsv").write_bytes(gzip.compress((tmp_path / "plain.tsv").read_bytes()))
    table = {"files": "nodes.tsv", "node_id_col": "id", "features": ["x"], "labels": LABEL}
    conf = write_conf(tmp_path / "graph.json", table)
    (tmp_path / "edges.txt").write_text("a,b\nn0,n1\n")
    converted = convert.convert(conf, tmp_path / "converted")
    features, train = rows_of(converted, tmp_path / "parts")
    assert features == list(range(rows)) and train == list(range(0, rows, 3))


def test_columns_of_json_have_the_type_of_all_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(convert, "_ROWS", 2)
    values = [None, None, 1, 2, 0.5, 3, None]
    vectors = [[1, 2], [3, 4], [5, 6], [0.5, 7], [8, 9], [1, 1], [2, 2]]
    records = [{"x": row, "late": late, "vector": vector} for row, (late, vector) in enumerate(zip(values, vectors, strict=True))]
    for name, some in (("a", records[:5]), ("b", records[5:])):
        (tmp_path / f"{name}.json").write_text("\n".join(map(json.dumps, some)))
    table = {"files": ["a.json", "b.json"], "format": {"name": "json"}, "features": ["x"]}
    conf = json.loads(write_conf(tmp_path / "graph.json", table).read_text())
    conf["nodes"][0]["features"] += [{"feature_col": "late", "impute": "mean"}, {"feature_col": "vector"}]
    (tmp_path / "graph.json").write_text(json.dumps(conf))
    converted = convert.convert(tmp_path / "graph.json", tmp_path / "converted")
    assert rows_of(converted, tmp_path / "parts")[0] == list(range(7))
    features = np.load(tmp_path / "parts" / "part_0" / "nodes" / "n" / "features.npy")
    assert sorted(features[:, 1].tolist()) == [0.5, 1, 1.625, 1.625, 1.625, 2, 3]
    assert sorted(features[:, 2].tolist()) == [0.5, 1, 1, 2, 3, 5, 8]

"""Tables of GraphStorm and chunks of DGL that `edgecut.convert` converts: the parts are those of the same data in other files."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest
from conftest import PATIENCE, run

pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is missing: pip install edgecut[convert]")
h5py = pytest.importorskip("h5py", reason="h5py is missing: pip install edgecut[convert]")
import pyarrow.parquet  # noqa: E402

from edgecut import convert  # noqa: E402

NODES, EDGES = 30, 80


@pytest.fixture()
def data():
    random = np.random.default_rng(5)
    split = random.permutation(np.arange(NODES) % 3)
    return {
        "id": [f"n{number:02}" for number in range(NODES)],
        "x": random.standard_normal((NODES, 3)).astype(np.float32),
        "age": random.integers(0, 90, NODES).astype(np.float16),
        "no": random.integers(0, 4, NODES),
        "split": split,
        "src": random.integers(0, NODES, EDGES),
        "dst": random.integers(0, NODES, EDGES),
        "w": random.random(EDGES).round(3),
    }


def partition(conf, out):
    """Return the arrays of one part."""
    run("partition-graph", "--conf", conf, "--dataset", "g", "--num-partitions", 1, "--output-dir", out)
    part = out / "part_0"
    return {str(path.relative_to(part)): np.load(path) for path in part.rglob("*.npy")}


def assert_equal(found, expected):
    assert found.keys() == expected.keys()
    for name in found:
        assert np.array_equal(found[name], expected[name]), name


def write_csv(path, **columns):
    rows = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values()))]
    path.write_text("\n".join(rows) + "\n")


def edges_table(**more):
    relation = ["n", "to", "n"]
    return {"relation": relation, "source_id_col": "src", "dest_id_col": "dst", "weight_col": "w", **more}


def ends_of(data):
    return {end: [data["id"][number] for number in data[end]] for end in ("src", "dst")}


@pytest.fixture()
def expected(data, tmp_path):
    """Arrays of the same graph from CSV files."""
    folder = tmp_path / "csv"
    folder.mkdir()
    x = {f"x{at}": data["x"][:, at] for at in range(3)}
    write_csv(folder / "nodes.csv", id=data["id"], **x, age=data["age"], no=data["no"])
    write_csv(folder / "edges.csv", **ends_of(data), w=data["w"])
    splits = {"train": 0, "valid": 1, "test": 2}
    for name, number in splits.items():
        ids = [data["id"][at] for at in np.flatnonzero(data["split"] == number)]
        (folder / f"{name}.json").write_text("".join(json.dumps(one) + "\n" for one in ids))
    label = {"task_type": "classification", "label_col": "no"}
    conf = {
        "nodes": [
            {
                "node_type": "n",
                "node_id_col": "id",
                "files": "nodes.csv",
                "features": [{"feature_col": ["x0", "x1", "x2"], "feature_name": "x"}, {"feature_col": "age"}],
                "labels": [{**label, "custom_split_filenames": {name: f"{name}.json" for name in splits}}],
            }
        ],
        "edges": [edges_table(files="edges.csv")],
    }
    (folder / "graph.json").write_text(json.dumps(conf))
    return partition(folder / "graph.json", tmp_path / "csv-parts")


def masks_of(data):
    names = zip(("train_mask", "val_mask", "test_mask"), range(3))
    return {name: (data["split"] == number).astype(np.int8) for name, number in names}


MASKS = [{"feature_col": name, "feature_name": name, "out_dtype": "int8"} for name in ("train_mask", "val_mask", "test_mask")]


def node_table(**more):
    return {
        "node_type": "n",
        "node_id_col": "id",
        "features": [{"feature_col": "x"}, {"feature_col": "age"}, *MASKS],
        "labels": [{"task_type": "classification", "label_col": "no"}],
        **more,
    }


def write_hdf5(path, data, rows):
    with h5py.File(path, "w") as file:
        for name in ("x", "age"):
            file[name] = data[name][rows]
        # A column of classes may be an array with one column.
        file["no"] = data["no"][rows].reshape(-1, 1)
        file["id"] = [data["id"][row] for row in range(NODES)[rows]]
        for name, mask in masks_of(data).items():
            file[name] = mask[rows]


def write_records(path, **columns):
    records = [dict(zip(columns, row)) for row in zip(*columns.values())]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


@pytest.mark.parametrize("rows_at_a_time", [7, 1 << 16])
def test_tables_of_hdf5_and_json_with_masks_are_those_of_csv(data, expected, tmp_path, monkeypatch, rows_at_a_time):
    monkeypatch.setattr(convert, "_ROWS", rows_at_a_time)
    folder = tmp_path / "graphstorm"
    folder.mkdir()
    write_hdf5(folder / "nodes-0.h5", data, slice(0, 20))
    write_hdf5(folder / "nodes-1.h5", data, slice(20, None))
    write_records(folder / "edges.json", **ends_of(data), w=data["w"].tolist(), other=[{}] * EDGES)
    conf = {
        "nodes": [node_table(files="nodes-*.h5", format={"name": "hdf5"})],
        "edges": [edges_table(files=["edges.json"], format={"name": "json"})],
    }
    (folder / "graph.json").write_text(json.dumps(conf))
    written = convert.convert(folder / "graph.json", tmp_path / "converted")
    assert written == tmp_path / "converted" / "graph.json"
    assert_equal(partition(written, tmp_path / "parts"), expected)
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []


@pytest.mark.parametrize("form", ["csv", "parquet", "json"])
def test_masks_of_other_formats_become_lists_of_ids(data, expected, tmp_path, form):
    yaml = pytest.importorskip("yaml", reason="pyyaml is missing: pip install edgecut[convert]")
    folder = tmp_path / "tables"
    folder.mkdir()
    columns = {"id": data["id"], "age": data["age"].tolist(), "no": data["no"].tolist()}
    columns |= {name: mask.tolist() for name, mask in masks_of(data).items()}
    vectors = [list(map(float, row)) for row in data["x"]]
    if form == "csv":
        texts = [f'"{json.dumps(row)}"' for row in vectors]
        write_csv(folder / "nodes.csv", **columns, x=texts)
    elif form == "json":
        (folder / "nodes.json").write_text(json.dumps([dict(zip([*columns, "x"], row)) for row in zip(*columns.values(), vectors)]))
    else:
        pyarrow.parquet.write_table(pyarrow.table({**columns, "x": vectors}), folder / "nodes.parquet")
    write_csv(folder / "edges.csv", **ends_of(data), w=data["w"])
    conf = {
        "nodes": [node_table(files=f"nodes.{form}", format={"name": form})],
        "edges": [edges_table(files="edges.csv")],
    }
    # A name such as `no` is a text without quotes, too.
    text = yaml.safe_dump(conf).replace("'no'", "no")
    assert "label_col: no\n" in text
    (folder / "graph.yaml").write_text(text)
    run_module("edgecut.convert", folder / "graph.yaml", tmp_path / "converted")
    assert_equal(partition(tmp_path / "converted" / "graph.json", tmp_path / "parts"), expected)


def test_masks_of_edges_become_lists_of_pairs(tmp_path):
    pairs = [(src, dst) for src in "abcd" for dst in "abcd"]
    masks = {name: [int(at % 3 == number) for at in range(16)] for number, name in enumerate(("train_mask", "val_mask", "test_mask"))}
    ends = {"src": [src for src, _ in pairs], "dst": [dst for _, dst in pairs]}
    write_csv(tmp_path / "edges.csv", **ends, w=range(16), **masks)
    label = {"task_type": "regression", "label_col": "w"}
    conf = {"edges": [edges_table(files="edges.csv", features=MASKS, labels=[label])]}
    (tmp_path / "graph.json").write_text(json.dumps(conf))
    written = convert.convert(tmp_path / "graph.json", tmp_path / "converted")
    partition(written, tmp_path / "parts")
    meta = json.loads((tmp_path / "parts" / "META.json").read_text())
    assert meta["edge_types"][0]["labels"]["split_sizes"] == [6, 5, 5]


@pytest.mark.parametrize("of_twin, why", [((0, 0), "another one is in no mask"), ((0, 1), "is in the masks of train and test")])
def test_parallel_edges_with_different_masks_are_refused(tmp_path, of_twin, why):
    """A list has pairs, and would move the twin into the split of the first edge."""
    for twin in ((1, 0), of_twin):
        masks = {"train_mask": [1, twin[0], 0], "val_mask": [0, 0, 1], "test_mask": [0, twin[1], 0]}
        write_csv(tmp_path / "edges.csv", src="aab", dst="bbc", w=range(3), **masks)
        label = {"task_type": "regression", "label_col": "w"}
        conf = {"edges": [edges_table(files="edges.csv", features=MASKS, labels=[label])]}
        (tmp_path / "graph.json").write_text(json.dumps(conf))
        if twin == (1, 0):
            convert.convert(tmp_path / "graph.json", tmp_path / "converted")
            lists = [(tmp_path / "converted" / f"edges-0-{split}.json").read_text() for split in ("train", "valid", "test")]
            assert lists == ['["a", "b"]\n', '["b", "c"]\n', ""]
            continue
        with pytest.raises(ValueError, match=why) as refused:
            convert.convert(tmp_path / "graph.json", tmp_path / "again")
        assert '["a", "b"]' in str(refused.value) and "let all parallel edges of a pair have the same mask" in str(refused.value)


@pytest.mark.parametrize("value", [None, float("nan"), 2, 0.5])
def test_masks_have_0_and_1_only(tmp_path, value):
    masks = {"train_mask": [1, 0, value], "val_mask": [0, 1, 0], "test_mask": [0, 0, 0]}
    pyarrow.parquet.write_table(pyarrow.table({"id": ["a", "b", "c"], "no": [0, 1, 0], **masks}), tmp_path / "nodes.parquet")
    (tmp_path / "graph.json").write_text(json.dumps({"nodes": [node_table(files="nodes.parquet")]}))
    with pytest.raises(ValueError, match="nodes.parquet: the mask 'train_mask' has the value "):
        convert.convert(tmp_path / "graph.json", tmp_path / "converted")


def run_module(module, *arguments, fails=False):
    command = [sys.executable, "-m", module, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode != 0) == fails, done.stderr
    assert not fails or ("Traceback" not in done.stderr and done.stdout == ""), done.stderr
    return done.stderr


def test_files_that_cannot_be_converted_are_named(data, tmp_path):
    write_hdf5(tmp_path / "nodes.h5", data, slice(None))
    write_csv(tmp_path / "edges.csv", **ends_of(data), w=data["w"])
    (tmp_path / "edges.json").write_text('{"src": "n01", "dst": "n02", "w": 1}\n{"src": "n01", "dst": "n02"}\n')
    (tmp_path / "mixed.json").write_text('{"src": "n01", "dst": "n02", "w": 1}\n{"src": "n01", "dst": "n02", "w": "x"}\n')
    (tmp_path / "large.json").write_text(f'{{"src": {2**70}, "dst": "n02", "w": 1}}\n')
    hdf5 = {"files": "nodes.h5", "format": {"name": "hdf5"}}
    csv = edges_table(files="edges.csv")
    cases = [
        ([node_table(**hdf5, weight_col="q")], csv, "has no dataset 'q': it has age, id, no, "),
        ([node_table(**hdf5, labels=[])], csv, "nodes[0]: features that are masks need one label"),
        ([], edges_table(files="edges.json", format={"name": "json"}), "edges.json: record 2 has no field 'w'"),
        ([], edges_table(files="mixed.json", format={"name": "json"}), "mixed.json: column 'w' has values of different types"),
        ([], edges_table(files="large.json", format={"name": "json"}), "large.json: column 'src' has a whole number beyond 64 bits"),
        ([{"node_type": "n", "files": "mixed.json", "format": {"name": "json"}}], csv, "the configuration names no column of /"),
        ([node_table(files="nodes.h5", format={"name": "xml"})], csv, "the format 'xml' is not known"),
        ([node_table(files="absent.h5", format={"name": "hdf5"})], csv, "nodes[0]: there is no file /"),
        ([node_table(format={"name": "hdf5"})], csv, "nodes[0]: the key 'files' is missing"),
        (["nodes.h5"], csv, "nodes[0] does not have the form of GraphStorm"),
    ]
    for number, (nodes, edges, why) in enumerate(cases):
        conf, out = tmp_path / f"graph-{number}.json", tmp_path / f"out-{number}"
        conf.write_text(json.dumps({"nodes": nodes, "edges": [edges]}))
        stderr = run_module("edgecut.convert", conf, out, fails=True)
        assert why in stderr, stderr
        assert not out.exists() and not list(tmp_path.glob(".out*"))
    with pytest.raises(ValueError, match="exists: name another folder"):
        convert.convert(tmp_path / "graph-0.json", tmp_path)


def test_chunks_in_parquet_are_those_of_numpy(data, tmp_path):
    arrays = {"feat": data["x"], "label": data["no"], "year": data["no"] + 2000, **masks_of(data)}
    ends = np.stack([data["src"], data["dst"]], axis=1)
    found = []
    for form in ("numpy", "parquet"):
        folder = tmp_path / form
        folder.mkdir()

        def write(name, values, form=form, folder=folder):
            files = []
            for number, piece in enumerate(np.array_split(values, 2)):
                files.append(f"{name}-{number}.{form}")
                if form == "numpy":
                    np.save(folder / f"{name}-{number}.npy", piece)
                    files[-1] = f"{name}-{number}.npy"
                    continue
                columns = {"src": piece[:, 0], "dst": piece[:, 1]} if name == "edges" else {name: piece.tolist()}
                pyarrow.parquet.write_table(pyarrow.table(columns), folder / files[-1])
            return {"format": {"name": form}, "data": files}

        metadata = {
            "node_type": ["n"],
            "num_nodes_per_chunk": [[NODES // 2, NODES // 2]],
            "edge_type": ["n:to:n"],
            "num_edges_per_chunk": [[EDGES // 2, EDGES // 2]],
            "edges": {"n:to:n": write("edges", ends)},
            "node_data": {"n": {name: write(name, values) for name, values in arrays.items()}},
            "edge_data": {"n:to:n": {"time": write("time", np.arange(EDGES))}},
        }
        (folder / "metadata.json").write_text(json.dumps(metadata))
        source = folder if form == "numpy" else convert.convert(folder, tmp_path / "converted")
        out = tmp_path / f"{form}-parts"
        run("partition-graph", "--dataset", "g", "--dataset-dir", source, "--num-partitions", 1, "--output-dir", out)
        found.append({str(path.relative_to(out)): np.load(path) for path in out.rglob("*.npy")})
    assert_equal(*found)


@pytest.mark.parametrize(
    "ends, info, why",
    [
        ([0.0, 1.7], {}, "the column 'src' of the edges of n:to:n has (float64|double), and not whole numbers"),
        ([0, None], {}, "the column 'src' of the edges of n:to:n has (float64|double), and not whole numbers"),
        ([0, 1], {"ntype_label": ["n", "n"], "ntype_label_property": ["a", "b"]}, "`ntype_label` names 2 labels of n"),
        ([0, 1], {"etype_label": ["n:to:n"], "etype_label_property": ["a"]}, "`etype_label` names the label 'a' of the edges n:to:n"),
    ],
)
def test_chunks_that_would_lose_something_are_refused(tmp_path, ends, info, why):
    def write(name, **columns):
        pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / f"{name}.parquet")
        return {"format": {"name": "parquet"}, "data": [f"{name}.parquet"]}

    metadata = {
        "node_type": ["n"],
        "num_nodes_per_chunk": [[2]],
        "edge_type": ["n:to:n"],
        "num_edges_per_chunk": [[2]],
        "edges": {"n:to:n": write("edges", src=ends, dst=[1, 0])},
        "node_data": {"n": {name: write(name, **{name: [0, 1]}) for name in ("a", "b")}},
        "edge_data": {"n:to:n": {"a": write("of_edges", a=[0, 1])}},
        "graph_info": info,
    }
    (tmp_path / "metadata.json").write_text(json.dumps(metadata))
    with pytest.raises(ValueError, match=why):
        convert.convert(tmp_path, tmp_path / "converted")
    assert not (tmp_path / "converted").exists()


@pytest.mark.parametrize(
    ("names", "info", "why"),
    [
        # The names of the features and of the label are the new names of other arrays.
        ({"label": "x", "no": "y"}, {"ntype_label_property": ["no"], "nfeat_size": {"n": {"label": 1}}}, None),
        ({"label": "x", "feat": "y"}, {"ntype_label_property": ["feat"], "nfeat_size": {"n": {"label": 1}}}, None),
        ({"feat": "x", "label": "y"}, {"ntype_label_property": ["label"], "nfeat_size": {"n": {"feat": 1}}}, None),
        (
            {"feat": "x", "no": "y", "age": "x"},
            {"ntype_label_property": ["no"], "nfeat_size": {"n": {"age": 1}}},
            "node_data of n: `nfeat_size` does not name 'feat', and the name is needed: rename this array",
        ),
        (
            {"label": "x", "no": "y"},
            {"ntype_label_property": ["no"]},
            "node_data of n: `ntype_label_property` does not name 'label', and the name is needed: rename this array",
        ),
        (
            {"no": "y"},
            {"ntype_label_property": ["no"], "nfeat_size": {"n": {"no": 1}}},
            "`nfeat_size` names the label 'no' of n, which would be its feature too: remove it there",
        ),
    ],
)
def test_names_of_attributes_of_gsprocessing_do_not_meet(tmp_path, names, info, why):
    values = {"x": [0.5, 1.5], "y": [1, 0]}
    for name, of_name in names.items():
        pyarrow.parquet.write_table(pyarrow.table({name: values[of_name]}), tmp_path / f"{name}.parquet")
    pyarrow.parquet.write_table(pyarrow.table({"src": [0, 1], "dst": [1, 0]}), tmp_path / "edges.parquet")
    metadata = {
        "node_type": ["n"],
        "num_nodes_per_chunk": [[2]],
        "edge_type": ["n:to:n"],
        "num_edges_per_chunk": [[2]],
        "edges": {"n:to:n": {"format": {"name": "parquet"}, "data": ["edges.parquet"]}},
        "node_data": {"n": {name: {"format": {"name": "parquet"}, "data": [f"{name}.parquet"]} for name in names}},
        "edge_data": {},
        "graph_info": {"ntype_label": ["n"], **info},
    }
    (tmp_path / "metadata.json").write_text(json.dumps(metadata))
    if why is not None:
        with pytest.raises(ValueError, match=re.escape(why)):
            convert.convert(tmp_path, tmp_path / "converted")
        return
    written = json.loads((convert.convert(tmp_path, tmp_path / "converted") / "metadata.json").read_text())
    arrays = {name: np.load(tmp_path / "converted" / array["data"][0]) for name, array in written["node_data"]["n"].items()}
    assert arrays.keys() == {"feat", "label"}
    assert arrays["feat"].ravel().tolist() == values["x"] and arrays["label"].tolist() == values["y"]


def test_the_output_of_gsprocessing_has_features_and_labels(data, tmp_path):
    """Its features have names of their own, and files of other lengths. `graph_info` tells their sizes and the label."""
    folder = tmp_path / "gsprocessing"
    folder.mkdir()

    def write(name, num_files, **columns):
        files = []
        for number, rows in enumerate(np.array_split(np.arange(len(next(iter(columns.values())))), num_files)):
            files.append(f"{name}/part-{number:05}.parquet")
            (folder / files[-1]).parent.mkdir(parents=True, exist_ok=True)
            pieces = {column: np.asarray(values)[rows].tolist() for column, values in columns.items()}
            pyarrow.parquet.write_table(pyarrow.table(pieces), folder / files[-1])
        return {"format": {"name": "parquet"}, "data": files}

    attributes = {"vector": data["x"], "age": data["age"].astype(float), "no": data["no"], **masks_of(data)}
    metadata = {
        "node_type": ["n"],
        "num_nodes_per_chunk": [[NODES]],
        "edge_type": ["n:to:n"],
        "num_edges_per_chunk": [[EDGES]],
        "edges": {"n:to:n": write("edges", 3, src_int_id=data["src"], dst_int_id=data["dst"])},
        "node_data": {"n": {name: write(name, at + 1, **{name: v}) for at, (name, v) in enumerate(attributes.items())}},
        "edge_data": {"n:to:n": {"w": write("w", 2, w=data["w"])}},
        "graph_info": {
            "ntype_label": ["n"],
            "ntype_label_property": ["no"],
            "nfeat_size": {"n": {"vector": 3, "age": 1}},
            "efeat_size": {"n:to:n": {"w": 1}},
        },
    }
    (folder / "metadata.json").write_text(json.dumps(metadata))
    written = convert.convert(folder, tmp_path / "converted")
    out = tmp_path / "parts"
    run("partition-graph", "--dataset", "g", "--dataset-dir", written, "--num-partitions", 1, "--output-dir", out)
    nodes, edges = out / "part_0" / "nodes" / "n", out / "part_0" / "edges" / "n__to__n"
    order = np.load(nodes / "original_ids.npy")
    assert np.array_equal(np.load(nodes / "features.npy"), np.column_stack([data["x"], data["age"]])[order])
    assert np.array_equal(np.load(nodes / "labels.npy"), data["no"][order])
    assert len(np.load(nodes / "train.npy")) == (data["split"] == 0).sum()
    assert np.load(edges / "features.npy").shape == (EDGES, 1)


def test_configurations_of_gsprocessing_are_those_of_gconstruct(tmp_path):
    write_csv(tmp_path / "n.csv", id=["a", "b", "c", "d"], x=[1, 2, "", 5], v=["1|2", "3|4", "5|6", "7|8"], c=["r", "g", "r", "b"], y=[0, 1, 0, 1])
    write_csv(tmp_path / "e.csv", s=["a", "b", "c", "d"], d=["b", "c", "d", "a"], w=[1, 2, 3, 4])
    ours = {
        "nodes": [
            {
                "node_type": "n",
                "node_id_col": "id",
                "files": "n.csv",
                "features": [
                    {"feature_col": "x", "impute": "mean", "transform": {"name": "max_min_norm"}},
                    {"feature_col": "v", "separator": "|", "transform": {"name": "standard"}},
                    {"feature_col": "v", "feature_name": "first", "transform": {"name": "no-op", "separator": "|", "truncate_dim": 1}},
                    {"feature_col": "c", "transform": {"name": "to_categorical"}},
                ],
                "labels": [{"task_type": "classification", "label_col": "y", "split_pct": [0.5, 0.25, 0.25]}],
            }
        ],
        "edges": [
            {"relation": ["n", "to", "n"], "files": "e.csv", "source_id_col": "s", "dest_id_col": "d", "features": [{"feature_col": "w"}]}
        ],
    }
    data = {"format": "csv", "separator": ","}
    theirs = {
        "version": "gsprocessing-v1.0",
        "graph": {
            "nodes": [
                {
                    "data": {**data, "files": ["./n.csv"]},
                    "type": "n",
                    "column": "id",
                    "features": [
                        {"column": "x", "transformation": {"name": "numerical", "kwargs": {"normalizer": "min-max", "imputer": "mean"}}},
                        {"column": "v", "transformation": {"name": "multi-numerical", "kwargs": {"normalizer": "standard", "separator": "|"}}},
                        {"column": "v", "name": "first", "transformation": {"name": "no-op", "kwargs": {"separator": "|", "truncate_dim": 1}}},
                        {"column": "c", "transformation": {"name": "categorical", "kwargs": {}}},
                    ],
                    "labels": [{"column": "y", "type": "classification", "split_rate": {"train": 0.5, "val": 0.25, "test": 0.25}}],
                }
            ],
            "edges": [
                {
                    "data": {**data, "files": ["e.csv"]},
                    "source": {"column": "s", "type": "n"},
                    "relation": {"type": "to"},
                    "dest": {"column": "d", "type": "n"},
                    "features": [{"column": "w"}],
                }
            ],
        },
    }
    (tmp_path / "ours.json").write_text(json.dumps(ours))
    (tmp_path / "theirs.json").write_text(json.dumps(theirs))
    written = convert.convert(tmp_path / "theirs.json", tmp_path / "converted")
    assert_equal(partition(written, tmp_path / "parts"), partition(tmp_path / "ours.json", tmp_path / "expected"))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"imputer": "mean"}, r"conf.json: graph.nodes\[0\].features\[0\].transformation.kwargs.imputer: the key has no equivalent"),
        ({"action": "translate"}, r"kwargs.action: 'translate' is not one of tokenize_hf, embedding_hf"),
    ],
)
def test_keys_of_gsprocessing_without_an_equivalent_are_named(tmp_path, change, why):
    kwargs = {"action": "embedding_hf", "hf_model": "bert", **change}
    feature = {"column": "t", "transformation": {"name": "huggingface", "kwargs": kwargs}}
    nodes = {"type": "n", "column": "id", "data": {"format": "csv", "files": "n.csv"}, "features": [feature]}
    path = tmp_path / "conf.json"
    path.write_text(json.dumps({"version": "gsprocessing-v1.0", "graph": {"nodes": [nodes]}}))
    with pytest.raises(ValueError, match=why):
        convert.convert(path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_only_folders_of_conversions_are_replaced(data, tmp_path):
    write_csv(tmp_path / "nodes.csv", id=data["id"], no=data["no"])
    write_csv(tmp_path / "edges.csv", **ends_of(data), w=data["w"])
    conf = {"nodes": [{"node_type": "n", "files": "nodes.csv", "node_id_col": "id"}], "edges": [edges_table(files="edges.csv")]}
    path, out = tmp_path / "conf.json", tmp_path / "out"
    path.write_text(json.dumps(conf))
    written = convert.convert(path, out)
    with pytest.raises(ValueError, match="out exists: name another folder, or replace it with --overwrite"):
        convert.convert(path, out)
    conf["nodes"][0]["node_type"] = conf["edges"][0]["relation"][0] = conf["edges"][0]["relation"][2] = "m"
    path.write_text(json.dumps(conf))
    assert convert.convert(path, out, overwrite=True) == written
    assert json.loads(written.read_text())["nodes"][0]["node_type"] == "m"
    with pytest.raises(ValueError, match="out has the source .*graph.json, so it cannot be replaced"):
        convert.convert(written, out, overwrite=True)
    with pytest.raises(ValueError, match="is not a folder of an earlier conversion, as it has conf.json"):
        convert.convert(path, tmp_path, overwrite=True)
    (out / "nodes-0-00000.parquet").write_bytes(b"")
    conf["nodes"][0]["files"] = str(out / "nodes-0-00000.parquet")
    path.write_text(json.dumps(conf))
    with pytest.raises(ValueError, match="the table is in .*out, so the folder cannot be replaced"):
        convert.convert(path, out, overwrite=True)
    with pytest.raises(ValueError, match="`unsupported` is for runs, and .*conf.json is a graph"):
        convert.convert(path, tmp_path / "other", unsupported="skip")
    missing = subprocess.run(
        [sys.executable, "-m", "edgecut.convert", "nothing.yaml", tmp_path / "other"], capture_output=True, text=True, timeout=PATIENCE
    )
    assert (missing.returncode, missing.stderr) == (1, "error: there is no file or folder nothing.yaml\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["conf.json", "edges.csv", "nodes.csv", "out"]

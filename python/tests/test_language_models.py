"""Features of language models, which an optional step writes as columns of vectors."""

import csv
import json
import pathlib
import subprocess

import numpy as np
import pytest

from conftest import PATIENCE, PROGRAMS, partition

pyarrow = pytest.importorskip("pyarrow")
transformers = pytest.importorskip("transformers")
torch = pytest.importorskip("torch")

import pyarrow.parquet

from edgecut import language_models

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "red", "green", "shoe", "hat", "of", "wool"]
TITLES = ["red shoe", "green hat of wool", "", "hat, red\nand green", "NA", "shoe"] * 300
LENGTH = 8


def save_model(folder, seed=3, kind=transformers.BertModel):
    """Save a small model with random weights. Return its folder."""
    folder.mkdir(exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    transformers.BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)
    torch.manual_seed(seed)
    config = transformers.BertConfig(
        vocab_size=len(WORDS), hidden_size=12, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    kind(config).eval().save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return save_model(tmp_path_factory.mktemp("bert"))


def write(folder, bert, is_parquet, transform="bert_hf"):
    """Write the tables and the configuration of a shop whose products have titles."""
    rows = [{"sku": f"P{number}", "price": number, "title": title} for number, title in enumerate(TITLES)]
    if is_parquet:
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows[:1000]), folder / "products-0.parquet")
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows[1000:]), folder / "products-1.parquet")
    else:
        with open(folder / "products-0.csv", "w", newline="") as file:
            writer = csv.DictWriter(file, ["sku", "price", "title"])
            writer.writeheader()
            writer.writerows(rows)
    (folder / "bought.csv").write_text("a,b\nP0,P1\nP2,P3\n")
    language = {"name": transform, "bert_model": str(bert), "max_seq_length": LENGTH}
    conf = {
        "nodes": [
            {
                "node_type": "product",
                "files": "products-*.parquet" if is_parquet else "products-0.csv",
                "node_id_col": "sku",
                "features": [{"feature_col": "title", "transform": language}, {"feature_col": "price"}],
            }
        ],
        "edges": [
            {"relation": ["product", "with", "product"], "files": "bought.csv", "source_id_col": "a", "dest_id_col": "b"}
        ],
    }
    path = folder / "shop.json"
    path.write_text(json.dumps(conf))
    return path


def features(parts):
    """Return the features of the products in the order of the table."""
    rows = {}
    for part in range(2):
        folder = parts / f"part_{part}" / "nodes" / "product"
        ids = np.load(folder / "original_ids.npy")
        rows.update(zip(ids.tolist(), np.load(folder / "features.npy"), strict=True))
    return np.stack([rows[node] for node in range(len(TITLES))])


@pytest.mark.parametrize("is_parquet", [False, True])
def test_vectors_of_a_model_are_features(bert, tmp_path, is_parquet):
    path = write(tmp_path, bert, is_parquet)
    out = language_models.run(path)
    partition(tmp_path / "parts", "shop", 2, "--conf", out, "--method", "random")
    found = features(tmp_path / "parts")
    # The price comes first, because the vectors are in a further table.
    assert found.shape == (len(TITLES), 13) and (found[:, 0] == np.arange(len(TITLES))).all()
    tokenizer = transformers.AutoTokenizer.from_pretrained(bert)
    model = transformers.AutoModel.from_pretrained(bert).eval()
    for node in (0, 1, 2, 3, 4, 1003):
        title = "" if TITLES[node] == "NA" else TITLES[node]
        tokens = tokenizer([title], max_length=LENGTH, truncation=True, padding="max_length", return_tensors="pt")
        with torch.no_grad():
            expected = model(**tokens).pooler_output[0].numpy()
        assert np.allclose(found[node, 1:], expected, atol=1e-5), TITLES[node]


def test_tokens_are_features(bert, tmp_path):
    out = language_models.run(write(tmp_path, bert, True, "tokenize_hf"))
    partition(tmp_path / "parts", "shop", 2, "--conf", out, "--method", "random")
    found = features(tmp_path / "parts")
    assert found.shape == (len(TITLES), 1 + 3 * LENGTH)
    assert found[0, 1:5].tolist() == [WORDS.index(word) for word in ("[CLS]", "red", "shoe", "[SEP]")]
    assert found[0, 1 + LENGTH : 7 + LENGTH].tolist() == [1, 1, 1, 1, 0, 0]


def test_configurations_that_do_not_fit_are_errors(bert, tmp_path):
    path = write(tmp_path, bert, False)
    for change, expected in [
        (lambda table: table.update(files="nothing.csv"), r"nodes\[0\].files: there is no file .*nothing.csv"),
        (lambda table: table["features"][0].update(feature_col="name"), "there is no column name in .*; its columns are sku"),
        (lambda table: table["features"][0]["transform"].pop("max_seq_length"), "max_seq_length: it is missing"),
        (lambda table: table["features"][0].update(impute="none"), "impute has no effect on a feature with bert_hf"),
        (lambda table: table.update(na_values=["", None]), "na_values is not a list of texts and numbers"),
        (lambda table: table["features"].pop(0), "no feature has the transform bert_hf or tokenize_hf"),
    ]:
        conf = json.loads(path.read_text())
        change(conf["nodes"][0])
        other = tmp_path / "other.json"
        other.write_text(json.dumps(conf))
        with pytest.raises(language_models.ConfigurationError, match=expected):
            language_models.run(other)
        assert not (tmp_path / "other.vectors.json").exists()


def vectors_by_id(parts):
    """Return the features of the nodes by their ids."""
    folder = parts / "part_0" / "nodes" / "n"
    id_map = pyarrow.parquet.read_table(folder / "id_map.parquet")
    ids = dict(zip(id_map["original_id"].to_pylist(), id_map["id"].to_pylist(), strict=True))
    rows = np.load(folder / "original_ids.npy").tolist()
    return {ids[row]: vector for row, vector in zip(rows, np.load(folder / "features.npy"), strict=True)}


@pytest.mark.parametrize("is_elsewhere", [False, True])
@pytest.mark.parametrize("spelling", ["o.yaml", "./o.yaml", "{}/o.yaml"])
def test_vectors_are_on_the_nodes_of_their_texts(bert, tmp_path, monkeypatch, spelling, is_elsewhere):
    tables = tmp_path / "w"
    tables.mkdir()
    monkeypatch.chdir(tables)
    others = tmp_path if is_elsewhere else tables
    # The order of the files does not depend on how their paths are written.
    (tables / "b.csv").write_text("id,title\np0,red\np1,shoe\n")
    (others / "a.csv").write_text("id,title\nq0,wool\nq1,hat\n")
    (tables / "e.csv").write_text("a,b\np0,q0\np1,q1\n")
    other = str(others / "a.csv") if is_elsewhere else "a.csv"
    transform = f"{{name: bert_hf, bert_model: {json.dumps(str(bert))}, max_seq_length: {LENGTH}}}"
    (tables / "o.yaml").write_text(
        f"nodes: [{{node_type: n, files: [./b.csv, {other}], node_id_col: id, features: [{{feature_col: title, transform: {transform}}}]}}]\n"
        "edges: [{relation: [n, e, n], files: e.csv, source_id_col: a, dest_id_col: b}]\n"
    )
    out = language_models.run(pathlib.Path(spelling.format(tables)))
    # The vectors of each title alone.
    model = language_models.LanguageModel("", "title", {"name": "bert_hf", "bert_model": str(bert), "max_seq_length": LENGTH}, "cpu")
    (expected,) = model.compute(["red", "shoe", "wool", "hat"]).values()
    expected = dict(zip(["p0", "p1", "q0", "q1"], expected, strict=True))
    for number, conf in enumerate([out, tables / out.name, f"./{out.name}"]):
        parts = partition(tmp_path / f"parts-{number}", "n", 1, "--conf", conf, "--method", "random")
        for name, vector in vectors_by_id(parts).items():
            assert np.allclose(vector, expected[name], atol=1e-5), name


def test_models_without_a_pooler_are_errors(tmp_path):
    bert = save_model(tmp_path, kind=transformers.BertForMaskedLM)
    with pytest.raises(language_models.ConfigurationError, match=r"lacks the weights .*pooler\.dense\.bias, .*pooler\.dense\.weight"):
        language_models.run(write(tmp_path, bert, False))


def test_missing_values_of_features_and_texts_of_yaml_are_those_of_the_tables(bert, tmp_path):
    path = write(tmp_path, bert, False)
    conf = json.loads(path.read_text())
    conf["nodes"][0]["features"][0]["missing_values"] = ["red shoe", -7]
    yaml = pytest.importorskip("yaml")
    text = yaml.safe_dump(conf).replace("node_type: product", "node_type: no").replace("- product", "- no")
    other = tmp_path / "other.yaml"
    other.write_text(f"na_values: [no, 007, 2020-01-01, 1e3]\n{text}")
    out = json.loads(language_models.run(other).read_text())
    assert out["na_values"] == ["no", "007", "2020-01-01", 1000]
    assert out["nodes"][1]["node_type"] == "no" and out["edges"][0]["relation"] == ["no", "with", "no"]
    is_missing = language_models.missing_values(out, {"missing_values": ["red shoe", -7]}, [], "")
    found = ["no", "007", "2020-01-01", "1e3", "1000.00", " -7.0", "red shoe"]
    assert [is_missing(text) for text in found] == [True] * len(found)
    assert not any(map(is_missing, ["7", "", "NA", "False", "0070", "x"]))
    (vectors,) = pyarrow.parquet.read_table(tmp_path / "other.vectors" / "nodes-0.parquet").columns
    vectors = vectors.to_pylist()
    # A missing text is an empty one, and NA is no missing value of this table.
    assert np.allclose(vectors[0], vectors[2], atol=1e-5) and not np.allclose(vectors[4], vectors[2], atol=1e-5)


@pytest.mark.parametrize("transform", ["bert_hf", "tokenize_hf"])
def test_an_update_by_another_model_is_an_error(bert, tmp_path, transform):
    path = write(tmp_path, bert, False, transform)
    parts = partition(tmp_path / "parts", "shop", 1, "--conf", language_models.run(path), "--method", "random")
    other = save_model(tmp_path / "other", 4)
    (other / "vocab.txt").write_text("\n".join([*WORDS, "blue"]) + "\n")
    transformers.BertTokenizer(str(other / "vocab.txt")).save_pretrained(other)
    update = json.loads(path.read_text())
    update["edges"] = []
    update["nodes"][0]["files"] = "new.csv"
    (tmp_path / "new.csv").write_text("sku,price,title\nP1,5,green hat\nQ1,6,red shoe\n")
    for change, is_same in [({"bert_model": str(other)}, False), ({"max_seq_length": LENGTH - 1}, False), ({}, True)]:
        changed = json.loads(json.dumps(update))
        changed["nodes"][0]["features"][0]["transform"].update(change)
        (tmp_path / "update.json").write_text(json.dumps(changed))
        conf = language_models.run(tmp_path / "update.json")
        flags = ["update", parts, "--conf", conf, "--output-dir", tmp_path / f"updated-{is_same}"]
        done = subprocess.run([PROGRAMS / "partition-graph", *flags], capture_output=True, text=True, timeout=PATIENCE)
        assert (done.returncode == 0) == is_same, done.stderr
        assert is_same or "title" in done.stderr, done.stderr


@pytest.mark.parametrize("patterns", [["./t"], ["./t/year=2/*.csv", "t/year=1/.*.csv"], ["t/*/*.csv"], ["{}/t/*/*.csv"]])
def test_columns_of_folders_stay_columns(bert, tmp_path, patterns):
    for year, name, rows in [(1, ".a" if len(patterns) == 2 else "a", "p0,red\np1,shoe\n"), (2, "b", "q0,wool\nq1,hat\n")]:
        folder = tmp_path / "t" / f"year={year}"
        folder.mkdir(parents=True)
        (folder / f"{name}.csv").write_text(f"id,title\n{rows}")
    (tmp_path / "e.csv").write_text("a,b\np0,q0\np1,q1\n")
    transform = {"name": "bert_hf", "bert_model": str(bert), "max_seq_length": LENGTH}
    node = {"node_type": "n", "files": [pattern.format(tmp_path) for pattern in patterns], "node_id_col": "id"}
    node["features"] = [{"feature_col": "title", "transform": transform}]
    # The names of the partitions are a column if they are below the pattern's fixed folders.
    if len(patterns) == 1:
        node["features"].append({"feature_col": "year"})
    edge = {"relation": ["n", "e", "n"], "files": "e.csv", "source_id_col": "a", "dest_id_col": "b"}
    (tmp_path / "o.json").write_text(json.dumps({"nodes": [node], "edges": [edge]}))
    out = language_models.run(tmp_path / "o.json")
    found = vectors_by_id(partition(tmp_path / "parts", "n", 1, "--conf", out, "--method", "random"))
    model = language_models.LanguageModel("", "title", transform, "cpu")
    (expected,) = model.compute(["red", "shoe", "wool", "hat"]).values()
    for name, vector in zip(["p0", "p1", "q0", "q1"], expected, strict=True):
        assert np.allclose(found[name][-len(vector) :], vector, atol=1e-5), name
        if len(patterns) == 1:
            assert found[name][0] == 1 + (name[0] == "q")

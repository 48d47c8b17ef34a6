"""Features of language models, which an optional step writes as columns of vectors."""

import csv
import json

import numpy as np
import pytest

from conftest import partition

pyarrow = pytest.importorskip("pyarrow")
transformers = pytest.importorskip("transformers")
torch = pytest.importorskip("torch")

from edgecut import language_models

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "red", "green", "shoe", "hat", "of", "wool"]
TITLES = ["red shoe", "green hat of wool", "", "hat, red\nand green", "NA", "shoe"] * 300
LENGTH = 8


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    """The folder of a small model with random weights."""
    folder = tmp_path_factory.mktemp("bert")
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    transformers.BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)
    torch.manual_seed(3)
    config = transformers.BertConfig(
        vocab_size=len(WORDS), hidden_size=12, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    transformers.BertModel(config).eval().save_pretrained(folder)
    return folder


def write(folder, bert, is_parquet, transform="bert_hf"):
    """Write the tables and the configuration of a shop whose products have titles."""
    rows = [{"sku": f"P{number}", "price": number, "title": title} for number, title in enumerate(TITLES)]
    if is_parquet:
        import pyarrow.parquet

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
        (lambda table: table["features"].pop(0), "no feature has the transform bert_hf or tokenize_hf"),
    ]:
        conf = json.loads(path.read_text())
        change(conf["nodes"][0])
        other = tmp_path / "other.json"
        other.write_text(json.dumps(conf))
        with pytest.raises(language_models.ConfigurationError, match=expected):
            language_models.run(other)
        assert not (tmp_path / "other.vectors.json").exists()

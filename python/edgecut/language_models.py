"""Vectors of language models for the tables of a configuration.

`partition-graph` runs no language model. This optional step computes the features whose transform is `bert_hf` or
`tokenize_hf`, writes them to Parquet, and writes a configuration that reads them from there:

    python3 -m edgecut.language_models graph.yaml

writes `graph.vectors.json` and the folder `graph.vectors` beside `graph.yaml`. It needs `transformers`, `torch` and
`pyarrow`, and PyYAML for a configuration in YAML. Each batch of texts is read, computed and written on its own, so memory
does not grow with the table.
"""

import argparse
import contextlib
import decimal
import hashlib
import json
import os
import pathlib
import re
import sys

from .convert import read_conf
from .table_files import format_of, rows_of, table_files

# The texts that are missing values, as in the tables of `partition-graph`. A missing text is an empty one here.
MISSING = ["", "NA", "N/A", "NaN", "nan", "null", "None"]
TRANSFORMS = ("bert_hf", "tokenize_hf")
TRANSFORM_KEYS = {"name", "bert_model", "max_seq_length", "infer_batch_size"}
# The keys of a feature with a language model.
FEATURE_KEYS = {"feature_col", "feature_name", "transform", "out_dtype", "missing_values"}
# The outputs of a tokenizer, each of which is a feature of `tokenize_hf`.
TOKENS = ["input_ids", "attention_mask", "token_type_ids"]
BATCH_SIZE = 1024


class ConfigurationError(ValueError):
    """A configuration or a table that cannot be used."""


@contextlib.contextmanager
def errors_of(at):
    """Name the table in errors of its files."""
    try:
        yield
    except ConfigurationError:
        raise
    except ValueError as error:
        raise ConfigurationError(f"{at}: {error}") from error


def missing_values(table, feature, defaults, at):
    """Return a function that tells whether a text is a missing value. Numbers are missing in all spellings."""
    texts = set()
    for key, values in (("na_values", table.get("na_values", defaults)), ("missing_values", feature.get("missing_values", []))):
        if not isinstance(values, list) or any(type(value) not in (str, int, float) for value in values):
            raise ConfigurationError(f"{at}: {key} is not a list of texts and numbers: write other values in quotes")
        texts.update(map(str, values))
    numbers = {number_of(text) for text in texts} - {None}
    return lambda text: text in texts or (bool(numbers) and number_of(text) in numbers)


def number_of(text):
    """Return the number of a text, unless it is another text, such as 007."""
    text = text.strip()
    is_number = re.fullmatch(r"[-+]?(\.[0-9]+|(0|[1-9][0-9]*)(\.[0-9]*)?)([eE][-+]?[0-9]+)?", text)
    return decimal.Decimal(text) if is_number else None


def texts(files, table, column, is_missing):
    """Yield the texts of a column in pieces; a missing value is an empty text."""
    for file in files:
        for batch in rows_of(file, format_of(file, table), [column], BATCH_SIZE):
            values = [("" if value is None else str(value)) for value in batch.column(0).to_pylist()]
            yield ["" if is_missing(value) else value for value in values]


class LanguageModel:
    """The model of a transform, which computes the columns of a feature."""

    def __init__(self, at, name, transform, device):
        import transformers

        unknown = set(transform) - TRANSFORM_KEYS
        if unknown:
            raise ConfigurationError(f"{at}: unknown key {sorted(unknown)[0]}")
        for key in ("bert_model", "max_seq_length"):
            if key not in transform:
                raise ConfigurationError(f"{at}.{key}: it is missing")
        self.name = name
        self.length = int(transform["max_seq_length"])
        self.batch_size = int(transform.get("infer_batch_size", BATCH_SIZE))
        self.device = device
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(transform["bert_model"])
        self.model = None
        if transform["name"] == "bert_hf":
            self.model, report = transformers.AutoModel.from_pretrained(transform["bert_model"], output_loading_info=True)
            # Weights that are missing would be random numbers, which differ each time.
            if report["missing_keys"]:
                raise ConfigurationError(
                    f"{at}: the model {transform['bert_model']} lacks the weights {', '.join(sorted(report['missing_keys']))}, "
                    "which bert_hf needs: use a model that was saved with them"
                )
            self.model.to(device).eval()
        self.digest = self.digest_of_results()

    def columns(self):
        """Return the names and the widths of the columns."""
        if self.model is not None:
            return {f"{self.name}.{self.digest}": self.model.config.hidden_size}
        return {f"{self.name}.{token}.{self.digest}": self.length for token in TOKENS}

    def digest_of_results(self):
        """Return a name of what the results depend on, so that an update by another model has other columns."""
        digest = hashlib.sha256(f"{self.length} {self.tokenizer.init_kwargs.get('do_lower_case')}".encode())
        digest.update(json.dumps(sorted(self.tokenizer.get_vocab().items())).encode())
        for name, weights in sorted(self.model.state_dict().items()) if self.model is not None else ():
            digest.update(name.encode())
            digest.update(weights.float().cpu().contiguous().numpy())
        return digest.hexdigest()[:8]

    def compute(self, some_texts):
        """Return the rows of each column."""
        import torch

        tokens = self.tokenizer(
            some_texts, max_length=self.length, truncation=True, padding="max_length", return_tensors="pt"
        )
        if self.model is None:
            empty = torch.zeros_like(tokens["input_ids"])
            rows = [tokens.get(token, empty).float().numpy() for token in TOKENS]
            return dict(zip(self.columns(), rows, strict=True))
        with torch.no_grad():
            out = self.model(**tokens.to(self.device))
        if out.get("pooler_output") is None:
            raise ConfigurationError(f"the model of feature {self.name} has no pooled output, as BERT has")
        return dict.fromkeys(self.columns(), out.pooler_output.float().cpu().numpy())


def write_vectors(path, models, pieces_of_column):
    """Write the columns of features to a Parquet file. `pieces_of_column` has an iterator of texts for each model."""
    import pyarrow
    import pyarrow.parquet

    fields = []
    for model in models:
        fields += [
            pyarrow.field(name, pyarrow.list_(pyarrow.float32(), width)) for name, width in model.columns().items()
        ]
    schema = pyarrow.schema(fields)
    num_rows = 0
    with pyarrow.parquet.ParquetWriter(path, schema) as writer:
        # All columns are of the same files, whose pieces have the same rows.
        for pieces in zip(*pieces_of_column, strict=True):
            num_rows += len(pieces[0])
            for start in range(0, len(pieces[0]), BATCH_SIZE):
                rows = {}
                for model, piece in zip(models, pieces, strict=True):
                    add_rows(rows, model, piece[start : start + BATCH_SIZE])
                arrays = [
                    pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(values.ravel()), values.shape[1])
                    for values in rows.values()
                ]
                writer.write_batch(pyarrow.record_batch(arrays, schema=schema))
    return num_rows


def add_rows(rows, model, some_texts):
    import numpy

    batches = [
        model.compute(some_texts[start : start + model.batch_size])
        for start in range(0, len(some_texts), model.batch_size)
    ]
    for name in model.columns():
        rows[name] = numpy.concatenate([batch[name] for batch in batches])


def run(path, device="cpu", tell=lambda text: None):
    """Compute the vectors of a configuration, and return the path of the configuration that reads them."""
    conf = read_conf(path)
    out_dir = path.with_name(f"{path.stem}.vectors")
    out = path.with_name(f"{path.stem}.vectors.json")
    num_features = 0
    for kind in ("nodes", "edges"):
        more = []
        for number, table in enumerate(conf.get(kind) or []):
            at = f"{path}: {kind}[{number}]"
            features = table.get("features") or []
            texts_of = [one for one in features if (one.get("transform") or {}).get("name") in TRANSFORMS]
            if not texts_of:
                continue
            with errors_of(f"{at}.files"):
                files, table["files"] = table_files(path.parent, table["files"])
            models, pieces, keys = [], [], []
            for feature in texts_of:
                name = feature["transform"]["name"]
                unknown = sorted(set(feature) - FEATURE_KEYS)
                if unknown:
                    raise ConfigurationError(f"{at}: {unknown[0]} has no effect on a feature with {name}: leave it out")
                column = feature["feature_col"]
                column = column[0] if isinstance(column, list) and len(column) == 1 else column
                column = str(column) if type(column) is int else column
                if not isinstance(column, str):
                    raise ConfigurationError(f"{at}: {name} takes one column, whose name is a text, not {column}")
                model = LanguageModel(at, feature.get("feature_name", column), feature["transform"], device)
                models.append(model)
                is_missing = missing_values(table, feature, conf.get("na_values", MISSING), at)
                pieces.append(texts(files, table, column, is_missing))
                kept = {key: feature[key] for key in ("out_dtype",) if key in feature}
                keys += [{"feature_col": name, **kept} for name in model.columns()]
            out_dir.mkdir(exist_ok=True)
            file = out_dir / f"{kind}-{number}.parquet"
            partial = file.with_suffix(".partial")
            with errors_of(at):
                num_rows = write_vectors(partial, models, pieces)
            os.replace(partial, file)
            tell(f"{kind}[{number}]: {num_rows} rows of {', '.join(model.name for model in models)} in {file}")
            num_features += len(models)
            table["features"] = [one for one in features if one not in texts_of]
            if not table["features"]:
                del table["features"]
            names = {key: table[key] for key in ("node_type", "relation") if key in table}
            of_files = str(file.relative_to(path.parent))
            more.append({**names, "files": of_files, "format": {"name": "parquet"}, "features": keys})
        if more:
            conf[kind] = conf[kind] + more
    if num_features == 0:
        raise ConfigurationError(f"{path}: no feature has the transform bert_hf or tokenize_hf, so there is nothing to do")
    partial = out.with_suffix(".partial")
    partial.write_text(json.dumps(conf, indent=2) + "\n")
    os.replace(partial, out)
    return out


def main():
    parser = argparse.ArgumentParser(prog="python3 -m edgecut.language_models", description=__doc__.split("\n\n")[0])
    parser.add_argument("conf", type=pathlib.Path, help="the configuration of partition-graph --conf")
    parser.add_argument("--device", default="cpu", help="the device of PyTorch for the models [default: cpu]")
    args = parser.parse_args()
    try:
        out = run(args.conf, args.device, tell=print)
    except (ValueError, OSError, ImportError) as error:
        sys.exit(f"error: {error}")
    print(f"partition-graph --conf {out} reads the vectors")


if __name__ == "__main__":
    main()

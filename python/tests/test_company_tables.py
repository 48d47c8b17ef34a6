"""Tables as companies have them: files with all troubles at once, from tables to predictions and to the next day.

Every count that the programs print is compared with the tables.
"""

import collections
import csv
import datetime
import decimal
import gzip
import json
import random
import re
import subprocess

import pytest
from conftest import PATIENCE, PROGRAMS

pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is missing: pip install edgecut[convert]")

import pyarrow.parquet  # noqa: E402

UTC = datetime.timezone.utc
SMALL = ("--num-neighbors", "5,5", "--hidden-channels", "8", "--num-epochs", "2", "--batch-size", "64")
MISSING = re.compile(r"note: (\w+\[\d+\]), column (\w+): (\d+) of (\d+) values are missing \(([^)]*)\)")
NUM_ACCOUNTS = 300
# In a year.
NUM_TRANSFERS = 1000


def called(program, *flags):
    """Run a program, and return its status, its output and its messages."""
    done = subprocess.run([PROGRAMS / program, *map(str, flags)], capture_output=True, text=True, timeout=PATIENCE)
    return done.returncode, done.stdout, done.stderr


def succeeded(program, *flags):
    status, output, messages = called(program, *flags)
    assert status == 0, messages
    return output, messages


def parquet(path, schema=None, **columns):
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.table(columns, schema), path)


def rows_of(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def missing_of(messages):
    """Return the missing values of each column that notes tell. The spellings of a note add up to its number."""
    found = {}
    for table, column, number, rows, spellings in MISSING.findall(messages):
        assert sum(int(each.split()[0]) for each in spellings.split(", ")) == int(number), (column, spellings)
        found[table, column] = (int(number), int(rows))
    return found


def nodes_of(made, name):
    return next(of_type for of_type in made["node_types"] if of_type["name"] == name)


def accounts(path, ids, rng, is_typed=True):
    """Write a table of accounts, and return it. Without types, keys are floats, and the column of notes has no value."""
    rows = len(ids)
    kinds = [rng.choice(["retail", "corporate", "unknown", "?"]) for _ in range(rows)]
    risks = [rng.choice([None, "unknown", "fraud", "ok", "ok", "ok"]) for _ in range(rows)]
    table = {
        "account": pyarrow.array(ids, pyarrow.int64()) if is_typed else pyarrow.array(map(float, ids), pyarrow.float64()),
        "kind": pyarrow.array(kinds).dictionary_encode(),
        "opened": [f"{rng.randint(1, 28):02}.{rng.randint(1, 12):02}.{rng.randint(2015, 2023)}" for _ in range(rows)],
        "balance": [None if rng.random() < 0.12 else round(rng.lognormvariate(7, 2), 2) for _ in range(rows)],
        "score": pyarrow.array([None if rng.random() < 0.1 else rng.randrange(300, 850) for _ in range(rows)], pyarrow.int16()),
        "active": [rng.random() < 0.8 for _ in range(rows)],
        "note": [rng.choice(["opened by phone", "web sign-up", "", "NA"]) if is_typed else None for _ in range(rows)],
        "household": [f"h{number // 3}" for number in ids],
        "vector": [[rng.random() for _ in range(rng.choice([2, 3]))] for _ in range(rows)],
        "risk": risks,
    }
    parquet(path, **table)
    return {name: column.to_pylist() if isinstance(column, pyarrow.Array) else column for name, column in table.items()}


def transfers(folder, ids, number, year, first, rng):
    """Write transfers of a year to compressed files, and return these."""
    found = []
    for part in range(2):
        path = folder / f"year={year}" / f"part-{part}.csv.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        with gzip.open(path, "wt", newline="") as file:
            lines = csv.DictWriter(file, ["tx", "from", "to", "when", "amount", "channel"])
            lines.writeheader()
            for row in range(part, number, 2):
                time = datetime.datetime(year, 1, 1, tzinfo=UTC) + datetime.timedelta(seconds=rng.randrange(300 * 86400), microseconds=rng.randrange(10**6))
                line = {
                    "tx": f"T{first + row}",
                    "from": rng.choice(ids),
                    "to": rng.choice(ids) if rng.random() > 0.02 else 99_999_999,
                    "when": time.astimezone(datetime.timezone(datetime.timedelta(hours=rng.choice([0, 2, -5])))).isoformat(),
                    "amount": "" if rng.random() < 0.05 else round(rng.lognormvariate(3, 1), 2),
                    "channel": rng.choice(["app", "card", "unknown"]),
                }
                lines.writerow(line)
                found.append(line)
    return found


def bank_conf(folder):
    dates = {"name": "date", "outputs": ["age", "month"], "unit": "years", "cyclic": True, "reference": "2025-01-01"}
    features = [
        {"feature_col": "balance", "impute": "median", "indicator": True, "transform": {"name": "rank_gauss"}},
        {"feature_col": "score", "impute": "mean", "indicator": True, "transform": {"name": "z_score"}},
        {"feature_col": "active"},
        {"feature_col": "kind", "missing_values": ["unknown", "?"], "impute": "most_frequent", "transform": {"name": "to_categorical"}},
        {"feature_col": "opened", "transform": {**dates, "format": "%d.%m.%Y"}},
        {"feature_col": "household", "transform": {"name": "hash_buckets", "buckets": 16}},
        {"feature_col": "note", "transform": {"name": "hash_ngrams", "buckets": 32}},
        {"feature_col": "vector", "length": 3},
    ]
    label = {"task_type": "classification", "label_col": "risk", "missing_values": ["unknown"], "split_pct": [0.6, 0.2, 0.2]}
    node = {"node_type": "account", "files": f"{folder}/accounts-*.parquet", "node_id_col": "account", "features": features}
    edge = {
        "relation": ["account", "pays", "account"],
        "files": f"{folder}/transfers",
        "source_id_col": "from",
        "dest_id_col": "to",
        "edge_id_col": "tx",
        "time_col": "when",
        "features": [
            {"feature_col": "amount", "impute": "median", "indicator": True, "transform": {"name": "log"}},
            {"feature_col": "channel", "missing_values": ["unknown"], "transform": {"name": "to_categorical"}},
            {"feature_col": "when", "feature_name": "hour", "transform": {"name": "date", "outputs": ["hour", "weekday"], "cyclic": True}},
            {"feature_col": "year", "transform": {"name": "clip", "min": 2022}},
        ],
    }
    return {"nodes": [{**node, "labels": [{**label, "split_by_group": "household"}]}], "edges": [edge]}


def is_missing(name, value):
    listed = {"kind": ["unknown", "?"], "risk": ["unknown"], "channel": ["unknown"]}.get(name, [])
    return value in (None, "", "NA", *listed)


def expected_missing(table, rows):
    """Return the missing values of a table, by its columns, as notes tell them."""
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    counts = {name: sum(is_missing(name, value) for value in values) for name, values in columns.items()}
    return {(table, name): (count, len(rows)) for name, count in counts.items() if count}


def as_rows(*tables):
    return [dict(zip(table, row, strict=True)) for table in tables for row in zip(*table.values(), strict=True)]


def test_accounts_and_transactions_with_all_troubles(tmp_path):
    rng = random.Random(1)
    ids = [10_000 + 7 * number for number in range(NUM_ACCOUNTS)]
    half = NUM_ACCOUNTS // 2
    monday = tmp_path / "monday"
    customers = as_rows(accounts(monday / "accounts-0.parquet", ids[:half], rng), accounts(monday / "accounts-1.parquet", ids[half:], rng, is_typed=False))
    paid = [line for year in (2022, 2023) for line in transfers(monday / "transfers", ids, NUM_TRANSFERS, year, year * NUM_TRANSFERS, rng)]
    (tmp_path / "monday.json").write_text(json.dumps(bank_conf("monday")))
    parts = tmp_path / "parts"
    flags = ("--conf", tmp_path / "monday.json", "--dataset", "bank", "--num-partitions", 2, "--add-reverse-edges", "--output-dir", parts, "--json")

    # A row that cannot be used is named, with the remedy.
    status, _, messages = called("partition-graph", *flags)
    assert status == 1 and "column to: there is no account with the id 99999999" in messages and "--on-bad-rows drop" in messages

    output, messages = succeeded("partition-graph", *flags, "--on-bad-rows", "drop")
    made = json.loads(output)
    dangling = sum(line["to"] == 99_999_999 for line in paid)
    assert f"warning: dropped {dangling} rows of edges[0] with an end that does not exist ({dangling / len(paid):.1%}".replace("%", " %") in messages
    assert missing_of(messages) == {**expected_missing("nodes[0]", customers), **expected_missing("edges[0]", paid)}
    of_accounts = nodes_of(made, "account")
    assert of_accounts["book"][-1] == NUM_ACCOUNTS
    # All accounts with a known risk are in a split, with their households.
    assert sum(of_accounts["split_sizes"]) == sum(not is_missing("risk", row["risk"]) for row in customers)
    assert [of_type["num_edges"] for of_type in made["edge_types"]] == [len(paid) - dangling] * 2
    assert made["time_unit"] == "nanoseconds"
    assert "all valid" in succeeded("partition-graph", "verify", parts)[0]

    model = tmp_path / "model.safetensors"
    train = ("train", "node", "--nproc-per-node", 2, *SMALL, "--class-weights", "fraud=4,ok=1", "--positive-class", "fraud", "--metric", "average-precision")
    output, _ = succeeded(*train, "--dataset-root-dir", parts, "--save-model", model)
    assert "average-precision of fraud" in output
    out = tmp_path / "out"
    predict = ("train", "predict", "--nproc-per-node", 2, "--format", "csv", "--gather", "--overwrite", "--out", out)
    succeeded(*predict, "--dataset-root-dir", parts, "--load-model", model)
    found = rows_of(out / "predictions.csv")
    assert [int(row["id"]) for row in found] == ids
    assert {row["class_name"] for row in found} <= {"fraud", "ok"}

    # Accounts in a file, by their keys of another type, and the causes of their predictions.
    parquet(tmp_path / "some.parquet", id=pyarrow.array([ids[7], ids[200]], pyarrow.int32()))
    succeeded(*predict, "--dataset-root-dir", parts, "--load-model", model, "--nodes", tmp_path / "some.parquet", "--output", "probability")
    assert [(int(row["id"]), set(row)) for row in rows_of(out / "predictions.csv")] == [
        (number, {"node_id", "id", "probability_fraud", "probability_ok"}) for number in (ids[7], ids[200])
    ]
    explain = (*predict[:4], "--format", "csv", "--out", tmp_path / "why", "--explain", "--explain-top", 5)
    succeeded(*explain, "--dataset-root-dir", parts, "--load-model", model, "--nodes", tmp_path / "some.parquet")
    causes = rows_of(tmp_path / "why" / "explanations.csv")
    assert {int(row["id"]) for row in causes} == {ids[7], ids[200]}
    assert {int(row["input"]) for row in causes} <= set(ids)
    names = {row["feature"].split("[")[0].split("=")[0] for row in causes}
    known = {feature.get("feature_name", feature["feature_col"]) for table in ("nodes", "edges") for feature in bank_conf("")[table][0]["features"]}
    assert names <= {"", *known, *(f"{name} is missing" for name in known)}, names

    # The next day: new accounts, known ones with new values, closed ones, and more transfers.
    tuesday = tmp_path / "tuesday"
    new = [10_000 + 7 * number for number in range(NUM_ACCOUNTS, NUM_ACCOUNTS + 20)]
    accounts(tuesday / "accounts-0.parquet", [*new, *ids[:5]], rng)
    later = transfers(tuesday / "transfers", [*new, *ids], 100, 2024, 2024 * NUM_TRANSFERS, rng)
    parquet(tuesday / "closed.parquet", account=pyarrow.array([decimal.Decimal(number) for number in ids[10:13]], pyarrow.decimal128(38, 0)))
    removed = [{"node_type": "account", "files": "tuesday/closed.parquet", "node_id_col": "account"}]
    (tmp_path / "tuesday.json").write_text(json.dumps({**bank_conf("tuesday"), "removed_nodes": removed}))
    output, messages = succeeded("partition-graph", "update", parts, "--conf", tmp_path / "tuesday.json", "--on-bad-rows", "drop", "--json")
    updated = json.loads(output)
    assert updated["nodes"] == [{"node_type": "account", "before": NUM_ACCOUNTS, "removed": 3, "changed": 5, "new": 20, "after": NUM_ACCOUNTS + 17}]
    closed = set(ids[10:13])
    lost = sum(line["to"] != 99_999_999 and bool(closed & {line["from"], line["to"]}) for line in paid)
    added = sum(line["to"] != 99_999_999 and not closed & {line["from"], line["to"]} for line in later)
    for of_type in updated["edges"]:
        assert (of_type["before"], of_type["removed_with_nodes"], of_type["added"]) == (len(paid) - dangling, lost, added)
        assert of_type["after"] == of_type["before"] - lost + added
    assert sum(dropped["rows"] for dropped in updated["dropped_rows"]) == len(later) - added
    assert "all valid" in succeeded("partition-graph", "verify", parts)[0]
    next_model = tmp_path / "next.safetensors"
    succeeded(*train, "--dataset-root-dir", parts, "--init-from", model, "--save-model", next_model)
    succeeded(*predict, "--dataset-root-dir", parts, "--load-model", next_model)
    assert {int(row["id"]) for row in rows_of(out / "predictions.csv")} == {*ids, *new} - closed


def write_shop(folder, rng):
    """Write users, items, purchases, and returns that have no rows yet. Return the users and the purchases."""
    users = []
    for number in range(200):
        users.append(
            {
                "user": f"u-{number}",
                "age": "" if rng.random() < 0.12 else rng.randrange(18, 80),
                "country": rng.choice(["NL", "PT", "NA", ""]),
                "joined": "" if rng.random() < 0.05 else 1_500_000_000_000 + rng.randrange(10**11),
                "premium": rng.choice(["True", "false"]),
                "segment": rng.choice(["new", "regular", "?", ""]),
            }
        )
    folder.mkdir()
    with open(folder / "users.csv", "w", newline="") as file:
        lines = csv.DictWriter(file, users[0])
        lines.writeheader()
        lines.writerows(users)
    skus = [10**25 + number for number in range(60)]
    parquet(
        folder / "items.parquet",
        # Keys of a database whose numbers have digits after the point.
        sku=pyarrow.array([decimal.Decimal(sku) for sku in skus], pyarrow.decimal128(38, 2)),
        price=pyarrow.array([None if rng.random() < 0.1 else decimal.Decimal(rng.randrange(100, 9999)) / 100 for _ in skus], pyarrow.decimal128(9, 2)),
        title=[rng.choice(["Red wine", "garden hose", "book"]) for _ in skus],
        added=pyarrow.array([datetime.datetime(2024, 1, 1) + datetime.timedelta(hours=rng.randrange(9000)) for _ in skus], pyarrow.timestamp("ms")),
    )
    purchases = []
    for _ in range(1500):
        user = f"u-{rng.randrange(200)}" if rng.random() > 0.02 else None
        purchases.append((user, str(rng.choice(skus)), datetime.datetime(2025, 1, 1) + datetime.timedelta(minutes=rng.randrange(525_600))))
    who, what, day = zip(*purchases, strict=True)
    parquet(folder / "purchases" / "part-0.parquet", who=who, what=pyarrow.array(what).dictionary_encode(), day=pyarrow.array(day, pyarrow.timestamp("us")))
    # Times are needed where there are edges only.
    parquet(folder / "returns.parquet", who=pyarrow.array([], pyarrow.string()), what=pyarrow.array([], pyarrow.string()))
    return users, skus, purchases


SHOP = """
nodes:
  - node_type: user
    files: shop/users.csv
    node_id_col: user
    features:
      - {feature_col: age, impute: median, indicator: true, transform: {name: z_score}}
      - {feature_col: country, impute: constant, fill_value: other, transform: {name: to_categorical}}
      - {feature_col: joined, impute: none, indicator: true, transform: {name: date, epoch: ms, scale: true}}
      - {feature_col: premium}
    labels:
      - {task_type: classification, label_col: segment, missing_values: ["?"], split_pct: [0.8, 0.1, 0.1]}
  - node_type: item
    files: shop/items.parquet
    node_id_col: sku
    features:
      - {feature_col: price, impute: mean, transform: {name: log}}
      - {feature_col: title, transform: {name: hash_ngrams, buckets: 16, of: letters}}
      - {feature_col: added, transform: {name: date, unit: years}}
edges:
  - relation: [user, buys, item]
    files: shop/purchases
    source_id_col: who
    dest_id_col: what
    time_col: day
    labels:
      - {task_type: link_prediction, split_pct: [0.8, 0.1, 0.1], split_by: day}
  - {relation: [user, returns, item], files: shop/returns.parquet, source_id_col: who, dest_id_col: what}
"""


def test_users_and_purchases_with_all_troubles(tmp_path):
    users, skus, purchases = write_shop(tmp_path / "shop", random.Random(2))
    (tmp_path / "shop.yaml").write_text(SHOP)
    parts = tmp_path / "parts"
    flags = ("--conf", tmp_path / "shop.yaml", "--dataset", "shop", "--num-partitions", 2, "--add-reverse-edges", "--output-dir", parts, "--json")
    output, messages = succeeded("partition-graph", *flags, "--on-bad-rows", "drop")
    made = json.loads(output)
    without_user = sum(who is None for who, _, _ in purchases)
    assert f"dropped {without_user} rows of edges[0] with no id" in messages
    assert "warning: edges[1]: user__returns__item gets no edges, because its table has no rows" in messages
    found = missing_of(messages)
    assert found.pop(("edges[0]", "who")) == (without_user, len(purchases))
    assert found.pop(("nodes[1]", "price"))[1] == len(skus)
    expected = {}
    for name in ("age", "country", "joined", "segment"):
        missing = sum(row[name] in ("", "NA", "?") for row in users)
        expected["nodes[0]", name] = (missing, len(users))
    assert found == expected
    assert [nodes_of(made, name)["book"][-1] for name in ("user", "item")] == [len(users), len(skus)]
    labeled = len(users) - expected["nodes[0]", "segment"][0]
    # Shares of the labeled users, rounded down.
    assert nodes_of(made, "user")["split_sizes"] == [labeled * 8 // 10, labeled // 10, labeled // 10]
    edges = {of_type["relation"]: of_type for of_type in made["edge_types"]}
    used = [purchase for purchase in purchases if purchase[0] is not None]
    for name in ("buys", "rev_buys"):
        assert edges[name]["num_edges"] + sum(edges[name]["held_out"]) == len(used)
    assert edges["returns"]["num_edges"] == edges["rev_returns"]["num_edges"] == 0

    model = tmp_path / "links.safetensors"
    out = tmp_path / "out"
    succeeded("train", "link", "--dataset-root-dir", parts, "--nproc-per-node", 2, *SMALL, "--edge-types", "user__buys__item", "--time-attr", "edge_time", "--save-model", model)
    predict = ("train", "predict", "--dataset-root-dir", parts, "--load-model", model, "--nproc-per-node", 2, "--format", "csv", "--gather", "--overwrite", "--out", out)
    (tmp_path / "users.csv").write_text("id\nu-3\nu-199\n")
    succeeded(*predict, "--edge-type", "buys", "--output", "top-k", "--sources", tmp_path / "users.csv", "--top-k", 4, "--exclude-known")
    bought = collections.defaultdict(set)
    for who, what, _ in used:
        bought[who].add(what)
    top = rows_of(out / "top_k.csv")
    assert [(row["src"], int(row["rank"])) for row in top] == [(user, rank) for user in ("u-3", "u-199") for rank in range(1, 5)]
    assert all(int(row["dst"]) in skus and row["dst"] not in bought[row["src"]] for row in top)
    # The scores of these pairs, from a file of texts, are the scores of the list.
    with open(tmp_path / "pairs.csv", "w") as file:
        file.write("src,dst\n" + "".join(f"{row['src']},{row['dst']}\n" for row in top))
    succeeded(*predict, "--edge-type", "buys", "--output", "score", "--pairs", tmp_path / "pairs.csv")
    scores = rows_of(out / "scores.csv")
    assert [(row["src"], row["dst"]) for row in scores] == [(row["src"], row["dst"]) for row in top]
    assert [float(row["score"]) for row in scores] == pytest.approx([float(row["score"]) for row in top], abs=1e-4)

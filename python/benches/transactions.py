"""Scores transactions with planted fraud by Edgecut, from CSV files to a file of scored transactions, and by PyG.

    python python/benches/transactions.py FOLDER --bin target/release [--num-transactions 50000] [--pyg]

FOLDER gets the tables, the configuration, the parts, the model and the scores. The probability of fraud depends on the
features of a transaction, on both accounts, and on the other transactions of the receiver. The program prints the ROC AUC
on the test transactions of: the probabilities that generated the labels, which nothing can exceed but by chance; Edgecut;
and with --pyg, GINE and TransformerConv of PyG on the whole graph, with splits of the same sizes.
"""

import argparse
import csv
import json
import pathlib
import subprocess

import numpy as np

NUM_CATEGORIES = 8
FRAUD = "probability_fraud"


def generate(num_accounts, num_transactions, seed):
    """Return a dictionary of arrays: accounts, transactions, the split of each, and the probability of fraud."""
    draw = np.random.default_rng(seed)
    age = draw.normal(size=num_accounts)
    risk = draw.beta(1, 4, size=num_accounts)
    # Each pair of accounts has one transaction.
    src, dst = np.divmod(draw.choice(num_accounts**2, num_transactions, replace=False), num_accounts)
    amount = draw.normal(size=num_transactions)
    category = draw.integers(0, NUM_CATEGORIES - 1, num_transactions)
    # The last category is frequent among the transactions that a risky account receives.
    category[draw.random(num_transactions) < risk[dst]] = NUM_CATEGORIES - 1
    is_last = category == NUM_CATEGORIES - 1
    received = np.bincount(dst, minlength=num_accounts)
    last = np.bincount(dst, weights=is_last, minlength=num_accounts)
    share = (last[dst] - is_last) / np.maximum(received[dst] - 1, 1)
    logit = -5 + 1.5 * amount + 1.5 * (category == 3) - 1.2 * age[src] + 8 * share
    probability = 1 / (1 + np.exp(-logit))
    return {
        "age": age,
        "src": src,
        "dst": dst,
        "amount": amount,
        "category": category,
        "probability": probability,
        "label": draw.random(num_transactions) < probability,
        "split": draw.choice(3, num_transactions, p=[0.6, 0.2, 0.2]),
    }


def write_tables(folder, data):
    """Write the tables and the configuration of the import."""
    with open(folder / "accounts.csv", "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["id", "age"])
        table.writerows((f"A{number:06}", f"{age:.6f}") for number, age in enumerate(data["age"]))
    columns = zip(data["src"], data["dst"], data["amount"], data["category"], data["label"])
    with open(folder / "transactions.csv", "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["id", "from", "to", "amount", "category", "kind"])
        for row, (src, dst, amount, category, label) in enumerate(columns):
            kind = "fraud" if label else "honest"
            table.writerow([f"T{row:06}", f"A{src:06}", f"A{dst:06}", f"{amount:.6f}", f"c{category}", kind])
    features = [{"feature_col": "amount"}, {"feature_col": "category", "transform": {"name": "to_categorical"}}]
    label = {"task_type": "classification", "label_col": "kind", "split_pct": [0.6, 0.2, 0.2]}
    conf = {
        "version": "gconstruct-v0.1",
        "nodes": [{
            "node_type": "account",
            "format": {"name": "csv"},
            "files": ["accounts.csv"],
            "node_id_col": "id",
            "features": [{"feature_col": "age"}],
        }],
        "edges": [{
            "relation": ["account", "pays", "account"],
            "format": {"name": "csv"},
            "files": ["transactions.csv"],
            "source_id_col": "from",
            "dest_id_col": "to",
            "edge_id_col": "id",
            "features": features,
            "labels": [label],
        }],
    }
    (folder / "payments.json").write_text(json.dumps(conf, indent=2))


def roc_auc(scores, labels):
    """Return the area under the ROC curve. Equal scores count half."""
    positives, negatives = np.sort(scores[labels]), np.sort(scores[~labels])
    below = np.searchsorted(negatives, positives, "left") + np.searchsorted(negatives, positives, "right")
    return float(below.sum() / 2 / (len(positives) * len(negatives)))


def run_edgecut(folder, programs, model, epochs, data):
    """Return the AUC of the scores in the file of the test transactions, and of the probabilities that generated them."""

    def run(name, *flags):
        subprocess.run([programs / name, *map(str, flags)], check=True, stdout=subprocess.DEVNULL)

    run("partition-graph", "--conf", folder / "payments.json", "--dataset", "payments", "--root-dir", folder,
        "--num-partitions", 2, "--add-reverse-edges", "--overwrite")
    parts = folder / "partitions" / "payments" / "2-parts"
    saved = folder / f"{model}.safetensors"
    run("train", "edge", "--dataset-root-dir", parts, "--nproc-per-node", 2, "--model", model, "--num-neighbors", "20",
        "--eval-num-neighbors=-1", "--hidden-channels", 64, "--batch-size", 1024, "--lr", 0.003, "--num-epochs", epochs,
        "--metric", "roc-auc", "--save-model", saved, "--quiet")
    run("train", "predict", "--dataset-root-dir", parts, "--load-model", saved, "--edges", "test",
        "--output", "probability", "--format", "csv", "--out", folder / "scores", "--overwrite", "--quiet")
    rows, scores = [], []
    for path in sorted((folder / "scores").glob("*.csv")):
        with open(path, newline="") as file:
            for line in csv.DictReader(file):
                rows.append(int(line["id"][1:]))
                scores.append(float(line[FRAUD]))
    assert len(set(rows)) == len(rows), "a transaction has two scores"
    labels = data["label"][rows]
    return roc_auc(np.array(scores), labels), roc_auc(data["probability"][rows], labels)


def run_pyg(data, name, epochs, seed):
    """Return the test AUC of a PyG model at its best validation epoch."""
    import torch
    from torch_geometric.nn import GINEConv, TransformerConv

    torch.manual_seed(seed)
    hidden = 64
    ends = torch.from_numpy(np.stack([data["src"], data["dst"]]))
    one_hot = np.eye(NUM_CATEGORIES, dtype=np.float32)[data["category"]]
    edges = torch.from_numpy(np.concatenate([data["amount"][:, None].astype(np.float32), one_hot], 1))
    x = torch.from_numpy(data["age"][:, None].astype(np.float32))
    both, both_edges = torch.cat([ends, ends.flip(0)], 1), torch.cat([edges, edges])

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = torch.nn.Linear(1, hidden)
            if name == "gine":
                mlp = torch.nn.Sequential(torch.nn.Linear(hidden, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, hidden))
                self.conv = GINEConv(mlp, edge_dim=edges.shape[1])
            else:
                self.conv = TransformerConv(hidden, hidden // 4, heads=4, edge_dim=edges.shape[1])
            self.decoder = torch.nn.Sequential(
                torch.nn.Linear(3 * hidden + edges.shape[1], hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, 2)
            )

        def forward(self):
            rows = self.conv(self.encoder(x).relu(), both, both_edges).relu()
            src, dst = rows[ends[0]], rows[ends[1]]
            return self.decoder(torch.cat([src, dst, src * dst, edges], 1))

    model = Model()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    labels = torch.from_numpy(data["label"].astype(np.int64))
    masks = [torch.from_numpy(data["split"] == number) for number in range(3)]
    best = (0.0, 0.0)
    for _ in range(epochs):
        model.train()
        optimizer.zero_grad()
        logits = model()
        torch.nn.functional.cross_entropy(logits[masks[0]], labels[masks[0]]).backward()
        optimizer.step()
        with torch.no_grad():
            model.eval()
            margin = (lambda out: (out[:, 1] - out[:, 0]).numpy())(model())
        scores = [roc_auc(margin[mask.numpy()], data["label"][mask.numpy()]) for mask in masks[1:]]
        best = max(best, tuple(scores))
    return best[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("target/release"))
    parser.add_argument("--num-accounts", type=int, default=5000)
    parser.add_argument("--num-transactions", type=int, default=50_000)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--models", nargs="+", default=["gine", "transformer", "gatv2", "sage"])
    parser.add_argument("--pyg", action="store_true")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    data = generate(args.num_accounts, args.num_transactions, args.seed)
    write_tables(args.folder, data)
    for model in args.models:
        auc, ceiling = run_edgecut(args.folder, args.bin, model, args.epochs, data)
        print(f"edgecut {model} {auc:.4f}, ceiling of the same transactions {ceiling:.4f}", flush=True)
    for model in ("gine", "transformer") if args.pyg else ():
        test = data["split"] == 2
        ceiling = roc_auc(data["probability"][test], data["label"][test])
        auc = run_pyg(data, model, 200, args.seed)
        print(f"pyg {model} {auc:.4f}, ceiling of the same transactions {ceiling:.4f}", flush=True)


if __name__ == "__main__":
    main()

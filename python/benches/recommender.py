"""Recommends items to users with planted tastes by Edgecut, from CSV files of timed purchases to lists of items.

    python python/benches/recommender.py FOLDER --bin target/release [--num-users 4000] [--torch]

FOLDER gets the tables, the configuration, the parts, the model and the lists. A user buys items with a probability that
grows with the popularity of the item and with the match of its traits and the user's taste. The latest purchases are held
out. The program prints recall@20 and NDCG@20 of the test purchases for lists of: the probabilities that generated the
purchases, which no model can exceed but by chance; Edgecut; the most popular items; and with --torch, a matrix
factorisation that is trained with BPR on the same purchases. Lists leave out the items that a user bought before.
"""

import argparse
import csv
import json
import pathlib
import subprocess

import numpy as np

K = 20
# The shares of the purchases that are held out for validation and test.
HELD_OUT = (0.1, 0.2)


def generate(num_users, num_items, num_purchases, seed):
    """Return the probabilities of all items for each user, and purchases in the order of time."""
    draw = np.random.default_rng(seed)
    tastes = draw.normal(size=(num_users, 8))
    traits = draw.normal(size=(num_items, 8))
    popularity = -0.8 * np.log(1 + draw.permutation(num_items))
    logits = popularity + 0.9 * tastes @ traits.T
    # Every user buys different items, and the first ones by the Gumbel trick.
    noisy = logits + draw.gumbel(size=logits.shape)
    items = np.argsort(-noisy, axis=1)[:, :num_purchases].ravel()
    users = np.repeat(np.arange(num_users), num_purchases)
    order = draw.permutation(len(users))
    return logits, users[order], items[order]


def write_tables(folder, num_users, num_items, users, items):
    """Write the tables and the configuration of the import. The time of a purchase is its number."""
    for name, count, letter in [("users", num_users, "U"), ("items", num_items, "I")]:
        with open(folder / f"{name}.csv", "w", newline="") as file:
            table = csv.writer(file)
            table.writerow(["id"])
            table.writerows([f"{letter}{number:06}"] for number in range(count))
    with open(folder / "purchases.csv", "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["user", "item", "time"])
        for time, (user, item) in enumerate(zip(users, items)):
            table.writerow([f"U{user:06}", f"I{item:06}", time])

    def nodes(node_type, file):
        return {"node_type": node_type, "format": {"name": "csv"}, "files": [file], "node_id_col": "id"}

    conf = {
        "version": "gconstruct-v0.1",
        "nodes": [nodes("user", "users.csv"), nodes("item", "items.csv")],
        "edges": [{
            "relation": ["user", "buys", "item"],
            "format": {"name": "csv"},
            "files": ["purchases.csv"],
            "source_id_col": "user",
            "dest_id_col": "item",
            "time_col": "time",
        }],
    }
    (folder / "shop.json").write_text(json.dumps(conf, indent=2))


def metrics(lists, bought_later):
    """Return recall@K and NDCG@K of lists of items, as means over users with later purchases."""
    discounts = 1 / np.log2(np.arange(2, K + 2))
    recall, ndcg = [], []
    for items, later in zip(lists, bought_later):
        if later:
            found = np.array([item in later for item in items])
            recall.append(found.sum() / len(later))
            ndcg.append((found * discounts).sum() / discounts[: len(later)].sum())
    return float(np.mean(recall)), float(np.mean(ndcg))


def best(scores, users, items):
    """Return the items with the highest scores of each user, without those that the user bought."""
    scores = scores.copy()
    scores[users, items] = -np.inf
    return np.argsort(-scores, axis=1)[:, :K]


def run_edgecut(folder, programs, flags):
    """Return the metrics of Edgecut's lists, and of its lists of the most popular items."""

    def run(name, *flags):
        command = [programs / name, *map(str, flags)]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout

    run("partition-graph", "--conf", folder / "shop.json", "--dataset", "shop", "--root-dir", folder, "--num-partitions", 2,
        "--hold-out-edges", f"latest:{HELD_OUT[0]},{HELD_OUT[1]}", "--overwrite")
    parts = folder / "partitions" / "shop" / "2-parts"
    saved = folder / "recommender.safetensors"
    run("train", "link", "--dataset-root-dir", parts, "--nproc-per-node", 2, "--save-model", saved, "--quiet", *flags)
    output = run("train", "predict", "--dataset-root-dir", parts, "--load-model", saved, "--output", "top-k", "--sources",
                 "all", "--top-k", K, "--exclude-known", "train", "--out", folder / "lists", "--overwrite", "--json")
    result = json.loads(output.strip().splitlines()[-1])
    return [(result[name]["recall"], result[name]["ndcg"]) for name in ("test", "popularity")]


def run_torch(num_users, num_items, users, items, epochs, seed):
    """Return the scores of a matrix factorisation that is trained with BPR."""
    import torch

    torch.manual_seed(seed)
    tables = [torch.nn.Embedding(num_users, 64), torch.nn.Embedding(num_items, 64)]
    bias = torch.nn.Embedding(num_items, 1)
    for table in tables:
        torch.nn.init.normal_(table.weight, std=0.1)
    torch.nn.init.zeros_(bias.weight)
    parameters = [parameter for table in [*tables, bias] for parameter in table.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=0.005, weight_decay=1e-6)
    pairs = torch.from_numpy(np.stack([users, items]))
    for _ in range(epochs):
        for batch in torch.randperm(pairs.shape[1]).split(1024):
            user, item = pairs[:, batch]
            other = torch.randint(num_items, (len(batch), 8))
            of_user = tables[0](user)
            positive = (of_user * tables[1](item)).sum(-1, keepdim=True) + bias(item)
            negative = (of_user.unsqueeze(1) * tables[1](other)).sum(-1) + bias(other).squeeze(-1)
            optimizer.zero_grad()
            torch.nn.functional.softplus(negative - positive).mean().backward()
            optimizer.step()
    with torch.no_grad():
        return (tables[0].weight @ tables[1].weight.T + bias.weight.T).numpy()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("target/release"))
    parser.add_argument("--num-users", type=int, default=4000)
    parser.add_argument("--num-items", type=int, default=2000)
    parser.add_argument("--num-purchases", type=int, default=30, help="of each user")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--flags", default="--model embedding --hidden-channels 64 --loss softmax --shared-negatives "
                        "--num-negatives 500 --in-batch-negatives --n3-weight 0.1 --batch-size 512 --lr 0.01 "
                        "--lr-schedule cosine --dropout 0")
    parser.add_argument("--torch", action="store_true")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    logits, users, items = generate(args.num_users, args.num_items, args.num_purchases, args.seed)
    write_tables(args.folder, args.num_users, args.num_items, users, items)
    num_train = len(users) - round(HELD_OUT[0] * len(users)) - round(HELD_OUT[1] * len(users))
    num_later = round(HELD_OUT[1] * len(users))
    later = [set() for _ in range(args.num_users)]
    for user, item in zip(users[-num_later:], items[-num_later:]):
        later[user].add(item)
    known = users[:num_train], items[:num_train]
    counts = np.bincount(known[1], minlength=args.num_items).astype(float)
    results = {
        "probabilities": metrics(best(logits, *known), later),
        "most popular": metrics(best(np.tile(counts, (args.num_users, 1)), *known), later),
    }
    of_model, of_popularity = run_edgecut(args.folder, args.bin, [*args.flags.split(), "--num-epochs", args.epochs])
    results["edgecut"] = of_model
    results["edgecut's most popular"] = of_popularity
    if args.torch:
        scores = run_torch(args.num_users, args.num_items, *known, args.epochs, args.seed)
        results["torch"] = metrics(best(scores, *known), later)
    for name, (recall, ndcg) in results.items():
        print(f"{name}: recall@{K} {recall:.4f}, NDCG@{K} {ndcg:.4f}", flush=True)


if __name__ == "__main__":
    main()

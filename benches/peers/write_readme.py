#!/usr/bin/env python3
"""Writes the table of speeds in README.md from results of compare.py.

    write_readme.py WORK/results.json [--readme README.md]

The table stands between the comments `speeds` and `end of speeds`. It has the figures of the path ranks-train and, if they
were measured, the fastest training of each system in the paths ranks-accuracy."""

import argparse
import json
import sys
from pathlib import Path

from compare import medians
from paths import HERE, UNTIL_ACCURACY

PATH = "ranks-train"
RIVAL = "distdgl"
BEGIN = "<!-- speeds: written by benches/peers/write_readme.py -->\n"
END = "<!-- end of speeds -->\n"
ROWS = (
    ("time per batch", "seconds", 1e3, "ms"),
    ("CPU time per batch", "cpu_s", 1e3, "ms"),
    ("received per batch", "received_mb", 1.0, "MB"),
    ("peak memory", "peak_rss_mb", 1.0, "MB"),
)
"""For each row its title, the figure, the factor to the unit, and the unit."""


def fastest(results: dict, system: str) -> float | None:
    """Returns the seconds of the fastest setting of a system that trained to the accuracy."""
    paths = [path["runs"] for path in results["paths"] if path["path"].startswith("ranks-accuracy")]
    settings = [runs for path in paths for name, runs in path.items() if name.split(",")[0] == system]
    return min((figures["seconds"] for runs in settings if (figures := medians(runs))), default=None)


def table(results: dict) -> str:
    """Returns the table in Markdown, with the commit and the date of the results below it."""
    found = [path for path in results["paths"] if path["path"] == PATH]
    runs = found[0]["runs"] if found else {}
    theirs, ours = (medians(runs.get(name, [])) for name in (RIVAL, "edgecut"))
    if not theirs or not ours:
        sys.exit(f"error: the results have no successful runs of {RIVAL} and edgecut in {PATH}: run compare.py with both")
    lines = ["| training on two ranks | DistDGL | Edgecut | ratio |", "|---|---|---|---|"]
    rows = [(title, [one[figure] * scale for one in (theirs, ours)], unit) for title, figure, scale, unit in ROWS]
    until = [fastest(results, system) for system in (RIVAL, "edgecut")]
    if None not in until:
        rows.insert(0, (f"training to {UNTIL_ACCURACY * 100:.0f} % of the validation nodes, fastest setting", until, "s"))
    for title, pair, unit in rows:
        shown = [f"{value:.{0 if value >= 100 else 1}f} {unit}" for value in pair]
        lines.append(f"| {title} | {shown[0]} | {shown[1]} | {pair[0] / pair[1]:.1f} |")
    lines += ["", f"Commit {results['commit'][:7]}, {results['date'][:10]}, medians of {len(runs['edgecut'])} rounds."]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--readme", type=Path, default=HERE.parent.parent / "README.md")
    args = parser.parse_args()
    text = args.readme.read_text()
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        sys.exit(f"error: {args.readme} has no place for the table: it needs the lines {BEGIN.strip()} and {END.strip()}")
    args.readme.write_text(before + BEGIN + table(json.loads(args.results.read_text())) + END + after)


if __name__ == "__main__":
    main()

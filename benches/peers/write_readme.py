#!/usr/bin/env python3
"""Writes the table of speeds in README.md from results of compare.py.

    write_readme.py WORK/results.json [--readme README.md]

The table stands between the comments `speeds` and `end of speeds`. It has the figures of the path ranks-train."""

import argparse
import json
import sys
from pathlib import Path

from compare import medians
from paths import HERE

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


def table(results: dict) -> str:
    """Returns the table in Markdown, with the commit and the date of the results below it."""
    found = [path for path in results["paths"] if path["path"] == PATH]
    runs = found[0]["runs"] if found else {}
    theirs, ours = (medians(runs.get(name, [])) for name in (RIVAL, "edgecut"))
    if not theirs or not ours:
        sys.exit(f"error: the results have no successful runs of {RIVAL} and edgecut in {PATH}: run compare.py with both")
    lines = ["| training on two ranks | DistDGL | Edgecut | ratio |", "|---|---|---|---|"]
    for title, figure, scale, unit in ROWS:
        pair = [one[figure] * scale for one in (theirs, ours)]
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

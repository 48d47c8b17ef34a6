#!/usr/bin/env python3
"""Checks the links of the documentation, without the network.

    scripts/check_links.py

Every relative link, image and #anchor in the Markdown files below must point to an existing file and heading. Every
page of the guide must be in docs/src/SUMMARY.md, once. A page must not link to files outside docs/src, since mdBook
does not copy them.
"""

import re
import sys
import unicodedata
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GUIDE = ROOT / "docs" / "src"
SUMMARY = GUIDE / "SUMMARY.md"
PATTERNS = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "docs/**/*.md",
    "examples/*/README.md",
    "benches/peers/README.md",
    "python/**/*.md",
]

# [text](target "title") and ![text](target); a target may be in angle brackets.
LINK = re.compile(r"\[(?:[^\[\]]|\[[^\[\]]*\])*\]\(\s*(<[^>]*>|[^\s)]*)(?:\s+\"[^\"]*\")?\s*\)")
# [label]: target
REFERENCE = re.compile(r"^\s{0,3}\[[^\]]+\]:\s*(\S+)", re.MULTILINE)
HEADING = re.compile(r"^\s{0,3}#{1,6}\s+(.*?)\s*#*\s*$")
FENCE = re.compile(r"^\s*(```+|~~~+)")
HTML_ID = re.compile(r"<\w[^>]*\s(?:id|name)=\"([^\"]+)\"")
# http:, mailto: and the like.
SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:")


def prose(path):
    """Yields the numbered lines of a Markdown file that are outside fenced code."""
    fence = None
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        mark = FENCE.match(line)
        if fence is None and mark:
            fence = mark.group(1)
        elif fence is not None:
            if mark and line.strip().startswith(fence) and not line.strip().strip(fence[0]):
                fence = None
        else:
            yield number, line


def slug(heading):
    """Returns the anchor of a heading, by the rules that GitHub and mdBook share."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    text = text.replace("`", "").replace("*", "").strip().lower()
    kept = (c for c in text if c in "-_ " or unicodedata.category(c)[0] in "LN")
    return "".join(kept).replace(" ", "-")


def anchors(path, known={}):
    """Returns the anchors of a Markdown file. A repeated heading gets -1, -2 and so on."""
    if path not in known:
        found = set()
        seen = Counter()
        for _, line in prose(path):
            found.update(HTML_ID.findall(line))
            heading = HEADING.match(line)
            if heading:
                name = slug(heading.group(1))
                found.add(f"{name}-{seen[name]}" if seen[name] else name)
                seen[name] += 1
        known[path] = found
    return known[path]


def paragraphs(path):
    """Yields the paragraphs outside fenced code, each with the number of its first line."""
    start, lines = 0, []
    for number, line in prose(path):
        if lines and (not line.strip() or number != start + len(lines)):
            yield start, "\n".join(lines)
            lines = []
        if line.strip():
            start = start if lines else number
            lines.append(line)
    if lines:
        yield start, "\n".join(lines)


def links(path):
    """Yields the line number and target of every link of a Markdown file."""
    for start, text in paragraphs(path):
        # Code spans contain no links, but the text of a link may be code. Line breaks stay, for the numbers.
        visible = re.sub(r"`[^`]*`", lambda span: "\n" * span.group().count("\n"), text)
        for pattern in (LINK, REFERENCE):
            for match in pattern.finditer(visible):
                yield start + visible.count("\n", 0, match.start(1)), match.group(1).strip("<>")


def problem_of(path, target):
    """Returns what is wrong with a link in `path`, or None."""
    name, _, anchor = target.partition("#")
    file = (path.parent / name).resolve() if name else path
    if not target:
        return "the link is empty"
    if name.startswith("/") or not file.is_relative_to(ROOT):
        return "it points outside the repository"
    if not file.exists():
        return "no such file"
    if path.is_relative_to(GUIDE) and not file.is_relative_to(GUIDE):
        return "a page of the guide can only link to files in docs/src; name the file as code instead"
    if anchor and (file.suffix != ".md" or anchor not in anchors(file)):
        return "no such heading"
    return None


def summary_problems():
    """Yields what is wrong with the list of pages."""
    listed = Counter((GUIDE / target).resolve() for _, target in links(SUMMARY))
    pages = {page.resolve() for page in GUIDE.glob("**/*.md")} - {SUMMARY}
    for page in sorted(pages - set(listed)):
        yield f"{page.relative_to(ROOT)}: the page is not in {SUMMARY.relative_to(ROOT)}"
    for page, count in sorted(listed.items()):
        if count > 1:
            yield f"{SUMMARY.relative_to(ROOT)}: {page.name} is listed {count} times"


def main():
    files = [path for pattern in PATTERNS for path in sorted(ROOT.glob(pattern))]
    problems = []
    checked = 0
    for path in files:
        for number, target in links(path):
            if SCHEME.match(target):
                continue
            checked += 1
            problem = problem_of(path, target)
            if problem:
                problems.append(f"{path.relative_to(ROOT)}:{number}: {target}: {problem}")
    problems.extend(summary_problems())
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        sys.exit(1)
    print(f"{checked} links in {len(files)} files are valid")


if __name__ == "__main__":
    main()

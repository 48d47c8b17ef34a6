#!/usr/bin/env python3
"""Counts habits that make Rust code hard to read, and fails where a rule forbids one.

    check_style.py [--json] [FOLDER]

Counts in all .rs files of the workspace below FOLDER (default: the repository). Rules that must hold have a limit.
"""
import argparse
import json
import os
import pathlib
import re
import sys

SKIPPED = {"target", ".git"}

DOC = re.compile(r"^\s*//[/!] ?(.*)$")
PLAIN = re.compile(r"^\s*// ?\S")
OPENING = re.compile(r"^(What|Which|How|Whether|Who|Where)\b(?!.*\?$)")
TUPLE_LET = re.compile(r"^\s*let \([^=()]*\) = \((?!.*\bawait\b).*,.*\);\s*$")
BOOL_MATCH = re.compile(r"\bmatch [^{;]*\{\s*(?:true|false) =>")
LOST_SOURCE = re.compile(r"map_err\(\|[^|]*\|[^|]*to_string\(\)")
FUNCTION = re.compile(r"\bfn \w+\s*(?:<[^(]*>)?\(([^)]*)\)", re.S)
CLOSURE = re.compile(r"^\s*let (?:mut )?\w+ = (?:async )?(?:move )?\|")
TUPLE_PARAMETER = re.compile(r"\bfn \w+[^{;]*?[(,]\s*&?\([\w\s,&]+\): ")
# Functions that find a port, and statements that ask a listener for its port and close it.
FREE_PORT = re.compile(r"\bfn (?:free|unused)_ports?\b|TcpListener::bind\([^;{}]*\)[^;{}]*\.local_addr\(\)", re.S)
READ_TENSOR = re.compile(r"^(?!\s*//).*\.(?:into|to)_data\(\)")
COMPUTING_CRATE = re.compile(r"^/(?:gnn|trainer|programs/[^/]+)/src/(?!ops/host_values\.rs)")
EXECUTABLE = re.compile(r"from_mode\(0o7[0-7]*[1357]")
ADAM = re.compile(r"\bAdamConfig::")
TEST = re.compile(r"^\s*#\[(?:tokio::)?test\]", re.M)
PUBLIC = re.compile(r"^\s*pub (?:const fn|async fn|unsafe fn|fn|struct|enum|trait|type)\b")

# The crates of the workspace, except examples. Their messages must not end them when nobody reads any more.
CRATE_ROOT = re.compile(r"^(/programs)?/[^/]+/src/(lib|main|bin/[^/]+(/main)?)\.rs$")
NO_PRINTING = "#![deny(clippy::print_stdout, clippy::print_stderr)]"

# The most that a rule allows, in all of the workspace.
LIMITS = {
    "docs that open with a question word": 0,
    "matches on a bool": 0,
    # Long `let`s of a few values of one test.
    "lets of a tuple of values": 31,
    # Texts of tests.
    "errors that lose their source": 10,
    "crates that may print with println!": 0,
    # Kernels, whose arrays cannot be grouped, the functions that train, and methods of the trait of file systems.
    "functions with more than 6 parameters": 19,
    # A closure with a name is often better a function, a loop, or written where it is used.
    "closures with a name": 1457,
    # A struct names the values that belong together.
    "functions that take a tuple apart": 32,
    # A program that the test process itself writes cannot be started for a moment ("text file busy"), so tests write
    # programs with `edgecut_testing::write_executable`. One test opens a folder to another user.
    "files that are made executable": 1,
    # Training loops take `adam()` of edgecut-trainer, so that their results agree.
    "places that configure Adam": 1,
    # The system gives the port of a closed listener to the next socket that asks for any, so tests take ports from
    # `edgecut_testing::free_ports`, and jobs of one machine from `edgecut_cluster::free_port`.
    "ports that are only free for a moment": 3,
    # Data of a GPU can start at any address, so tensors are read by `edgecut_gnn::ops::host_values`. Unit tests on the CPU, and
    # data that goes back to the device unread.
    "tensors that are not read by host_values": 7,
    # Modules are the folders and files below `src`. Modules that import each other cannot be read or moved separately.
    "modules that import themselves over others": 0,
    # Cargo compiles no tests of a program or library with `test = false`.
    "tests that are not compiled": 0,
}
# The most places that an error lists.
MOST_PLACES = 40
USED_MODULE = re.compile(r"\bcrate::(\w+)")
USED_MODULES = re.compile(r"\buse crate::\{(.*?)\};", re.S)


def files(folder, is_wanted):
    """Return the files with wanted names. Skipped folders are not entered, since a build may change them meanwhile."""
    found = []
    for at, folders, names in os.walk(folder):
        folders[:] = set(folders) - SKIPPED
        found += [pathlib.Path(at, name) for name in names if is_wanted(name)]
    return sorted(found)


def rust_files(folder):
    return files(folder, lambda name: name.endswith(".rs"))


def manifests(folder):
    return files(folder, lambda name: name == "Cargo.toml")


def parameters(text):
    """The number of parameters in a function's list, `self` not counted."""
    depth = 0
    names = 0
    for at, character in enumerate(text):
        if character in "<([{":
            depth += 1
        elif character in ")]}" or character == ">" and text[at - 1] != "-":
            depth -= 1
        elif character == ":" and depth == 0 and text[at - 1 : at + 2].count(":") == 1:
            names += 1
    return names


def count(folder):
    totals = {
        "lines": 0,
        "plain comment lines": 0,
        "docs": 0,
        "docs that open with a question word": 0,
        "lets of a tuple of values": 0,
        "matches on a bool": 0,
        "errors that lose their source": 0,
        "functions with more than 6 parameters": 0,
        "closures with a name": 0,
        "functions that take a tuple apart": 0,
        "crates that may print with println!": 0,
        "files that are made executable": 0,
        "places that configure Adam": 0,
        "ports that are only free for a moment": 0,
        "tensors that are not read by host_values": 0,
        "modules that import themselves over others": 0,
        "tests that are not compiled": 0,
        "public items": 0,
        "public items with an example": 0,
    }
    found = {name: [] for name in LIMITS}

    def note(name, path, number):
        totals[name] += 1
        found[name].append(f"{path}:{number}")

    for path in rust_files(folder):
        text = path.read_text()
        lines = text.splitlines()
        totals["lines"] += len(lines)
        if CRATE_ROOT.search(f"/{path.relative_to(folder)}") and NO_PRINTING not in lines:
            note("crates that may print with println!", path, 1)
        in_doc = False
        has_example = False
        for number, line in enumerate(lines, 1):
            doc = DOC.match(line)
            if doc:
                if not in_doc:
                    has_example = False
                    totals["docs"] += 1
                    if OPENING.match(doc[1]):
                        note("docs that open with a question word", path, number)
                has_example |= doc[1].startswith("```")
                in_doc = True
                continue
            if PUBLIC.match(line):
                totals["public items"] += 1
                totals["public items with an example"] += in_doc and has_example
            # Attributes may lie between a doc comment and its item.
            if not line.lstrip().startswith("#["):
                in_doc = False
            totals["plain comment lines"] += bool(PLAIN.match(line))
            if CLOSURE.match(line):
                note("closures with a name", path, number)
            if TUPLE_LET.match(line):
                note("lets of a tuple of values", path, number)
            if EXECUTABLE.search(line):
                note("files that are made executable", path, number)
            if ADAM.search(line):
                note("places that configure Adam", path, number)
            if READ_TENSOR.match(line) and COMPUTING_CRATE.match(f"/{path.relative_to(folder)}"):
                note("tensors that are not read by host_values", path, number)
            if LOST_SOURCE.search(line):
                note("errors that lose their source", path, number)
        for match in FREE_PORT.finditer(text):
            note("ports that are only free for a moment", path, text.count("\n", 0, match.start()) + 1)
        for match in BOOL_MATCH.finditer(text):
            note("matches on a bool", path, text.count("\n", 0, match.start()) + 1)
        for function in FUNCTION.finditer(text):
            if parameters(function[1]) > 6:
                note("functions with more than 6 parameters", path, text.count("\n", 0, function.start()) + 1)
        for function in TUPLE_PARAMETER.finditer(text):
            note("functions that take a tuple apart", path, text.count("\n", 0, function.start()) + 1)
    for manifest in manifests(folder):
        if "\ntest = false\n" not in manifest.read_text():
            continue
        for path in rust_files(manifest.parent / "src"):
            for match in TEST.finditer(path.read_text()):
                note("tests that are not compiled", path, match.string.count("\n", 0, match.start()) + 1)
    for place in circular_modules(folder):
        totals["modules that import themselves over others"] += 1
        found["modules that import themselves over others"].append(place)
    return totals, found


def circular_modules(folder):
    """Returns the modules of each crate that import themselves over other modules, without their tests."""
    places = []
    for manifest in manifests(folder):
        source = manifest.parent / "src"
        imports = {}
        for path in rust_files(source) if source.is_dir() else ():
            module = path.relative_to(source).parts[0].removesuffix(".rs")
            code = re.sub(r"//.*", "", path.read_text().split("#[cfg(test)]")[0])
            used = USED_MODULE.findall(code)
            for group in USED_MODULES.findall(code):
                used += re.findall(r"(?:^|,)\s*(\w+)", group)
            if module not in ("lib", "main", "fuzzing"):
                imports.setdefault(module, set()).update(name for name in used if name != module)
        for module in sorted(imports):
            reached = set()
            ahead = [module]
            while ahead:
                new = imports.get(ahead.pop(), set()) - reached
                reached |= new
                ahead += new
            if module in reached:
                places.append(f"{source.relative_to(folder)}: {module}, which imports {', '.join(sorted(imports[module]))}")
    return places


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", default=pathlib.Path(__file__).resolve().parent.parent, type=pathlib.Path)
    parser.add_argument("--json", action="store_true", help="print the counts as JSON")
    args = parser.parse_args()
    totals, found = count(args.folder)
    if args.json:
        print(json.dumps(totals))
    else:
        for name, value in totals.items():
            print(f"{value:7} {name}")
    failed = False
    for name, limit in LIMITS.items():
        if totals[name] > limit:
            failed = True
            print(f"error: {totals[name]} {name}, at most {limit} are allowed:", file=sys.stderr)
            for place in found[name][-MOST_PLACES:]:
                print(f"  {place}", file=sys.stderr)
    sys.exit(failed)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Checks that nothing is compiled twice: all libraries that the guide's commands and the Python package need are compiled
for the tests already, with the same features and profile. Cargo prints what a command would compile, and compiles nothing.
"""

import hashlib
import json
import os
import pathlib
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# The commands of CI and of contributors that the guide does not have. The last one is maturin's in scripts/python_checks.sh.
OTHERS = [
    "cargo build --release",
    "cargo test --release",
    "cargo rustc --profile release --manifest-path python/Cargo.toml --lib --features unified",
]


def commands_of_guide():
    """Return the tests' command, and all other commands of Cargo that build."""
    text = subprocess.run([ROOT / "scripts" / "guide_commands.sh"], check=True, capture_output=True, text=True).stdout
    commands = sorted({line for line in text.splitlines() if line.startswith("cargo ")})
    tests = [command for command in commands if command.startswith("cargo test ")]
    if len(tests) != 1:
        sys.exit(f"error: the guide has {len(tests)} commands that run tests instead of one: {tests}")
    return tests[0], [command for command in commands if command not in tests]


def units_of(command):
    """Return the units that a command compiles, by a digest of each and of all that it depends on."""
    words = shlex.split(command)
    if "--" in words:
        words = words[: words.index("--")]
    if words[1] == "run":
        words[1] = "build"
    words += ["--unit-graph", "-Zunstable-options", "--locked"]
    # Allows the flag in this call of Cargo.
    environment = {**os.environ, "RUSTC_BOOTSTRAP": "1"}
    made = subprocess.run(words, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
    if made.returncode != 0:
        sys.exit(f"error: {shlex.join(words)} failed with status {made.returncode}")
    units = json.loads(made.stdout)["units"]
    digests = {}

    def digest_of(index):
        if index not in digests:
            unit = units[index]
            # The name of a profile does not matter, only its settings.
            profile = {key: value for key, value in unit["profile"].items() if key != "name"}
            parts = [unit["pkg_id"], unit["target"], profile, unit["platform"], unit["mode"], unit["features"]]
            needs = sorted((need["extern_crate_name"], digest_of(need["index"])) for need in unit["dependencies"])
            digests[index] = hashlib.sha256(json.dumps([parts, needs], sort_keys=True).encode()).hexdigest()
        return digests[index]

    return {digest_of(index): unit for index, unit in enumerate(units)}


def name_of(unit):
    return (unit["pkg_id"], unit["target"]["name"], tuple(unit["target"]["kind"]), unit["mode"])


def differences(unit, others):
    """Return the differences of a unit from the ones with its name. None if only its dependencies differ."""
    found = []
    for other in others:
        if set(unit["features"]) != set(other["features"]):
            ours, theirs = set(unit["features"]), set(other["features"])
            found.append(f"features without {sorted(theirs - ours)}, with {sorted(ours - theirs)}")
        elif unit["platform"] == other["platform"] and unit["profile"]["opt_level"] != other["profile"]["opt_level"]:
            found.append(f"opt-level {unit['profile']['opt_level']} instead of {other['profile']['opt_level']}")
        else:
            return None
    return "; ".join(found)


def main():
    tests, others = commands_of_guide()
    compiled = units_of(tests)
    by_name = {}
    for unit in compiled.values():
        by_name.setdefault(name_of(unit), []).append(unit)
    failed = False
    for command in [*others, *OTHERS]:
        units = units_of(command)
        # A unit that the tests do not have at all is compiled once.
        again = [unit for digest, unit in units.items() if digest not in compiled and name_of(unit) in by_name]
        print(f"{command}: {len(units)} units, {len(again)} of them once more than `{tests}`")
        for unit in again:
            why = differences(unit, by_name[name_of(unit)])
            if why:
                print(f"  {unit['pkg_id'].split('#')[-1]} {unit['target']['name']}: {why}")
        failed |= bool(again)
    if failed:
        sys.exit(
            "error: libraries are compiled twice: list the missing features in [workspace.dependencies] of Cargo.toml, or for the "
            "Python package in the feature `unified` of python/Cargo.toml"
        )


main()

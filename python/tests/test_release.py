"""The scripts that pack the programs and install them, with other programs in their places."""

import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import types

import pytest

from conftest import PATIENCE, ROOT

MAKE = pathlib.Path("scripts") / "make_release.sh"
OTHERS = ("train", "partition-graph", "launch", "sampling-server")
pytestmark = pytest.mark.skipif(shutil.which("objdump") is None, reason="objdump is missing")


def start(folder, *words, **variables):
    environment = {**os.environ, **variables}
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE)


def unpacked(folder):
    """Write what a release contains."""
    for path in ("bin/edgecut", *(f"lib/edgecut/{name}" for name in OTHERS)):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("#!/bin/sh\necho edgecut 0.1.0\n")
        (folder / path).chmod(0o755)
    shutil.copy(ROOT / "scripts" / "install.sh", folder)
    for path in ("man/man1/edgecut.1", *(f"completions/edgecut.{shell}" for shell in ("bash", "zsh", "fish"))):
        (folder / "share" / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / "share" / path).write_text("text\n")
    files = [path for path in folder.rglob("*") if path.is_file()]
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(folder)}\n" for path in files]
    (folder / "SHA256SUMS").write_text("".join(sums))
    return folder / "install.sh"


def test_a_prefix_starts_where_the_caller_is_and_flags_may_follow(tmp_path):
    install = unpacked(tmp_path / "package")
    for words in (["prefix", "--all-names"], ["--all-names", "prefix"]):
        done = start(tmp_path, install, *words)
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "prefix" / "bin" / "train").readlink() == pathlib.Path("../lib/edgecut/train")
        assert not (tmp_path / "package" / "prefix").exists()
    for words in (["one", "two"], ["--other"], ["one", "--other"], [""]):
        done = start(tmp_path, install, *words)
        assert done.returncode == 2 and "usage: install.sh" in done.stderr
        assert not (tmp_path / "one").exists()


def test_the_uninstall_commands_remove_all_files(tmp_path):
    install = unpacked(tmp_path / "package")
    assert start(tmp_path, install, "--all-names", "prefix").returncode == 0
    lines = [line.removeprefix("#   ") for line in install.read_text().splitlines() if line.startswith("#   ")]
    commands = "\n".join(lines[1:]).replace("PREFIX", "prefix")
    done = start(tmp_path, "sh", "-euc", commands)
    assert done.returncode == 0, done.stderr
    assert [path for path in (tmp_path / "prefix").rglob("*") if not path.is_dir()] == []


def test_a_program_of_the_user_with_a_common_name_is_kept(tmp_path):
    install = unpacked(tmp_path / "package")
    own = tmp_path / "prefix" / "bin" / "train"
    own.parent.mkdir(parents=True)
    for make in (lambda: own.write_text("mine"), lambda: own.symlink_to("nowhere")):
        make()
        done = start(tmp_path, install, "--all-names", "prefix")
        assert done.returncode == 1 and f"{own} exists and is not Edgecut's" in done.stderr, done.stderr
        assert sorted(path.name for path in own.parent.iterdir()) == ["train"], "nothing is installed"
        own.unlink()


def test_a_check_tells_the_glibc_of_files_and_has_a_limit(tmp_path):
    (tmp_path / "program").symlink_to(pathlib.Path(sys.executable).resolve())
    done = start(tmp_path, ROOT / MAKE, "--check", "program")
    assert done.returncode == 0, done.stderr
    needed = re.search(r"need glibc ([0-9.]+) or newer", done.stdout).group(1)
    assert start(tmp_path, ROOT / MAKE, "--check", "--glibc", needed, "program").returncode == 0
    done = start(tmp_path, ROOT / MAKE, "--check", "--glibc", "2.0", "program")
    assert done.returncode == 1 and f"a symbol of glibc {needed} is used, newer than 2.0" in done.stderr
    for words in (["--check"], ["--check", "--glibc", "2.0"], ["one", "two"], ["--programs"], ["--other"]):
        done = start(tmp_path, ROOT / MAKE, *words)
        assert done.returncode == 2 and "usage: make_release.sh" in done.stderr


def test_a_new_file_is_a_change_of_the_commit(tmp_path):
    if shutil.which("git") is None or shutil.which("rustc") is None:
        pytest.skip("git or rustc is missing")
    root = tmp_path / "repository"
    (root / "scripts").mkdir(parents=True)
    shutil.copy(ROOT / MAKE, root / "scripts")
    built = tmp_path / "built"
    built.mkdir()
    for name in ("edgecut", *OTHERS):
        shutil.copy(pathlib.Path(sys.executable).resolve(), built / name)
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "--quiet"], ["add", "."], [*identity, "commit", "--quiet", "--message", "a"]):
        assert start(root, "git", *words).returncode == 0
    commit = start(root, "git", "rev-parse", "HEAD").stdout.strip()
    variables = {"EDGECUT_PROGRAMS": "built", "CARGO_TARGET_DIR": "target"}
    done = start(tmp_path, root / MAKE, "--programs", "out", **variables)
    assert done.returncode == 0 and f"export EDGECUT_COMMIT={commit}\n" in done.stdout, done.stderr
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(["edgecut", *OTHERS])
    (root / "source.rs").touch()
    done = start(tmp_path, root / MAKE, "--programs", "out", **variables)
    assert f"export EDGECUT_COMMIT={commit[:12]} with changes\n" in done.stdout, done.stderr


def test_a_source_distribution_is_refused(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "maturin", types.SimpleNamespace(build_editable=None, prepare_metadata_for_build_wheel=None))
    monkeypatch.syspath_prepend(ROOT / "python")
    import build_backend

    with pytest.raises(SystemExit, match="error: there is no source distribution"):
        build_backend.build_sdist(tmp_path)
    assert list(tmp_path.iterdir()) == []

"""Builds wheels with maturin, and adds the programs of Edgecut to them.

    pip wheel ./python                  for machines with the glibc of this one, or newer
    pip wheel ./python -C zig=true      for machines with glibc 2.17 or newer: Zig links the wheel

A wheel installs `edgecut` to the folder `bin`, and the programs that it starts to `lib/edgecut`, because their names are
common. The platform in the name of the wheel is the oldest manylinux whose glibc has all symbols of its files.
EDGECUT_PROGRAMS names a folder with programs that are built already. There is no source distribution, because the programs
need the whole repository.
"""

import base64
import hashlib
import os
import pathlib
import platform
import re
import subprocess
import tempfile
import time
import zipfile

import maturin
from maturin import build_editable, prepare_metadata_for_build_wheel  # noqa: F401

RELEASE = pathlib.Path(__file__).resolve().parent.parent / "scripts" / "make_release.sh"
COMMAND = "edgecut"
OTHERS = ("train", "partition-graph", "launch", "sampling-server")
# Rust needs this version at least, and it is the one of manylinux2014.
OLDEST_GLIBC = 17
GLIBC = re.compile(rb"\0GLIBC_2\.(\d+)(?:\.\d+)?(?=\0)")


def _wants_zig(settings):
    return str((settings or {}).get("zig", "")).lower() in ("1", "true", "yes")


def get_requires_for_build_wheel(config_settings=None):
    required = maturin.get_requires_for_build_wheel(config_settings)
    return required + ["ziglang"] if _wants_zig(config_settings) else required


def get_requires_for_build_editable(config_settings=None):
    return maturin.get_requires_for_build_editable(config_settings)


def get_requires_for_build_sdist(config_settings=None):
    return []


def build_sdist(sdist_directory, config_settings=None):
    raise SystemExit(
        "error: there is no source distribution, because the programs in a wheel need the whole repository: build a wheel "
        "(pip wheel ./python), and distribute the sources as an archive of the repository (git archive)"
    )


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    built = os.environ.get("EDGECUT_PROGRAMS")
    if built and _wants_zig(config_settings):
        raise SystemExit("error: EDGECUT_PROGRAMS names programs that are built, so -C zig=true has no effect on them")
    with tempfile.TemporaryDirectory() as folder:
        if not built:
            # The build of the module uses the same compilers, flags and crates as the build of the programs.
            if not _wants_zig(config_settings):
                os.environ["ZIG"] = ""
            made = subprocess.run([RELEASE, "--programs", folder], stdout=subprocess.PIPE, text=True, check=False)
            print(made.stdout)
            if made.returncode != 0:
                raise SystemExit(f"error: {RELEASE} failed with status {made.returncode}")
            for line in made.stdout.splitlines():
                name, separator, value = line.removeprefix("export ").partition("=")
                if line.startswith("export ") and separator:
                    os.environ[name] = value
        wheel = maturin.build_wheel(wheel_directory, config_settings, metadata_directory)
        return _complete(pathlib.Path(wheel_directory), wheel, pathlib.Path(built or folder))


def _complete(folder, wheel, programs):
    """Add the programs to a wheel, and name its platform. Return the new name of the file."""
    distribution, version, *python, _ = wheel.removesuffix(".whl").split("-")
    info = f"{distribution}-{version}.dist-info"
    data = f"{distribution}-{version}.data"
    with zipfile.ZipFile(folder / wheel) as archive:
        files = {entry.filename: (archive.read(entry), entry.external_attr >> 16) for entry in archive.infolist()}
    for name, place in [(COMMAND, "scripts"), *((name, f"data/lib/{COMMAND}") for name in OTHERS)]:
        files[f"{data}/{place}/{name}"] = ((programs / name).read_bytes(), 0o100755)
    platform_tag = _platform_of(content for content, _ in files.values())
    tags = "-".join(python)
    record = files.pop(f"{info}/RECORD")[1]
    text = files[f"{info}/WHEEL"][0].decode()
    lines = [line for line in text.splitlines() if line and not line.startswith("Tag:")]
    lines += [f"Tag: {tags}-{one}" for one in platform_tag.split(".")]
    files[f"{info}/WHEEL"] = ("\n".join(lines).encode() + b"\n", files[f"{info}/WHEEL"][1])
    rows = []
    for name in sorted(files):
        digest = base64.urlsafe_b64encode(hashlib.sha256(files[name][0]).digest()).rstrip(b"=").decode()
        rows.append(f"{name},sha256={digest},{len(files[name][0])}\n")
    files[f"{info}/RECORD"] = ("".join([*rows, f"{info}/RECORD,,\n"]).encode(), record)
    # The format has no earlier times.
    seconds = max(int(os.environ.get("SOURCE_DATE_EPOCH", time.time())), 315532800)
    name = f"{distribution}-{version}-{tags}-{platform_tag}.whl"
    (folder / wheel).unlink()
    with zipfile.ZipFile(folder / name, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, (content, mode) in sorted(files.items()):
            entry = zipfile.ZipInfo(path, time.gmtime(seconds)[:6])
            entry.external_attr = mode << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    return name


def _platform_of(files):
    """Return the tag of the oldest manylinux whose glibc has the symbols that programs and libraries need."""
    needed = [OLDEST_GLIBC]
    for content in files:
        if content.startswith(b"\x7fELF"):
            needed += map(int, GLIBC.findall(content))
    tag = f"manylinux_2_{max(needed)}_{platform.machine()}"
    return f"{tag}.manylinux2014_{platform.machine()}" if max(needed) == OLDEST_GLIBC else tag

"""Runs PyG's own tests of its neighbor loaders, unchanged, with Edgecut's classes in place of PyG's.

    python3 python/tests/pyg_tests.py FOLDER

FOLDER is a copy of PyG's repository at the installed version (its packages have no tests). The tests need no ``pyg-lib``
here. Two of them call ``pyg-lib`` and ``torch-sparse`` themselves and one needs PyTorch Frame: they are skipped without these.
"""

import os
import pathlib
import sys

import pytest
import torch_geometric.loader
import torch_geometric.testing
import torch_geometric.typing
from torch_geometric.testing import decorators

import edgecut
import edgecut.pyg_loaders  # noqa: F401  It derives its classes from those that are replaced.

FILES = ("test_neighbor_loader.py", "test_link_neighbor_loader.py")
# What PyG's tests ask about the installation before they use a loader.
ABILITIES = ("WITH_PYG_LIB", "WITH_TORCH_SPARSE", "WITH_WEIGHTED_NEIGHBOR_SAMPLE", "WITH_EDGE_TIME_NEIGHBOR_SAMPLE")


class Swap:
    """A plugin of pytest that replaces the loaders, and lets tests believe in PyG's samplers while they are imported."""

    def __init__(self):
        self.abilities = {name: getattr(torch_geometric.typing, name) for name in ABILITIES}
        self.has_package = decorators.has_package

    def pytest_collection(self):
        for name in ABILITIES:
            setattr(torch_geometric.typing, name, True)
        decorators.has_package = lambda name: name == "pyg_lib" or self.has_package(name)
        torch_geometric.testing.onlyNeighborSampler = lambda test: test
        for name in ("NeighborLoader", "LinkNeighborLoader"):
            setattr(torch_geometric.loader, name, getattr(edgecut, name))

    def pytest_collection_finish(self):
        for name, value in self.abilities.items():
            setattr(torch_geometric.typing, name, value)
        decorators.has_package = self.has_package


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: pyg_tests.py FOLDER, a copy of PyG's repository")
    folder = pathlib.Path(sys.argv[1]) / "test" / "loader"
    missing = [name for name in FILES if not (folder / name).is_file()]
    if missing:
        sys.exit(f"error: {folder} has no {missing[0]}: pass a copy of PyG's repository")
    options = ["-q", "-rfs", "-p", "no:cacheprovider", "-W", "ignore", "-c", os.devnull, "--rootdir", str(folder)]
    sys.exit(pytest.main([*options, *(str(folder / name) for name in FILES)], plugins=[Swap()]))


if __name__ == "__main__":
    main()

"""Partitioning of datasets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from ._edgecut import EdgecutError
from .arguments import checked

__all__ = ["partition"]

# METIS handles SIGTERM itself, which is safe only if no other thread can get the signal. It therefore runs in a process
# that blocks the signal before it starts any thread. METIS also prints to file descriptor 1 when it meets something
# unusual, so that becomes standard error, and the result has a descriptor of its own.
_PROGRAM = """
import json, os, signal, sys
results = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
signal.signal(signal.SIGINT, signal.SIG_DFL)
from edgecut import _edgecut
path, num_parts, output_dir, settings = json.load(sys.stdin)
try:
    print(_edgecut.partition(path, num_parts, output_dir, settings), file=results, flush=True)
except (ValueError, _edgecut.EdgecutError) as error:
    print(json.dumps({"error": str(error), "is_value": isinstance(error, ValueError)}), file=results, flush=True)
"""


@checked
def partition(
    path: str | os.PathLike[str],
    num_parts: int,
    output_dir: str | os.PathLike[str],
    *,
    method: str = "metis",
    seed: int = 0,
    to_undirected: bool = False,
    add_reverse_edges: bool = False,
    edge_ids: bool = False,
    split: str | None = None,
    assignment: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Split a dataset into parts, as the program ``partition-graph`` does.

    Parameters
    ----------
    path : path
        The folder of the dataset.
    num_parts : int
        The number of parts.
    output_dir : path
        The folder of the parts. It appears only when it is complete.
    method : {'metis', 'semi-external', 'ldg', 'random'}
        The method that assigns nodes to parts.
    seed : int, default 0
        The seed of every random choice.
    to_undirected : bool, default False
        Add the missing reverse of every edge. Of several edges from one node to another, the first stays with its weight,
        time and features.
    add_reverse_edges : bool, default False
        Add a reversed edge type for each edge type.
    edge_ids : bool, default False
        Store the position of each edge in the dataset, so that batches have ``e_id``. An added reverse has the position of its
        edge.
    split : str, optional
        The split scheme, if the dataset has several.
    assignment : path, optional
        A file with the part of each node, instead of ``method``.
    overwrite : bool, default False
        Replace parts that exist.

    Returns
    -------
    dict
        The content of META.json, with the cut and the balance in ``report``.

    Raises
    ------
    ValueError
        If an argument is wrong.
    EdgecutError
        If the dataset cannot be read, or the parts cannot be written.
    """
    if not 1 <= num_parts < 2**32:
        raise ValueError(f"`num_parts` is {num_parts}, but must be at least 1, and below 2^32")
    settings = {
        "method": method,
        "seed": seed,
        "to_undirected": to_undirected,
        "add_reverse_edges": add_reverse_edges,
        "edge_ids": edge_ids,
        "split": split,
        "assignment": None if assignment is None else os.path.abspath(assignment),
        "overwrite": overwrite,
    }
    arguments = json.dumps([os.path.abspath(path), num_parts, os.path.abspath(output_dir), settings])
    # The package of this process, also if it is found by its sys.path only.
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))}
    command = [sys.executable, "-c", _PROGRAM]
    run = subprocess.run(command, input=arguments, stdout=subprocess.PIPE, text=True, env=env, check=False)
    if run.returncode != 0:
        raise EdgecutError(f"partitioning ended with status {run.returncode}; nothing was written to {output_dir}")
    result = json.loads(run.stdout)
    if "error" in result:
        raise ValueError(result["error"]) if result["is_value"] else EdgecutError(result["error"])
    return result

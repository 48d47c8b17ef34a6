#!/usr/bin/env bash
# Builds the Python package, installs it, and tests it: the tests in `python/tests`, and the Python code of
# docs/src/python.md as it is printed there. The programs must have been built, and the commands of the guide have made
# its graphs.
#
#   scripts/python_checks.sh [PYTHON]      default: python3. Use one of a virtual environment, since it installs packages
set -euo pipefail
cd "$(dirname "$0")/.."
python=${1:-python3}

# The wheel takes the programs and the libraries that are built already.
export MATURIN_PEP517_ARGS="--features unified"
EDGECUT_PROGRAMS=${EDGECUT_BIN:-$PWD/target/release} "$python" -m pip install --quiet pytest mypy==2.4.1 safetensors ./python
"$("$python" -c 'import sysconfig; print(sysconfig.get_path("scripts"))')/edgecut" help train node >/dev/null
(cd python/tests && "$python" -m pytest -q -p no:cacheprovider --durations=3)

if "$python" -c "import torch_geometric" 2>/dev/null; then
    awk '/^```python$/ { inside = 1; next } /^```$/ { if (inside) print ""; inside = 0 } inside' docs/src/python.md |
        "$python" -
else
    echo "PyTorch Geometric is missing: the code of docs/src/python.md does not run"
fi

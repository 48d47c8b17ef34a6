#!/usr/bin/env bash
# Creates the two Python environments of the rivals: DIR/dgl and DIR/glt.
#
#   benches/peers/setup.sh DIR
#
# PYTHON names the interpreter; the versions below are tested with Python 3.11. The environments take 10 GB, because
# PyTorch's package for Linux includes GPU libraries.
set -euo pipefail

dir=${1:?usage: setup.sh DIR}
python=${PYTHON:-python3.11}

install() {
    local env=$dir/$1
    shift
    "$python" -m venv "$env"
    "$env/bin/python" -m pip install --quiet "$@"
}

install dgl torch==2.2.1 dgl==2.1.0 torchdata==0.7.1 'numpy<2' pandas pydantic pyyaml psutil scipy
install glt torch==2.4.1 graphlearn-torch==0.2.4 torch-geometric==2.6.1 'numpy<2' psutil

DGLBACKEND=pytorch "$dir/dgl/bin/python" -c 'import dgl, dgl.graphbolt; print("dgl", dgl.__version__)'
# GraphLearn cannot be imported directly; the module glt_import of these scripts makes it importable.
PYTHONPATH=$(dirname "$0") "$dir/glt/bin/python" -c 'import glt_import; print("graphlearn-torch imports")'

#!/usr/bin/env bash
# Makes the two Python environments that the rivals run in: DIR/dgl and DIR/glt.
#
#   benches/peers/setup.sh DIR
#
# PYTHON names the interpreter; the versions below were tried with Python 3.11. They take 10 GB, because PyTorch's package
# for Linux brings its GPU libraries.
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
# GraphLearn does not import by itself; the scripts' own module sees to that.
PYTHONPATH=$(dirname "$0") "$dir/glt/bin/python" -c 'import glt_import; print("graphlearn-torch imports")'

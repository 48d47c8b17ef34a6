#!/usr/bin/env bash
# Checks the dependency rules of ARCHITECTURE.md: the crates that each package must never depend on, directly or not.
set -euo pipefail
cd "$(dirname "$0")/.."

failed=0
never() {
    local package=$1 tree
    shift
    tree=$(cargo tree --quiet --package "$package" --edges normal,build --prefix none --format '{p}' | cut -d' ' -f1 | sort -u)
    for name in "$@"; do
        if grep -qxE "$name" <<<"$tree"; then
            echo "$package must not depend on: $(grep -xE "$name" <<<"$tree" | tr '\n' ' ')" >&2
            failed=1
        fi
    done
}

never edgecut-output 'tokio.*' 'metis.*' 'burn.*' 'tarpc' 'edgecut-(graph|cluster|partition|dist-sampler|dist-loader|trainer|launch)'
never edgecut-settings 'tokio.*' 'metis.*' 'burn.*' 'edgecut-(cli|output|status|report|graph|tables|cluster|partition|dist-sampler|dist-loader|gpu|trainer|launch)'
never edgecut-cli 'tokio.*' 'metis.*' 'burn.*' 'tarpc' 'edgecut-(output|graph|cluster|partition|dist-sampler|dist-loader|gpu|trainer|launch)'
never edgecut-status 'metis.*' 'burn.*' 'tarpc' 'edgecut-(cli|output|graph|cluster|partition|dist-sampler|dist-loader|gpu|trainer|launch)'
never edgecut-report 'tokio.*' 'serde.*' 'edgecut-(cli|output|graph|cluster|partition|dist-sampler|dist-loader|gpu|trainer|launch)'
never edgecut-stores 'metis.*' 'burn.*' 'tarpc' 'clap.*' 'aws-lc.*' 'openssl' 'edgecut-(cli|output|graph|cluster|partition|dist-sampler|dist-loader|gpu|trainer|launch)'
never edgecut-graph 'tokio.*' 'metis.*' 'burn.*' 'tarpc' 'edgecut-(cluster|partition|dist-sampler|dist-loader|trainer|launch)'
never edgecut-tables 'tokio.*' 'object_store' 'metis.*' 'burn.*' 'tarpc' 'edgecut-(cluster|partition|dist-sampler|dist-loader|trainer|launch)'
never edgecut-partition 'tokio.*' 'burn.*' 'tarpc' 'edgecut-(cluster|dist-sampler|dist-loader|trainer|launch)'
never edgecut-cluster 'metis.*' 'burn.*' 'tarpc' 'edgecut-(graph|partition|dist-sampler|dist-loader|trainer|launch)'
never edgecut-gpu 'tokio.*' 'metis.*' 'burn.*' 'tarpc' 'edgecut-(cluster|partition|dist-sampler|dist-loader|trainer|launch)'
never edgecut-command 'tokio.*' 'metis.*' 'burn.*' 'tarpc' 'edgecut-(graph|tables|cluster|partition|dist-sampler|dist-loader|gpu|trainer|launch|train|partition-graph|server)'
never edgecut-launch 'object_store' 'metis.*' 'burn.*' 'tarpc' 'edgecut-(graph|partition|dist-sampler|dist-loader|trainer)'
never edgecut-dist-sampler 'metis.*' 'burn.*' 'cubecl.*' 'edgecut-(gpu|partition|dist-loader|trainer|launch)'
never edgecut-dist-loader 'metis.*' 'burn.*' 'cubecl.*' 'edgecut-(gpu|partition|trainer|launch)'
never edgecut-server 'metis.*' 'burn.*' 'cubecl.*' 'edgecut-(gpu|partition|dist-loader|trainer|launch)'
never edgecut-gnn 'tokio.*' 'metis.*' 'tarpc' 'cubecl' 'cubecl-(core|runtime|cuda|wgpu)' 'edgecut-(cluster|partition|dist-sampler|dist-loader|trainer|launch)'
never edgecut-trainer 'metis.*' 'cubecl' 'cubecl-(core|runtime|cuda|wgpu)' 'edgecut-(partition|launch)'
# Libraries have no command lines, progress bars, formats of tables and object stores; `tables` reads tables.
for library in edgecut-settings edgecut-graph edgecut-partition edgecut-cluster edgecut-dist-sampler edgecut-dist-loader edgecut-gnn edgecut-trainer; do
    never "$library" 'clap.*' 'indicatif' 'parquet' 'object_store' 'edgecut-(cli|stores|status|report|train|partition-graph)'
done
never edgecut-campaign 'metis.*' 'burn.*' 'tokio.*' 'edgecut-(cluster|partition|dist-sampler|dist-loader|gpu|trainer|launch)'
never edgecut-fuzz 'metis.*' 'edgecut-(partition|launch)'
never edgecut-python 'object_store' 'burn.*' 'cubecl.*' 'edgecut-(gpu|trainer|launch)'
if cargo tree --quiet --package edgecut --package edgecut-server --package edgecut-launch --edges normal --format '{p} {f}' | grep fuzzing; then
    echo "only edgecut-fuzz may enable the feature fuzzing" >&2
    failed=1
fi
if cargo metadata --format-version 1 --no-deps | grep -qE '"name":"edgecut-(benches|campaign|fuzz|python)","source":null,"req"'; then
    echo "no package may depend on edgecut-benches, edgecut-campaign, edgecut-fuzz or edgecut-python" >&2
    failed=1
fi
[ "$failed" -eq 0 ] && echo "dependency rules hold"
exit "$failed"

#!/usr/bin/env bash
# Runs a command as if the machine had two NVIDIA GPUs. libcuda and libnvrtc are stand-ins that compile the kernels'
# CUDA C++ for the CPU and run it there, slowly (gpu/cuda-on-cpu/). For tests:
#
#   scripts/cuda_on_cpu.sh [--nvrtc] cargo test -p edgecut-gpu -p edgecut-gnn -p edgecut-trainer -p edgecut-train --features edgecut-train/cuda
#
# --nvrtc: also let NVIDIA's own compiler check each kernel. It is fetched with pip, some 100 MB, and needs no GPU.
# The stand-ins are built in target/cuda-on-cpu. Their settings are the variables CUDA_ON_CPU_*, documented in
# gpu/cuda-on-cpu/{driver,compiler}.cpp.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
sources=$here/gpu/cuda-on-cpu
folder=${CARGO_TARGET_DIR:-$here/target}/cuda-on-cpu
mkdir -p "$folder"
# An absolute path, because Cargo runs each package's tests in its own folder.
folder=$(cd "$folder" && pwd)
packages="nvidia-cuda-nvrtc-cu12==12.9.86 nvidia-cuda-runtime-cu12==12.9.79 nvidia-cuda-nvcc-cu12==12.9.86"

[ $# -gt 0 ] || { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" | sed '/^set/d' >&2; exit 2; }

if [ "$1" = --nvrtc ]; then
    shift
    wheels=$folder/nvidia-12.9
    if [ ! -e "$wheels/done" ]; then
        python3 -m pip install --quiet --no-deps --upgrade --target "$wheels" $packages
        touch "$wheels/done"
    fi
    export CUDA_ON_CPU_NVRTC=$wheels/nvidia/cuda_nvrtc/lib/libnvrtc.so.12
    export CUDA_ON_CPU_NVRTC_INCLUDE=$wheels/nvidia/cuda_runtime/include:$wheels/nvidia/cuda_nvcc/include
fi

cp -R "$sources/include" "$folder/"
# Each kernel includes this header, which takes longer to parse than most kernels. The flags are those of compiler.cpp:
# with others, the compiler reads the header itself.
header=$folder/include/cuda_runtime.h
${CXX:-c++} -std=c++17 -O1 -w -fno-strict-aliasing -fwrapv -ffp-contract=off -fPIC -x c++-header "$header" -o "$header.$$"
mv "$header.$$" "$header.gch"
# Build to a temporary name and rename, so that concurrent runs never load a half-written library.
for library in driver:libcuda.so compiler:libnvrtc.so; do
    made=$folder/${library#*:}
    ${CXX:-c++} -std=c++17 -O2 -Wall -Wextra -Werror -shared -fPIC -pthread -o "$made.$$" "$sources/${library%%:*}.cpp" -ldl
    mv "$made.$$" "$made"
done

export CUDA_PATH=$folder LD_LIBRARY_PATH=$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export CUDA_ON_CPU_CACHE=${CUDA_ON_CPU_CACHE:-$folder/kernels} CUDA_ON_CPU_GPUS=${CUDA_ON_CPU_GPUS:-2}
exec "$@"

#!/bin/bash
# Builds the static LLVM 19, Clang and lld that the Linux wheels link, inside a manylinux image. Usage: build-llvm.sh FOLDER
set -euo pipefail
prefix=$1
version=19.1.7

dnf install -y zlib-devel libzstd-devel git
pip install -q "cmake>=3.24" ninja
if [ -x "$prefix/bin/llvm-config" ]; then
    echo "LLVM is in $prefix already"
    exit 0
fi
git clone -q --depth 1 --branch "llvmorg-$version" https://github.com/llvm/llvm-project /tmp/llvm-project
cmake -S /tmp/llvm-project/llvm -B /tmp/llvm-build -G Ninja \
    -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_INSTALL_PREFIX="$prefix" \
    -DLLVM_ENABLE_PROJECTS="clang;lld" \
    -DLLVM_TARGETS_TO_BUILD="Native;NVPTX" \
    -DLLVM_ENABLE_ZLIB=FORCE_ON -DLLVM_ENABLE_ZSTD=FORCE_ON \
    -DLLVM_ENABLE_TERMINFO=OFF -DLLVM_ENABLE_LIBXML2=OFF -DLLVM_ENABLE_LIBEDIT=OFF \
    -DLLVM_INCLUDE_TESTS=OFF -DLLVM_INCLUDE_BENCHMARKS=OFF -DLLVM_INCLUDE_EXAMPLES=OFF
cmake --build /tmp/llvm-build --target install

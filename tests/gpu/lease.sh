#!/usr/bin/env bash
# A GPU for some minutes, on a machine that has its driver, CUDA 13 and torch 2.11.0 and nothing of this tree: docs/develop/gpu.md.
#   tests/gpu/lease.sh pack [--out DIR] [--build-dir DIR] [--gpu-dir DIR]   build/lease/lease.tar.xz, and the default model in two parts beside it
#   tests/gpu/lease.sh run --seconds N [--only ROW[,ROW]]                   what is still wanted, in order of worth, one JSON line a row
#   tests/gpu/lease.sh rows                                                 the rows, with the seconds that each may take
# run takes lease.tar.xz and the parts from the folder that they were packed into, or from that of --from DIR.
set -euo pipefail
exec python3 "$(dirname "$0")/lease.py" "$@"

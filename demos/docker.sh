#!/bin/sh
# A study in a container: builds the image once, then runs a study of the current folder in it.
#
#     sh demos/docker.sh study.toml          # results in ./results
#     ENGINE=podman RANKS=4 sh demos/docker.sh study.py
#
# Run it from a checkout of cffem, or set CFFEM to one.
set -eu
study=${1:?usage: docker.sh STUDY.toml|STUDY.py}
engine=${ENGINE:-docker}
source=${CFFEM:-$(cd "$(dirname "$0")/.." && pwd)}
"$engine" image inspect cffem >/dev/null 2>&1 || "$engine" build -f "$source/containers/Dockerfile" -t cffem "$source"
exec "$engine" run --rm -v "$PWD:/work" -w /work cffem mpirun -n "${RANKS:-1}" cffem run "$study" --out results --resume

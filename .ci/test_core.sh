#!/usr/bin/env bash
# The fast tests of the core on an installed package with the extra `test-core`: they need no compiler, no
# other process, and of other libraries those of numbers, codecs and the command line alone.  cibuildwheel runs this on each wheel.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# The plain command: with `python -m` the checkout, which is not built, would be found first.
exec pytest -n auto -m "not slow and not process and not mpi" "$@" \
    tests/{core,grid,codecs,format,selection,storage,streaming,numpy_api,array,maintenance,fuzz}

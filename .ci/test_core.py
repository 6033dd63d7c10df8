"""Run the fast tests of the core on an installed package with the extra `test-core`.

`python .ci/test_core.py [OPTION OF PYTEST ...]`

They need no compiler, no other process, and of other libraries those of numbers, codecs and the
command line alone.  cibuildwheel runs this on each wheel, on Windows too, which has no shell.
"""

import subprocess
import sys
from pathlib import Path

ROOMS = [
    *("core", "grid", "codecs", "format", "selection", "storage", "streaming", "numpy_api"),
    *("array", "maintenance", "fuzz"),
]

# The plain command: with `python -m` the checkout, which is not built, would be found first.
command = ["pytest", "-n", "auto", "-m", "not slow and not process and not mpi", *sys.argv[1:]]
root = Path(__file__).resolve().parents[1]
sys.exit(subprocess.call([*command, *(f"tests/{room}" for room in ROOMS)], cwd=root))

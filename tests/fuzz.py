"""Fuzzing, guided by coverage: atheris chooses bytes, `fuzz_pairs` and `fuzz_calls` act on them.

    python tests/fuzz.py {pairs,calls} [--seconds N] [--corpus FOLDER] [--seed N]

What reaches new code is kept in the folder, which the next run begins with.  The first finding ends
the run with status 1; `--input FILE` repeats it.  Needs the extra `fuzz`, and Linux.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path

#: What came of the executions, in the folder of a run.
COUNTS = "counts.json"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("target", choices=["pairs", "calls"])
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--input", type=Path, help="run these bytes alone, without atheris")
    arguments = parser.parse_args()
    places = [place for place in ("/dev/shm", tempfile.gettempdir()) if Path(place).is_dir()]
    with tempfile.TemporaryDirectory(dir=places[0]) as folder:
        if arguments.input is not None:
            print(target(arguments.target, Path(folder))(arguments.input.read_bytes()))
            return 0
        # libFuzzer ends its process, and nothing behind it runs there.
        child = os.fork()
        if child == 0:
            run(arguments, Path(folder))
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        with contextlib.suppress(FileNotFoundError):
            print(f"{arguments.target}: {Path(folder, COUNTS).read_text()}")
    return status


def run(arguments: argparse.Namespace, folder: Path) -> None:
    import atheris

    with atheris.instrument_imports(include=["extarray"]):
        importlib.import_module("extarray")
    act = target(arguments.target, folder)
    corpus = arguments.corpus or folder / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    rng = random.Random(arguments.seed)
    for n in range(64):
        data = bytearray(rng.randbytes(16 + 8 * (n % 8)))
        data[1] |= 96 * (n % 2)  # half of them: pairs with what arrays and writers agree on
        (corpus / f"first{n}").write_bytes(data)
    counts: Counter[str] = Counter()

    def once(data: bytes) -> None:
        counts[act(data)] += 1
        counts["executions"] += 1
        if counts["executions"] % 128 == 0:
            (folder / COUNTS).write_text(json.dumps(counts))

    options = [
        "-max_len=256",
        f"-max_total_time={arguments.seconds}",
        "-timeout=60",
        "-rss_limit_mb=2048",
        "-handle_xfsz=0",  # a file that may not grow is an error of the call, here too
        f"-seed={arguments.seed}",
        f"-artifact_prefix={corpus}-",
        "-print_final_stats=1",
    ]
    atheris.Setup([sys.argv[0], *options, str(corpus)], once)
    atheris.Fuzz()


def target(name: str, folder: Path):
    """The function that acts on bytes."""
    import fuzz_calls
    import fuzz_pairs

    if name == "pairs":
        pairs = fuzz_pairs.seeds(folder)
        fuzz_pairs.limit_memory()
        return lambda data: fuzz_pairs.attack(pairs, data, folder)
    twins = fuzz_calls.twins(folder)
    fuzz_pairs.limit_memory()
    return lambda data: fuzz_calls.call(twins, data, folder)


if __name__ == "__main__":
    sys.exit(main())

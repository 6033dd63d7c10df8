"""Fuzzing, guided by coverage: atheris chooses bytes, `fuzz_pairs` and `fuzz_calls` act on them.

    python tests/support/fuzz.py {pairs,calls} [--seconds N] [--corpus FOLDER] [--seed N] [--keep]

It begins with the corpus in `tests/data`, which the tests run, too, and with the folder, where what
reaches new code is kept.  With `--keep`, the corpus is then made anew from as few inputs as take
all the steps between lines of Python that any has taken.  The first finding ends the run with
status 1; `--input FILE` repeats it.  Needs the extra `fuzz`, and Linux.
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
LONGEST = 256


def corpus_file(name: str) -> Path:
    return Path(__file__).with_name("data") / f"corpus-{name}.txt"


def read_corpus(name: str) -> list[bytes]:
    """Inputs of a target."""
    return [bytes.fromhex(line) for line in corpus_file(name).read_text().splitlines()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("target", choices=["pairs", "calls"])
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--input", type=Path, help="run these bytes alone, without atheris")
    parser.add_argument("--keep", action="store_true", help="make the corpus anew, after the run")
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
        if status == 0 and arguments.keep:
            names = sorted((arguments.corpus or Path(folder, "corpus")).iterdir())
            kept = distilled(
                target(arguments.target, Path(folder)),
                {*read_corpus(arguments.target), *(name.read_bytes() for name in names)},
            )
            corpus_file(arguments.target).write_text("".join(f"{data.hex()}\n" for data in kept))
            print(f"{arguments.target}: a corpus of {len(kept)} inputs")
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
    for n, data in enumerate(read_corpus(arguments.target)):
        (corpus / f"known{n}").write_bytes(data)
    counts: Counter[str] = Counter()

    def once(data: bytes) -> None:
        counts[act(data)] += 1
        counts["executions"] += 1
        if counts["executions"] % 128 == 0:
            (folder / COUNTS).write_text(json.dumps(counts))

    options = [
        f"-max_len={LONGEST}",
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


def distilled(act, inputs: set[bytes]) -> list[bytes]:
    """Few of the inputs, which take all the steps that all of them take; short ones first."""
    taken = {data: steps(act, data) for data in sorted(inputs, key=lambda data: (len(data), data))}
    left, kept = set().union(*taken.values()), []
    while left:
        data = max(taken, key=lambda data: len(taken[data] & left))
        left -= taken.pop(data)
        kept.append(data)
    return sorted(kept, key=lambda data: (len(data), data))


def steps(act, data: bytes) -> set[tuple[str, int, int]]:
    """Steps from line to line of the package."""
    found = set()

    def enter(frame, event, argument):
        name, before = frame.f_code.co_filename, 0
        if f"{os.sep}extarray{os.sep}" not in name:
            return None

        def go_on(frame, event, argument):
            nonlocal before
            if event == "line":
                found.add((name, before, frame.f_lineno))
                before = frame.f_lineno
            return go_on

        return go_on

    sys.settrace(enter)
    try:
        act(data)
    finally:
        sys.settrace(None)
    return found


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

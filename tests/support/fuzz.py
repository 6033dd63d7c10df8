"""Fuzzing guided by coverage: atheris chooses bytes, and modules beside this one act on them.

  python tests/support/fuzz.py {pairs,calls,files} [--seconds N] [--corpus FOLDER] [--seed N]
    [--keep]

The targets are those of `fuzz_pairs`, `fuzz_calls` and `fuzz_files`.

A run starts from the corpus in `tests/data`, which the tests use too, and from the folder, which
keeps inputs that reach new code.  `--keep` then distills the corpus to few inputs that together
take every step between lines of Python that any input has taken.  The first finding ends the run
with status 1; `--input FILE` repeats it.  Needs the extra `fuzz`, and Linux.

On malicious files, C libraries crash, hang, or ask for all memory.  That ends the process, which
has limits, and another one continues from the corpus so far.  It is a finding only if the package
itself was running.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from deaths import TIME, in_ours

#: Outcomes of the executions, and the bytes of the last one, in the folder of a run.
COUNTS, LAST = "counts.json", "last"
LONGEST = 256


def corpus_file(name: str) -> Path:
    return Path(__file__).with_name("data") / f"corpus-{name}.txt"


def read_corpus(name: str) -> list[bytes]:
    file = corpus_file(name)
    return [bytes.fromhex(line) for line in file.read_text().splitlines()] if file.exists() else []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("target", choices=["pairs", "calls", "files"])
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
        arguments.corpus = arguments.corpus or Path(folder, "corpus")
        end = time.monotonic() + arguments.seconds
        ended: Counter[str] = Counter()
        while True:
            # libFuzzer ends its process without running any code after it.
            child = os.fork()
            if child == 0:
                run(arguments, Path(folder))
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            with contextlib.suppress(FileNotFoundError):
                print(f"{arguments.target}: {Path(folder, COUNTS).read_text()}", flush=True)
            if (
                arguments.target != "files"
                or status == 0
                or not is_of_library(status, folder, ended)
            ):
                break
            arguments.seconds = int(end - time.monotonic())
            arguments.seed += 1
            if arguments.seconds < 1:
                status = 0
                break
        if ended:
            print(f"{arguments.target}: processes ended by {dict(ended)}")
        if status == 0 and arguments.keep:
            names = sorted(arguments.corpus.iterdir())
            kept = distilled(
                target(arguments.target, Path(folder)),
                {*read_corpus(arguments.target), *(name.read_bytes() for name in names)},
            )
            corpus_file(arguments.target).write_text("".join(f"{data.hex()}\n" for data in kept))
            print(f"{arguments.target}: a corpus of {len(kept)} inputs")
    return status


def is_of_library(status: int, folder: str, ended: Counter[str]) -> bool:
    """Tell whether a process ended through no fault of the package, by rerunning its last input."""
    try:
        data = Path(folder, LAST).read_bytes()
    except FileNotFoundError:  # before the first input
        return False
    again = subprocess.run(
        [
            sys.executable,
            str(Path(__file__).with_name("fuzz_files.py")),
            "all",
            "--input",
            data.hex(),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    is_error = again.returncode == 1 and "(most recent call last)" in again.stderr
    if is_error or in_ours(again.stderr):
        print(f"the bytes {data.hex()}\n{again.stderr}", file=sys.stderr)
        return False
    ended[str(status)] += 1
    return True


def run(arguments: argparse.Namespace, folder: Path) -> None:
    import atheris

    with atheris.instrument_imports(include=["extarray"]):  # including late imports
        importlib.import_module("extarray")
        act = target(arguments.target, folder)
    corpus = arguments.corpus
    corpus.mkdir(parents=True, exist_ok=True)
    rng = random.Random(arguments.seed)
    for n in range(64):
        data = bytearray(rng.randbytes(16 + 8 * (n % 8)))
        data[1] |= 96 * (n % 2)  # half of them: pairs with group and writer blocks
        (corpus / f"first{n}").write_bytes(data)
    for n, data in enumerate(read_corpus(arguments.target)):
        (corpus / f"known{n}").write_bytes(data)
    counts: Counter[str] = Counter()

    def once(data: bytes) -> None:
        if arguments.target == "files":
            (folder / LAST).write_bytes(data)
        counts[act(data)] += 1
        counts["executions"] += 1
        if counts["executions"] % 128 == 0:
            (folder / COUNTS).write_text(json.dumps(counts))

    options = [
        f"-max_len={LONGEST}",
        f"-max_total_time={arguments.seconds}",
        f"-timeout={TIME}",
        "-rss_limit_mb=4096",
        "-handle_segv=0",  # let a crash end the process by its signal
        "-handle_abrt=0",
        "-handle_bus=0",
        "-handle_fpe=0",
        "-handle_xfsz=0",  # exceeding a file limit stays an error of the call
        f"-seed={arguments.seed}",
        f"-artifact_prefix={corpus}-",
        "-print_final_stats=1",
    ]
    atheris.Setup([sys.argv[0], *options, str(corpus)], once)
    atheris.Fuzz()


def distilled(act, inputs: set[bytes]) -> list[bytes]:
    """Return few of the inputs that together take all steps; prefer short ones."""
    taken = {data: steps(act, data) for data in sorted(inputs, key=lambda data: (len(data), data))}
    left, kept = set().union(*taken.values()), []
    while left:
        data = max(taken, key=lambda data: len(taken[data] & left))
        left -= taken.pop(data)
        kept.append(data)
    return sorted(kept, key=lambda data: (len(data), data))


def steps(act, data: bytes) -> set[tuple[str, int, int]]:
    """Return the steps from line to line of the package."""
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
    """Return the function that acts on bytes."""
    import fuzz_calls
    import fuzz_files
    import fuzz_pairs

    if name == "files":
        known = fuzz_files.seeds(fuzz_files.FORMATS)
        for each in range(len(known)):  # triggers all imports
            fuzz_files.attack(known, bytes([each]), folder)
        fuzz_files.limit()
        return lambda data: fuzz_files.attack(known, data, folder)
    if name == "pairs":
        pairs = fuzz_pairs.seeds(folder)
        fuzz_pairs.limit_memory()
        return lambda data: fuzz_pairs.attack(pairs, data, folder)
    twins = fuzz_calls.twins(folder)
    fuzz_pairs.limit_memory()
    return lambda data: fuzz_calls.call(twins, data, folder)


if __name__ == "__main__":
    sys.exit(main())

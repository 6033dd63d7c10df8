"""Threads that share one array object, in random steps, until one closes it under the others.

  python tests/support/fuzz_threads.py [--seconds N] [--seed N] [--threads N]

Each round makes an array (on either engine or in memory, sparse or not, with or without checksums
or compression, with any fill value), and readers of its files.  Threads read and write boxes,
elements, masks, points and views, compute, grow, shrink, freeze, thaw, flush, refresh, ask for
facts, and at last close, all on the same objects.  The oracle assumes no order of the calls.  It
checks what holds in any order:

- an element has the fill value, or the value of its place, and never anything else;
- a call succeeds, or raises an error of the family that names another thread's action;
- no foreign file is written to, and afterwards the checksums are right.

A failure ends the run with status 1 and prints the seed of its round.  `--seed` with that number
and `--seconds 0` repeats the round, though threads may interleave differently.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections import Counter, deque
from pathlib import Path
from typing import ClassVar

import numpy as np

import extarray as xa

__all__ = ["Round", "run"]

#: Possible errors while another thread moves the bounds, adds an axis, or closes.
EXPECTED = (
    xa.ClosedError,
    xa.BoundsError,
    xa.SelectionError,
    xa.ShapeError,
)
#: Content of foreign files, which come and go while arrays are closed.
STRANGER = bytes(range(256)) * 64
DTYPES = ["f8", "i4", "u1", "c16"]
MOST = 400  # elements along an axis
#: Factor for some rounds: large moves release the GIL, and take a while.
LARGE = 1000


class WrongError(Exception):
    """An observation that no order of the calls explains."""


class Options:
    """The parameters of a round, chosen by its seed."""

    def __init__(self, rng: random.Random) -> None:
        self.kind = rng.choice(["mmap", "mmap", "pread", "memory"])
        self.dtype = np.dtype(rng.choice(DTYPES))
        self.ndim = rng.choice([1, 2, 2, 3])
        most = [MOST, MOST // 2, 40][self.ndim - 1]
        self.scale = rng.choice([1, LARGE]) if self.ndim == 1 else 1
        self.shape = tuple(rng.randint(most // 2, most) * self.scale for _ in range(self.ndim))
        self.chunks = tuple(rng.choice([7, 16, 50]) * self.scale for _ in range(self.ndim))
        self.fill = rng.choice([0, 1, 1, 5])
        self.sparse = rng.random() < 0.3
        self.order = rng.choice("CCCFZH")
        self.checksum = self.kind != "memory" and rng.random() < 0.4
        self.moves_start = rng.random() < 0.3
        self.growth = rng.choice(["exact", "exact", ("linear", 2)])
        self.n_readers = 0 if self.kind == "memory" else rng.choice([0, 1, 2])
        self.closes = rng.choice([True, True, False])
        self.compression = None
        if self.kind != "memory" and not self.checksum and rng.random() < 0.6:
            self.compression = rng.choice(["zlib", "lz4", "zstd", "auto"])
        self.freeze = rng.choice(["behind", "behind", "close", "never"])
        self.cache = rng.choice([1, 1 << 14, 1 << 26])  # bytes of decoded chunks

    def __str__(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in vars(self).items())


class Round:
    """An array, its readers, and the threads that use them.

    Parameters
    ----------
    seed : int
    folder : Path
    n_threads : int
    steps : int
        Steps of each thread.
    """

    def __init__(self, seed: int, folder: Path, n_threads: int, steps: int) -> None:
        self.seed, self.n_threads, self.steps = seed, n_threads, steps
        rng = random.Random(seed)
        self.options = options = Options(rng)
        self.path = None if options.kind == "memory" else folder / f"array{seed}"
        self.folder = folder
        given = {} if self.path is None else {"engine": options.kind, "checksum": options.checksum}
        if options.compression is not None:
            given |= {"compression": options.compression, "freeze": options.freeze}
        xa.config.chunk_cache = options.cache
        self.array = xa.create(
            self.path,
            options.shape,
            options.dtype,
            chunks=options.chunks,
            fill_value=options.fill,
            sparse=options.sparse and self.path is not None,
            order=options.order,
            growth=options.growth,
            **given,
        )
        self.array[...] = self.values(self.whole(self.array.shape))
        verify = rng.choice(["write", "read"])
        if options.checksum and rng.random() < 0.7:  # reopened, so that chunks are verified
            self.array.close()
            self.array = xa.open(self.path, "r+", engine=options.kind, verify=verify)
        self.readers = [
            xa.open(self.path, engine=rng.choice(["mmap", "pread"]), verify=verify)
            for _ in range(options.n_readers)
        ]
        self.counts: Counter[str] = Counter()
        self.problems: list[str] = []
        self.steps_done: deque[tuple] = deque(maxlen=40)  # the last steps, to show the interleaving

    # -- the oracle --------------------------------------------------------------------------

    def values(self, indices: tuple[np.ndarray, ...]) -> np.ndarray:
        """Return the values of places; a constant where the starts move."""
        shape = np.broadcast_shapes(*(index.shape for index in indices))
        if self.options.moves_start:
            return np.full(shape, 9, self.options.dtype)
        total = np.zeros(shape, "i8")
        for factor, index in zip((3, 17, 29), indices, strict=False):
            total = total + factor * index
        return (10 + total % 80).astype(self.options.dtype)

    @staticmethod
    def whole(shape: tuple[int, ...]) -> tuple[np.ndarray, ...]:
        return tuple(np.ogrid[tuple(slice(0, n) for n in shape)])

    def check(self, found: np.ndarray, indices: tuple[np.ndarray, ...], what: str) -> None:
        found = np.asarray(found)
        wanted = np.broadcast_to(self.values(indices), found.shape)
        wrong = (found != wanted) & (found != self.options.dtype.type(self.options.fill))
        if wrong.any():
            places = [tuple(map(int, at)) for at in np.argwhere(wrong)[:9]]
            some = "; ".join(f"{found[at]} at {at} for {wanted[at]}" for at in places)
            raise WrongError(
                f"{what}: of {found.shape} {int(wrong.sum())} are neither what belongs there nor "
                f"the fill value, {self.options.fill}: {some}"
            )

    # -- steps -------------------------------------------------------------------------------

    def box(self, rng: random.Random, shape: tuple[int, ...]) -> tuple[slice, ...]:
        parts, scale = [], rng.choice([1, self.options.scale])
        for n in shape:
            low = rng.randint(0, max(0, n - 1))
            step = rng.choice([1, 1, 1, 2, 5])
            parts.append(slice(low, min(n, low + rng.choice([1, 5, 60, n]) * scale), step))
        return tuple(parts)

    @staticmethod
    def places(box: tuple[slice, ...]) -> tuple[np.ndarray, ...]:
        return tuple(np.ogrid[box])

    def read_box(self, a, rng):
        box = self.box(rng, a.shape)
        found = a[box]
        indices = self.places(box)
        if found.shape == np.broadcast_shapes(*(index.shape for index in indices)):
            self.check(found, indices, f"a[{box}]")  # otherwise the bounds had moved before

    def read_all(self, a, rng):
        found = a[...]
        self.check(found, self.whole(found.shape), "a[...]")

    def read_out(self, a, rng):
        shape = a.shape
        out = np.empty(shape, self.options.dtype)
        a.read(..., out=out)
        self.check(out, self.whole(shape), "a.read(out=)")

    def read_element(self, a, rng):
        index = tuple(rng.randint(0, max(0, n - 1)) for n in a.shape)
        found = a[index]
        self.check(found, tuple(map(np.array, index)), f"a[{index}]")

    def read_points(self, a, rng):
        shape = a.shape
        n = rng.choice([1, 20, 3000])
        points = tuple(
            np.array([rng.randrange(max(1, extent)) for _ in range(n)]) for extent in shape
        )
        self.check(a.vindex[points], points, "a.vindex")

    def read_mask(self, a, rng):
        shape = a.shape
        mask = np.random.default_rng(rng.randrange(2**32)).random(shape) < rng.choice([0.01, 0.5])
        self.check(a[mask], np.nonzero(mask), "a[mask]")

    def read_rows(self, a, rng):
        rows = np.array([rng.randrange(max(1, a.shape[0])) for _ in range(5)])
        found = a[rows]
        rest = [slice(0, n) for n in found.shape[1:]]
        grid = np.ogrid[(slice(0, 5), *rest)]
        grid = (rows.reshape(-1, *(1,) * len(rest)), *(grid[1:] if rest else ()))
        self.check(found, tuple(grid), "a[rows]")

    def read_view(self, a, rng):
        box = self.box(rng, a.shape)
        view = a.lazy[box]
        indices = self.places(box)
        shape = view.shape
        found = view[...]
        if shape == np.broadcast_shapes(*(index.shape for index in indices)):
            self.check(found, indices, "view[...]")

    def hold_chunk(self, a, rng):
        if a.order not in "CF" or a is not self.array:
            return  # a reader's view may show zeros of freed chunks, as documented
        view = a.chunk(tuple(rng.randrange(max(1, n)) for n in a.grid))
        seen = np.unique(view)
        time.sleep(rng.choice([0, 0, 0.001]))
        seen = np.union1d(seen, np.unique(view))
        known = {complex(n) for n in range(10, 90)} | {9 + 0j, complex(self.options.fill)}
        if not {complex(value) for value in seen.tolist()} <= known:
            raise WrongError(f"a view of a chunk shows {seen}")

    def write_box(self, a, rng):
        box = self.box(rng, a.shape)
        indices = self.places(box)
        a[box] = self.values(indices)

    def write_element(self, a, rng):
        index = tuple(rng.randint(0, max(0, n - 1)) for n in a.shape)
        a[index] = self.values(tuple(map(np.array, index)))[()]

    def write_cast(self, a, rng):
        box = self.box(rng, a.shape)
        a[box] = self.values(self.places(box)).astype("c16" if a.dtype.kind == "c" else "f4")

    def write_points(self, a, rng):
        points = tuple(
            np.array([rng.randrange(max(1, extent)) for _ in range(200)]) for extent in a.shape
        )
        a.vindex[points] = self.values(points)

    def write_mask(self, a, rng):
        mask = np.random.default_rng(rng.randrange(2**32)).random(a.shape) < 0.3
        a[mask] = self.values(np.nonzero(mask))

    def extend(self, a, rng):
        axis = rng.randrange(a.ndim)
        side = "start" if self.options.moves_start and rng.random() < 0.5 else "end"
        scale = self.options.scale
        if a.shape[axis] < MOST * scale:
            a.extend(axis, rng.choice([1, 9, 40]) * scale, side)

    def append(self, a, rng):
        shape = list(a.shape)
        scale = self.options.scale
        if shape[0] < MOST * scale:
            low, shape[0] = shape[0], 3 * scale
            grid = list(self.whole(tuple(shape)))
            grid[0] = grid[0] + low
            if not self.options.moves_start and self.appending.acquire(blocking=False):
                # Values depend on the place, so only one thread may append, with no other growth.
                try:
                    with self.growing:
                        if a.shape[0] == low:
                            a.append(self.values(tuple(grid)))
                finally:
                    self.appending.release()

    def shrink(self, a, rng):
        axis = rng.randrange(a.ndim)
        side = "start" if self.options.moves_start and rng.random() < 0.5 else "end"
        by = min(a.shape[axis] - 1, rng.choice([1, 9, 60]) * self.options.scale)
        if by > 0:
            with contextlib.suppress(xa.ArgumentError):  # another thread has cut it off already
                a.shrink(axis, by, side)

    def roll_back(self, a, rng):
        with contextlib.suppress(KeyError), xa.commit([a]):
            self.extend(a, rng)
            time.sleep(rng.choice([0, 0.001]))
            raise KeyError

    def facts(self, a, rng):
        str(a.info())
        repr(a)
        str(a.shape), a.nbytes, a.grid, a.origin, dict(a.attrs)

    def attributes(self, a, rng):
        a.attrs["n"] = rng.randrange(100)
        assert 0 <= a.attrs.get("n", 0) < 100

    def flush(self, a, rng):
        a.flush()

    def refresh(self, a, rng):
        a.refresh()

    def freeze(self, a, rng):
        if self.options.compression is not None:
            a.freeze()

    def thaw(self, a, rng):
        if self.options.compression is not None:
            a.thaw()

    def total(self, a, rng):
        axis = rng.choice([None, 0, -1])
        low, high = (9, 9) if self.options.moves_start else (10, 89)
        fill = self.options.fill
        with np.errstate(all="ignore"):
            found = np.max(a.real if a.dtype.kind == "c" else a, axis=axis)
        found = np.asarray(found)
        if not ((found <= max(high, fill)) & (found >= min(low, fill))).all():
            raise WrongError(f"max(axis={axis}): {found.min()} to {found.max()}")

    def smallest(self, a, rng):
        found = np.asarray(np.min(a.real if a.dtype.kind == "c" else a))
        if found not in (self.options.fill, 9) and not 10 <= found < 90:
            raise WrongError(f"min: {found}")

    def copied(self, a, rng):
        with a.copy() as copy:
            self.check(copy[...], self.whole(copy.shape), "copy")

    def added(self, a, rng):
        found = np.add(a, 0)
        found = found[...] if isinstance(found, xa.ExtArray) else found
        self.check(found, self.whole(found.shape), "a + 0")

    def median(self, a, rng):
        if a.dtype.kind != "c":
            np.median(a, axis=rng.choice([None, 0]))

    def rows(self, a, rng):
        for number, row in enumerate(a):
            if number > 3:
                break
            grid = self.whole(np.shape(row)) if np.ndim(row) else ()
            self.check(row, (np.array(number), *grid), "row")

    READING: ClassVar = {
        read_box: 6,
        read_all: 4,
        read_out: 1,
        read_element: 3,
        read_points: 3,
        read_mask: 3,
        read_rows: 2,
        read_view: 3,
        hold_chunk: 2,
        facts: 2,
        total: 2,
        smallest: 2,
        copied: 1,
        added: 1,
        median: 1,
        rows: 1,
        refresh: 3,
    }
    WRITING: ClassVar = {
        write_box: 4,
        write_element: 2,
        write_cast: 1,
        write_points: 2,
        write_mask: 2,
        extend: 4,
        append: 2,
        shrink: 6,
        roll_back: 2,
        attributes: 1,
        flush: 2,
        freeze: 3,
        thaw: 1,
    }

    # -- threads -----------------------------------------------------------------------------

    def work(self, number: int) -> None:
        rng = random.Random((self.seed << 8) + number)
        both = {**self.READING, **self.WRITING}
        for _ in range(self.steps):
            if self.problems:
                return
            if self.readers and rng.random() < 0.5:
                array, steps = rng.choice(self.readers), self.READING
            else:
                array, steps = self.array, both
            step = rng.choices(list(steps), list(steps.values()))[0]
            grows = step in (Round.extend, Round.shrink, Round.roll_back)
            self.steps_done.append((number, "begins", step.__name__, array.shape))
            try:
                with self.growing if grows else contextlib.nullcontext():
                    step(self, array, rng)
                self.counts[step.__name__] += 1
                self.steps_done.append((number, "has done", step.__name__, array.shape))
            except EXPECTED as error:
                self.counts[f"{step.__name__}: {type(error).__name__}"] += 1
                if isinstance(error, xa.ClosedError) and not array.closed:
                    self.found(step.__name__)
            except BaseException:
                self.found(step.__name__)
                return

    def found(self, step: str) -> None:
        last = "\n".join("thread {} {} {}, {}".format(*done) for done in self.steps_done.copy())
        try:
            elements = self.array[...]
            self.check(elements, self.whole(elements.shape), "a[...] after that")
            then = "the array itself is as it should be, after that"
        except Exception as error:
            then = str(error)
        self.problems.append(f"{step}:\n{traceback.format_exc()}\n{then}\n{last}")

    def close_soon(self) -> None:
        rng = random.Random(self.seed)
        for array in rng.sample([*self.readers, self.array], 1 + len(self.readers)):
            time.sleep(rng.choice([0, 0.003, 0.02, 0.05]))
            try:
                array.close()
            except BaseException:
                self.found("close")

    def make_files(self, over: threading.Event) -> None:
        """Open files, which reuse numbers of descriptors that others close."""
        names = [self.folder / f"stranger{n}" for n in range(4)]
        while not over.is_set():
            with contextlib.ExitStack() as stack:
                files = [stack.enter_context(open(name, "w+b", 0)) for name in names]
                for file in files:
                    file.write(STRANGER)
                time.sleep(0.001)
                for file in files:
                    if os.pread(file.fileno(), 2 * len(STRANGER), 0) != STRANGER:
                        self.problems.append(f"{file.name} is not as it was written")

    def run(self) -> None:
        """Run the threads; collect their findings in `problems`."""
        self.appending, self.growing = threading.Lock(), threading.Lock()
        over = threading.Event()
        files = threading.Thread(target=self.make_files, args=(over,))
        threads = [threading.Thread(target=self.work, args=(n,)) for n in range(self.n_threads)]
        files.start()
        for thread in threads:
            thread.start()
        if self.options.closes:
            self.close_soon()
        for thread in threads:
            thread.join(300)
            if thread.is_alive():
                stacks = sys._current_frames().values()
                text = "\n".join("".join(traceback.format_stack(frame)) for frame in stacks)
                self.problems.append(f"a thread does not come to its end:\n{text}")
        over.set()
        files.join()
        for array in (*self.readers, self.array):
            with contextlib.suppress(Exception) if self.problems else contextlib.nullcontext():
                array.close()
        if not self.problems and self.path is not None:
            self.look_again()

    def look_again(self) -> None:
        """Check the files that the threads have left."""
        report = xa.check(self.path, data=True)
        # A write that overlaps close leaves checksums in doubt and says so, which is no error.
        if not report.ok:
            self.problems.append(f"check: {report}")
            return
        with xa.open(self.path) as array:
            try:
                self.check(array[...], self.whole(array.shape), "opened again")
            except WrongError as error:
                self.problems.append(str(error))

    def remove(self) -> None:
        for suffix in () if self.path is None else (".xmd", ".xta", ".xtz"):
            Path(f"{self.path}{suffix}").unlink(missing_ok=True)


def run(
    seed: int,
    folder: Path,
    rounds: int = 1,
    seconds: float = 0,
    n_threads: int = 4,
    steps: int = 25,
    say=None,
) -> Counter[str]:
    """Run a number of rounds, or for some seconds, starting with this seed.

    Returns
    -------
    Counter
        Number of each step's outcomes.

    Raises
    ------
    AssertionError
        Names the seed of the round.
    """
    counts: Counter[str] = Counter()
    end = time.monotonic() + seconds
    before = sys.getswitchinterval()
    said = time.monotonic()
    try:
        while True:
            # Switch threads at points where the interpreter seldom would.
            sys.setswitchinterval(random.Random(seed).choice([1e-6, 1e-5, 5e-4]))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                one = Round(seed, folder, n_threads, steps)
                one.run()
            counts += one.counts
            counts["rounds"] += 1
            assert not one.problems, f"seed {seed}, {one.options}\n" + "\n".join(one.problems[:3])
            one.remove()
            seed += 1
            if say is not None and time.monotonic() - said > 30:
                said = time.monotonic()
                say(f"{counts['rounds']} rounds, the last with seed {seed - 1}")
            if counts["rounds"] >= rounds and time.monotonic() >= end:
                return counts
    finally:
        sys.setswitchinterval(before)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--steps", type=int, default=25)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        try:
            counts = run(
                arguments.seed,
                Path(folder),
                seconds=arguments.seconds,
                n_threads=arguments.threads,
                steps=arguments.steps,
                say=lambda text: print(text, flush=True),
            )
        except AssertionError as error:
            print(error)
            return 1
    for name, n in sorted(counts.items()):
        print(f"{n:8} {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

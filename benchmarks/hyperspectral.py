"""Hyperspectral analysis: accuracy and speed, beside SPy, scikit-learn and SciPy.

    python -m benchmarks.hyperspectral                          # a minute or two
    python -m benchmarks.hyperspectral --scale full             # true sizes, and a scene of 1 GB
    python -m benchmarks.hyperspectral --only accuracy --data FOLDER

`accuracy` prints tables in the form of Nimako's thesis (9.4 and 9.5): pixels of each class in the
truth and by PPI, N-FINDR and AMEE.  Scenes of the true sizes and layouts of Salinas, Botswana and
KSC are mixed from known spectra; real scenes are Indian Pines (from the package tensorly), Samson
and Salinas-A.  FOLDER has `label_maps`, `samson` and `salinas_a`, with the published MATLAB files;
missing ones are skipped.

`speed` measures a scene in a file, within 256 MiB, with one process and two ranks, against the
other libraries with the scene in memory.

`growing` measures the time for eight rows that join scenes with more and more rows, and the bytes
read per new byte.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

import extarray as xa
from extarray.apps import hyperspectral as hs

MEMORY = "256 MiB"

#: The thesis's columns for GA with PEXTA: PPI, N-FINDR, AMEE, and their stated accuracy.
THESIS: dict[str, tuple[list[tuple[str, int, int, int, int]], tuple[float, float, float]]] = {
    "Botswana": (
        [
            ("Water", 270, 242, 307, 278),
            ("Hippo Grass", 101, 76, 73, 93),
            ("Floodplain 1", 251, 273, 213, 241),
            ("Floodplain 2", 215, 243, 247, 205),
            ("Reeds", 269, 293, 307, 279),
            ("Riparian", 269, 298, 300, 277),
            ("Firescar", 259, 280, 295, 266),
            ("Island Interior", 203, 179, 231, 195),
            ("Acacia Wood", 314, 295, 282, 322),
            ("Acacia Shrub", 248, 224, 280, 255),
            ("Acacia Grass", 305, 324, 331, 314),
            ("Short Mopane", 181, 201, 207, 171),
            ("Mixed Mopane", 268, 297, 297, 259),
            ("Exposed Soils", 95, 113, 122, 88),
        ],
        (90.11, 86.82, 96.43),
    ),
    "Salinas": (
        [
            ("Broccoli 1", 2009, 1737, 2405, 2101),
            ("Broccoli 2", 3726, 960, 1028, 827),
            ("Fallow", 1976, 2227, 1611, 2067),
            ("Rough plow", 1394, 1645, 1109, 1308),
            ("Smooth", 2678, 2884, 2315, 2582),
            ("Stubble", 3959, 4243, 3560, 4053),
            ("Celery", 3579, 3816, 3329, 3474),
            ("Grapes", 11271, 11005, 10874, 11176),
            ("Soil vineyard", 6203, 5965, 6550, 6119),
            ("Corn", 3278, 3058, 3614, 3189),
            ("Lettuce 4wk", 1068, 1322, 1420, 985),
            ("Lettuce 5wk", 1927, 2164, 2238, 2021),
            ("Lettuce 6wk", 916, 1189, 1202, 997),
            ("Lettuce 7wk", 1070, 1338, 763, 1168),
            ("Vineyard untr.", 7268, 7505, 6883, 7368),
            ("Vertical trellis", 1807, 2112, 1493, 1913),
        ],
        (92.11, 89.45, 97.08),
    ),
}

#: Published angles on Samson, in units of 0.01: rock, tree and water, each the mean of five runs on
#: spectra scaled to 0...1.  Source: the stored results of EVO-HYS, the programs of D. W. Saraiva
#: dos Reis, G. T. Laureano and C. G. Camilo (github.com/douglas-wrs/EVO-HYS, commit 6e2a57a,
#: demo/results/Samson.pkl).
PUBLISHED = {
    "PPI": (11.03, 45.16, 52.45),
    "N-FINDR": (101.76, 129.95, 4.93),
    "VCA": (3.43, 6.48, 12.16),
}

NOTE = """\
What the thesis calls accuracy is, as far as its tables tell, 1 - sum |pixels - truth| / sum truth
over classes: that comes within half a point of each figure for Botswana.  It compares histograms.
A method that gives every pixel the wrong class, but each class as often as the truth, has 100 %;
and rows that exceed the truth cannot be "correctly classified pixels".  The column `histogram` is
that measure for us; `overall` and `kappa` compare pixel by pixel, and say how right labels are.

The thesis names no number of skewers, endmembers, kernel or threshold, and no matching of
endmembers to classes.  Here p is the number of classes, endmembers are matched to the mean spectra
of the classes by the least sum of angles, and a pixel has the class of the least spectral angle.
No method saw a label before the matching.  PPI and AMEE rank pixels; of the angles 0.2, 0.1, 0.05,
0.02 and 0, endmembers have the largest to each other with which there are p of them.
"""


# -- scenes ----------------------------------------------------------------------------------------


class Scene(NamedTuple):
    name: str
    data: Any  # (rows, columns, bands)
    truth: np.ndarray | None  # (rows, columns), 0 if unknown
    spectra: np.ndarray  # (k, bands): one per class, in the order of their labels
    abundances: np.ndarray | None
    is_real: bool


def synthetic(name: str, labels: np.ndarray, bands: int, seed: int = 0) -> Scene:
    """Mix a scene of a given layout: fields of nearly pure pixels, mixed at borders and around."""
    from scipy.ndimage import distance_transform_edt, gaussian_filter1d, uniform_filter

    rng = np.random.default_rng(seed)
    classes = np.unique(labels[labels > 0])
    k = len(classes)
    base = 0.3 + 0.2 * np.sin(np.linspace(0, 5, bands))
    curves = gaussian_filter1d(rng.normal(0, 1, (k, bands)), bands / 25, axis=1)
    spectra = base * np.exp(0.45 * curves / curves.std())
    _, (rows, columns) = distance_transform_edt(labels == 0, return_indices=True)
    nearest = np.searchsorted(classes, labels[rows, columns])
    amounts = np.stack([uniform_filter((nearest == c).astype("f4"), 3) for c in range(k)], axis=2)
    spread = np.where(labels > 0, 0.1, 0.5)[..., None] * rng.random((*labels.shape, 1))
    others = rng.dirichlet(np.full(k, 0.2), labels.shape)
    amounts = (1 - spread) * amounts + spread * others
    amounts /= amounts.sum(axis=2, keepdims=True)
    data = np.empty((*labels.shape, bands), dtype="u2")
    for row in range(len(labels)):
        light = rng.normal(1, 0.04, (labels.shape[1], 1))
        pixels = amounts[row] @ spectra * light
        pixels += rng.normal(0, 0.003, pixels.shape)
        data[row] = np.clip(pixels * 10_000, 0, 65_535)
    return Scene(name, data, labels, spectra * 10_000, amounts, False)


def scenes(folder: Path | None, full: bool):
    """Yield the scenes whose data exist."""
    for name, bands in (("Salinas", 204), ("Botswana", 145), ("KSC", 176)):
        path = None if folder is None else folder / "label_maps" / f"{name.lower()}_gt.mat"
        path = path if path is None or path.exists() else path.with_name(f"{name}_gt.mat")
        if path is not None and path.exists():
            labels = matrix(path)
            # A part with as many classes suffices to see whether it works.
            yield synthetic(
                name, labels if full else labels[::3, ::3], bands if full else bands // 2
            )
    yield from real(folder)


def real(folder: Path | None):
    """Yield the real scenes."""
    from importlib.util import find_spec

    spec = find_spec("tensorly")
    if spec is not None:
        data = Path(spec.submodule_search_locations[0], "datasets", "data")
        yield labelled(
            "Indian Pines",
            np.load(data / "Indian_pines_corrected.npy"),
            np.load(data / "Indian_pines_gt.npy"),
        )
    if folder is not None and (folder / "salinas_a").exists():
        part = folder / "salinas_a"
        cube, truth = (matrix(part / f"SalinasA_{kind}.mat") for kind in ("corrected", "gt"))
        yield labelled("Salinas-A", cube, truth)
    if folder is not None and (folder / "samson").exists():
        from scipy.io import loadmat

        part = folder / "samson"
        v, known = loadmat(part / "Samson.mat")["V"], loadmat(part / "Samson_GT.mat")
        data = v.reshape(156, 95, 95, order="F").transpose(1, 2, 0)
        amounts = known["A"].reshape(3, 95, 95, order="F").transpose(1, 2, 0)
        yield Scene("Samson", data, None, known["M"].T, amounts, True)


def matrix(path: Path) -> np.ndarray:
    from scipy.io import loadmat

    (found,) = [v for k, v in loadmat(path).items() if not k.startswith("_")]
    return np.ascontiguousarray(found)


def labelled(name: str, data: np.ndarray, truth: np.ndarray) -> Scene:
    classes = np.unique(truth[truth > 0])
    spectra = np.stack([data[truth == c].mean(axis=0) for c in classes])
    return Scene(name, data, truth, spectra, None, True)


# -- accuracy --------------------------------------------------------------------------------------


def methods(p: int, skewers: int):
    def ppi(a: Any, angle: float) -> Any:
        return hs.ppi(a, skewers, p=p, min_angle=angle, max_memory=MEMORY)

    def amee(a: Any, angle: float) -> Any:
        return hs.amee(a, p, (3, 5, 7), min_angle=angle, max_memory=MEMORY)

    yield "PPI", lambda a: farthest(ppi, a)
    yield "N-FINDR", lambda a: hs.nfindr(a, p, max_memory=MEMORY)
    yield "AMEE", lambda a: farthest(amee, a)
    yield "VCA", lambda a: hs.vca(a, p, max_memory=MEMORY)
    yield "ATGP", lambda a: hs.atgp(a, p, max_memory=MEMORY)


def farthest(find: Any, a: Any) -> Any:
    """Find endmembers at the largest angle that leaves enough of them."""
    for angle in (0.2, 0.1, 0.05, 0.02):
        with contextlib.suppress(xa.ArgumentError):
            return find(a, angle)
    return find(a, 0.0)


def accuracy(folder: Path | None, full: bool, skewers: int) -> None:
    print(NOTE)
    for scene in scenes(folder, full):
        p = len(scene.spectra)
        shape = " x ".join(map(str, scene.data.shape))
        kind = "real" if scene.is_real else "mixed from known spectra, with the layout of the scene"
        print(f"## {scene.name}: {shape}, {p} classes, {kind}\n")
        counts: dict[str, np.ndarray] = {}
        members: dict[str, np.ndarray] = {}
        print("|method|overall %|kappa|histogram %|angle, mean|angle, worst|RMSE of abundances|s|")
        print("|-|-|-|-|-|-|-|-|")
        for name, find in methods(p, skewers):
            began = time.perf_counter()
            try:
                found = find(scene.data)
            except xa.ExtArrayError as error:
                print(f"|{name}|{error}|||||||")
                continue
            seconds = time.perf_counter() - began
            print(judged(name, scene, found, seconds, counts))
            members[name] = found.endmembers
        table(scene, counts)
        if scene.name == "Samson":
            beside_published(members, scene.spectra)


def judged(
    name: str, scene: Scene, found: Any, seconds: float, counts: dict[str, np.ndarray]
) -> str:
    """Return the row of a method; note its pixels of each class."""
    pairs = hs.match(found.endmembers, scene.spectra)
    members = found.endmembers[pairs.order]
    degrees = np.degrees(pairs.angles)
    overall = kappa = histogram = rmse = "–"
    if scene.truth is not None:
        classes = np.unique(scene.truth[scene.truth > 0])
        labels = hs.classify(scene.data, members, classes=classes)
        right = hs.accuracy(labels, scene.truth)
        known = scene.truth > 0
        counts[name] = np.array([(labels[known] == c).sum() for c in classes])
        overall, kappa = f"{100 * right.overall:.1f}", f"{right.kappa:.3f}"
        histogram = f"{100 * right.histogram:.1f}"
    if scene.abundances is not None:
        # If the pixels of a scene differ in brightness, only shares are comparable.
        amounts = np.asarray(hs.abundances(scene.data, members, "nnls", max_memory=MEMORY))
        amounts = amounts / np.maximum(amounts.sum(axis=2, keepdims=True), 1e-12)
        rmse = f"{np.sqrt(((amounts - scene.abundances) ** 2).mean()):.3f}"
    return (
        f"|{name}|{overall}|{kappa}|{histogram}|{degrees.mean():.2f}°|{degrees.max():.2f}°|{rmse}"
        f"|{seconds:.2f}|"
    )


def table(scene: Scene, counts: dict[str, np.ndarray]) -> None:
    """Print pixels of each class as tables 9.4 and 9.5 do, the thesis's beside ours."""
    three = [name for name in ("PPI", "N-FINDR", "AMEE") if name in counts]
    if scene.truth is None or not three:
        print()
        return
    theirs, overall = THESIS.get(scene.name, ([], ()))
    classes = np.unique(scene.truth[scene.truth > 0])
    head = ["class", "truth", *three]
    if theirs:
        head += [f"thesis: {what}" for what in ("truth", "PPI", "N-FINDR", "AMEE")]
    print(f"\n|{'|'.join(head)}|\n|{'-|' * len(head)}")
    for k, c in enumerate(classes):
        row: list[Any] = [theirs[k][0] if theirs else c, (scene.truth == c).sum()]
        row += [counts[name][k] for name in three] + list(theirs[k][1:] if theirs else [])
        print(f"|{'|'.join(map(str, row))}|")
    if theirs:
        print(f"|its accuracy, %|{'|' * (len(three) + 2)}{'|'.join(map(str, overall))}|")
    print()


def beside_published(members: dict[str, np.ndarray], known: np.ndarray) -> None:
    """Print angles on Samson by the measure of EVO-HYS, ours and theirs."""

    def scaled(spectra: np.ndarray) -> np.ndarray:
        low = spectra.min(axis=1, keepdims=True)
        return (spectra - low) / (spectra.max(axis=1, keepdims=True) - low)

    print(
        "Angles between spectra scaled from 0 to 1, in 0.01 radians, beside those published by "
        "EVO-HYS (github.com/douglas-wrs/EVO-HYS):\n"
    )
    print("|method|rock|tree|water|mean|published: rock|tree|water|mean|\n" + "|-" * 9 + "|")
    for name, theirs in PUBLISHED.items():
        if name in members:
            pairs = hs.match(members[name], known)
            found, wanted = scaled(members[name][pairs.order]), scaled(known)
            ours = 100 * hs.sam(found[None], wanted)[0].diagonal()
            cells = [f"{x:.2f}" for x in (*ours, ours.mean(), *theirs, np.mean(theirs))]
            print(f"|{name}|{'|'.join(cells)}|")
    print(
        "\nAn angle near a radian is that of another material: their PPI and N-FINDR missed some. "
        "Only VCA can be compared.\n"
    )


# -- speed -----------------------------------------------------------------------------------------

#: Rows and columns of scenes of 224 bands of float32: 1 GB at full size.
SIDES = {"small": 140, "medium": 380, "full": 1092}
BANDS, MEMBERS = 224, 10


def make(path: Path, side: int) -> None:
    """Write a scene, strip by strip, and its endmembers."""
    rng = np.random.default_rng(0)
    spectra = 1 + np.abs(np.cumsum(rng.normal(0, 0.1, (MEMBERS, BANDS)), axis=1))
    fields = rng.dirichlet(np.full(MEMBERS, 0.3), (side // 20 + 1, side // 20 + 1))
    with xa.create(path, (side, side, BANDS), "f4", chunks=(16, 64, BANDS)) as a:
        for row in range(side):
            amounts = 0.9 * fields[row // 20].repeat(20, axis=0)[:side]
            amounts += 0.1 * rng.dirichlet(np.full(MEMBERS, 0.3), side)
            a[row] = amounts @ spectra + rng.normal(0, 0.01, (side, BANDS))
    np.save(path.with_suffix(".npy"), spectra)


def ours(a: Any, spectra: np.ndarray, skewers: int):
    more = {"max_memory": MEMORY}
    yield "PCT", lambda: hs.pct(a, 10, **more)
    yield "MNF", lambda: hs.mnf(a, 10, **more)
    yield "PPI", lambda: hs.ppi(a, skewers, p=5, **more)
    yield "N-FINDR", lambda: hs.nfindr(a, MEMBERS, **more)
    yield "NNLS", lambda: hs.abundances(a, spectra, "nnls", **more)


def spy(a: np.ndarray, spectra: np.ndarray, skewers: int):
    import spectral

    spectral.settings.show_progress = False

    def pct():
        return spectral.principal_components(a).reduce(num=10).transform(a)

    def mnf():
        noise = spectral.noise_from_diffs(a)
        return spectral.mnf(spectral.calc_stats(a), noise).reduce(a, num=10)

    yield "PCT", pct
    yield "MNF", mnf
    # The time is proportional to the number of skewers, so a few suffice.
    yield "PPI", lambda: spectral.ppi(a, min(skewers, 20)), skewers / min(skewers, 20)


def scikit_learn(a: np.ndarray, spectra: np.ndarray, skewers: int):
    """Compute in float64, as all others do; for float32 it would keep that precision throughout."""
    from sklearn.decomposition import PCA

    data = a.reshape(-1, BANDS).astype("f8")
    yield "PCT", lambda: PCA(10).fit_transform(data)


def scikit_learn_single(a: np.ndarray, spectra: np.ndarray, skewers: int):
    from sklearn.decomposition import PCA

    yield "PCT", lambda: PCA(10).fit_transform(a.reshape(-1, BANDS))


def scipy(a: np.ndarray, spectra: np.ndarray, skewers: int):
    from scipy.optimize import nnls

    pixels = a.reshape(-1, BANDS)
    some = pixels[:: max(1, len(pixels) // 5000)].astype("f8")
    system = np.ascontiguousarray(spectra.T)
    yield "NNLS", lambda: [nnls(system, x)[0] for x in some], len(pixels) / len(some)


ANALYSES = {
    "ours": ours,
    "SPy": spy,
    "scikit-learn": scikit_learn,
    "SciPy": scipy,
    "scikit-learn, float32": scikit_learn_single,
}

#: Implementation, and number of ranks (0: a program without MPI).
CANDIDATES = {
    "1 process": ("ours", 0),
    "1 rank": ("ours", 1),
    "2 ranks": ("ours", 2),
    "SPy": ("SPy", 0),
    "scikit-learn": ("scikit-learn", 0),
    "SciPy": ("SciPy", 0),
    # Computes less: products and sums in single precision.
    "scikit-learn, float32": ("scikit-learn, float32", 0),
}


def measure(path: str, candidate: str, skewers: int, comm: Any = None) -> dict[str, Any]:
    """Run each analysis of a candidate after an untimed one; note seconds and memory."""
    spectra = np.load(Path(path).with_suffix(".npy"))
    found: dict[str, Any] = {}
    xa.config.threads = int(os.environ.get("OMP_NUM_THREADS", "1"))
    with xa.open(path, "r", **({} if comm is None else {"comm": comm})) as a:
        data = a if candidate == "ours" else a[...]
        for name, call, *factor in ANALYSES[candidate](data, spectra, skewers):
            if name == "PCT":  # the first one also loads modules
                call()
            if comm is not None:
                comm.Barrier()
            with Memory() as memory:
                began = time.perf_counter()
                call()
                seconds = time.perf_counter() - began
            found[name] = {"seconds": seconds * (factor or [1])[0], "mib": memory.mib}
    return found


class Memory:
    """The peak of a process's own memory above its start."""

    def __enter__(self) -> Self:
        self._first = self._most = self._own()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()
        self.mib = (self._most - self._first) // 1024

    def _look(self) -> None:
        while not self._over.wait(0.01):
            self._most = max(self._most, self._own())

    @staticmethod
    def _own() -> int:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("RssAnon"):
                return int(line.split()[1])
        return 0


def speed(
    scale: str, skewers: int, folder: Path, plot: Path | None, threads: int, rounds: int
) -> None:
    side = SIDES[scale]
    size = side * side * BANDS * 4 / 1e9
    print(
        f"## Speed: {side} x {side} x {BANDS} float32, {size:.2f} GB, {skewers} skewers, "
        f"{threads} threads in one process, of BLAS or of ours\n"
    )
    path = folder / "scene"
    make(path, side)
    results: dict[str, Any] = {title: {} for title in CANDIDATES}
    # Candidates take turns, and the fastest run of each counts: noise hits all alike.
    for _ in range(rounds):
        for title, (candidate, ranks) in CANDIDATES.items():
            for name, new in run(path, candidate, ranks, skewers, folder, threads).items():
                known = results[title].setdefault(name, new)
                known["seconds"] = min(known["seconds"], new["seconds"])
                known["mib"] = max(known["mib"], new["mib"])
    names = list(results["1 process"])
    print(
        "Seconds, and MiB of memory of its own beside the scene; – where there is no such thing.\n"
    )
    print(f"|analysis|{'|'.join(results)}|best other / 1 process|1 rank / 2 ranks|")
    print("|-" * (len(results) + 3) + "|")
    for name in names:
        cells = [
            f"{r[name]['seconds']:.2f} ({r[name]['mib']})" if name in r else "–"
            for r in results.values()
        ]
        others = [r[name]["seconds"] for r in list(results.values())[3:-1] if name in r]
        mine, one, two = (
            results[t].get(name, {}).get("seconds") for t in ("1 process", "1 rank", "2 ranks")
        )
        against = f"{min(others) / mine:.1f}" if others else "–"
        ranks = f"{one / two:.2f}" if one and two else "–"
        print(f"|{name}|{'|'.join(cells)}|{against}|{ranks}|")
    print(
        "\nPPI of SPy and NNLS of SciPy: measured on a part, and multiplied.  The best other is "
        "one that computes in double precision as we do; scikit-learn keeps to single precision "
        "where the scene has it.\n"
    )
    if plot is not None:
        draw(results, names, size, plot)
        print(f"Picture: {plot}")


#: Rows of scenes, to which a few are added.
GROWING = {"small": (64, 256), "medium": (256, 1024, 4096), "full": (256, 1024, 4096, 8192)}


def growing(scale: str, folder: Path, updates: int = 9) -> None:
    """Print the cost of updates of a growing scene, by its size."""
    columns, bands, new = 128, 64, 8
    rng = np.random.default_rng(0)
    spectra = 1 + np.abs(np.cumsum(rng.normal(0, 0.1, (MEMBERS, bands)), axis=1))

    def swath(rows: int) -> np.ndarray:
        amounts = rng.dirichlet(np.full(MEMBERS, 0.3), (rows, columns))
        pixels = amounts @ spectra + rng.normal(0, 0.01, (rows, columns, bands))
        return pixels.astype("f4")

    print(f"## A scene that grows: {new} rows of {columns} x {bands} float32 at a time\n")
    print("|rows|first analysis, s|update, ms: median|slowest|bytes read for a new one|")
    print("|-|-|-|-|-|")
    for rows in GROWING[scale]:
        with xa.create(
            folder / f"growing-{rows}",
            (0, columns, bands),
            "f4",
            chunks=(16, columns, bands),
            engine="pread",  # no counter includes reads of a mapping
        ) as a:
            for _ in range(0, rows, 64):
                a.append(swath(64))
            began = time.perf_counter()
            with hs.Growing(a, MEMBERS, max_memory=MEMORY) as live:
                first = time.perf_counter() - began
                seconds, read = [], []
                for _ in range(updates):
                    a.append(swath(new))
                    before, began = bytes_read(), time.perf_counter()
                    live.update()
                    seconds.append(1000 * (time.perf_counter() - began))
                    read.append((bytes_read() - before) / (4 * new * columns * bands))
        print(
            f"|{rows}|{first:.2f}|{np.median(seconds):.1f}|{max(seconds):.1f}"
            f"|{np.median(read):.2f}|"
        )
    print()


def bytes_read() -> int:
    """Return the bytes that this process has read so far, from files or their cache."""
    for line in Path("/proc/self/io").read_text().splitlines():
        if line.startswith("rchar"):
            return int(line.split()[1])
    return 0


def run(
    path: Path, candidate: str, ranks: int, skewers: int, folder: Path, threads: int
) -> dict[str, Any]:
    """Measure a candidate in its own process, or in ranks; nothing if it is not installed."""
    result = folder / "result.json"
    result.unlink(missing_ok=True)
    # Last on the path, as in `compare`: the measured extarray may be an installed one.
    root = os.fspath(Path(__file__).resolve().parents[1])
    program = (
        f"import sys; sys.path.append({root!r}); from benchmarks.hyperspectral import main; main()"
    )
    python = [sys.executable, "-P", *(["-m", "mpi4py"] if ranks else []), "-c", program]
    task = ["--measure", candidate, str(path), str(skewers), str(result)]
    start = []
    if ranks:
        mpiexec = Path(sys.executable).with_name("mpiexec")
        if not mpiexec.exists():
            return {}
        start, threads = [str(mpiexec), "-n", str(ranks)], 1
    variables = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    environment = {**os.environ, **dict.fromkeys(variables, str(threads))}
    done = subprocess.run([*start, *python, *task], env=environment, check=False)
    if done.returncode or not result.exists():
        print(f"{candidate} with {ranks} ranks: no result\n", file=sys.stderr)
        return {}
    found: dict[str, Any] = json.loads(result.read_text())
    return found


def draw(results: dict[str, Any], names: list[str], size: float, path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4.2), layout="constrained")
    axes = figure.subplots()
    wide = 0.8 / len(results)
    for k, (title, found) in enumerate(results.items()):
        places = [
            i + (k - len(results) / 2) * wide for i, name in enumerate(names) if name in found
        ]
        heights = [found[name]["seconds"] for name in names if name in found]
        axes.bar(places, heights, wide, label=title, align="edge")
    axes.set_xticks(range(len(names)), names)
    axes.set(yscale="log", ylabel="seconds", title=f"Analysis of a scene of {size:.2f} GB")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, ncols=3, fontsize=8)
    figure.savefig(path, dpi=110)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", choices=SIDES, default="small")
    parser.add_argument("--only", choices=("accuracy", "speed", "growing"))
    parser.add_argument("--data", type=Path, help="folder of label maps and real scenes")
    parser.add_argument("--skewers", type=int, help="of PPI (1,000 at small scale, else 10,000)")
    parser.add_argument(
        "--folder", type=Path, help="where the scenes of `speed` and `growing` are for a while"
    )
    parser.add_argument(
        "--threads",
        type=int,
        default=os.cpu_count() or 1,
        help="of what is one process, of BLAS or of ours (ranks have one; default: the cores)",
    )
    parser.add_argument("--rounds", type=int, default=3, help="of all candidates in turn")
    parser.add_argument("--plot", type=Path, help="a picture of the times")
    parser.add_argument("--measure", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.measure:
        candidate, path, skewers, result = args.measure
        comm = None
        if "mpi4py" in sys.modules:
            from mpi4py import MPI

            comm = MPI.COMM_WORLD
        found = measure(path, candidate, int(skewers), comm)
        if comm is None or comm.rank == 0:
            Path(result).write_text(json.dumps(found))
        return
    skewers = args.skewers or (1000 if args.scale == "small" else 10_000)
    if args.only in (None, "accuracy"):
        accuracy(args.data, args.scale == "full", skewers)
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        if args.only in (None, "growing"):
            growing(args.scale, Path(folder))
        if args.only in (None, "speed"):
            speed(args.scale, skewers, Path(folder), args.plot, args.threads, args.rounds)


if __name__ == "__main__":
    main()

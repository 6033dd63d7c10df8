"""Hyperspectral analysis against SPy, scikit-learn and SciPy, and on scenes of known make-up."""

from __future__ import annotations

import itertools
import threading
import tracemalloc
from types import SimpleNamespace

import hyperscenes
import numpy as np
import pytest
from systems import replaces_open_files

import extarray as xa
from extarray.apps import hyperspectral as hs
from extarray.apps import hyperspectral_blocks, hyperspectral_unmixing
from extarray.apps.hyperspectral_blocks import Spectra
from extarray.apps.hyperspectral_components import Moments, merge_both, with_noise
from extarray.errors import ArgumentError, AxisError, ShapeError

spectral = pytest.importorskip("spectral")
optimize = pytest.importorskip("scipy.optimize")
decomposition = pytest.importorskip("sklearn.decomposition")

#: Memory so small that even small scenes have many blocks.
LITTLE = 200_000


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Use one thread: for products of small matrices, threads would mostly wait for each other."""
    with pytest.importorskip("threadpoolctl").threadpool_limits(1):
        yield


@pytest.fixture(scope="module")
def made():
    return hyperscenes.make()


@pytest.fixture(scope="module")
def scene(made):
    return made.data


def same_up_to_sign(found, wanted, tolerance=1e-8):
    signs = np.sign((found * wanted).sum(axis=tuple(range(found.ndim - 1))))
    np.testing.assert_allclose(found * signs, wanted, atol=tolerance)


def as_set(positions):
    return set(map(tuple, np.asarray(positions).tolist()))


class TestBlocks:
    @pytest.mark.parametrize("shape", [(7, 5, 3), (1, 40, 9), (30, 1, 4), (3, 50, 6)])
    @pytest.mark.parametrize("nbytes", [1, 200, 2000, 10**6])
    def test_blocks_are_the_pixels_in_their_order(self, shape, nbytes):
        data = np.random.default_rng(0).random(shape)
        spectra = Spectra(data, block_bytes=nbytes)
        read = [spectra.read(block)[0].copy() for block in spectra.blocks]
        np.testing.assert_array_equal(np.concatenate(read), data.reshape(-1, shape[2]))
        firsts = np.cumsum([0, *map(len, read)])[:-1]
        assert [block.first for block in spectra.blocks] == firsts.tolist()

    def test_ranks_share_the_blocks(self, scene):
        class Rank:
            size = 3

            def __init__(self, rank):
                self.rank = rank

        parts = [Spectra(scene, comm=Rank(r), block_bytes=8000).share() for r in range(3)]
        assert [*itertools.chain(*parts)] == Spectra(scene, block_bytes=8000).blocks
        assert all(parts)

    @pytest.mark.parametrize("n", [1, 2, 3, 7, 8, 13])
    def test_what_is_merged_is_the_same_tree_on_any_number_of_ranks(self, n):
        # Brackets tell merges apart; ranks are threads with a stand-in for a communicator.
        def tree(size):
            gathered = [[] for _ in range(size)]

            class Comm:
                def __init__(self, rank, known=None):
                    self.rank, self.size, self.known = rank, size, known

                def allgather(self, value):
                    gathered[self.rank] = value
                    return self.known or [value]

            def fold(comm):
                spectra = Spectra(np.zeros((n, 1, 1)), comm=comm, block_bytes=1)
                return spectra.fold(lambda b: str(b.first), lambda x, y: f"({x} {y})")

            for rank in range(size):
                fold_rank = Comm(rank, [([], None)] * (size - 1) + [([(0, 0, "")], None)])
                fold(fold_rank)
            return fold(Comm(0, list(gathered)))

        trees = {tree(size) for size in (2, 3, 4)}
        spectra = Spectra(np.zeros((n, 1, 1)), block_bytes=1)
        trees.add(spectra.fold(lambda b: str(b.first), lambda x, y: f"({x} {y})"))
        assert len(trees) == 1

    @pytest.mark.parametrize(
        "call",
        [
            lambda a, e: hs.pct(a, 3, max_memory=LITTLE).scores,
            lambda a, e: hs.mnf(a, 3, max_memory=LITTLE).scores,
            lambda a, e: hs.ppi(a, 200, max_memory=LITTLE).counts,
            lambda a, e: hs.nfindr(a, 4, max_memory=LITTLE).endmembers,
            lambda a, e: hs.amee(a, 4, (3,), max_memory=LITTLE).scores,
            lambda a, e: hs.abundances(a, e, "nnls", max_memory=LITTLE),
            lambda a, e: hs.classify(a, e, max_memory=LITTLE),
        ],
    )
    def test_results_do_not_depend_on_the_threads(self, made, call):
        found = []
        for threads in (1, 2, 3):
            with xa.config.set(threads=threads):
                found.append(np.asarray(call(made.data, made.endmembers)))
        np.testing.assert_array_equal(found[1], found[0])
        np.testing.assert_array_equal(found[2], found[0])

    def test_as_many_threads_as_the_memory_is_enough_for(self, scene):
        with xa.config.set(threads=8):
            assert Spectra(scene, block_bytes=8000).threads == 8
            assert Spectra(scene, block_bytes=8000, max_memory=3 * 6 * 8000).threads == 3
            assert Spectra(scene, block_bytes=8000, max_memory=8000).threads == 2
            assert Spectra(scene, work_bytes=2**40).threads == 1

    def test_what_a_thread_raises_is_raised(self, scene):
        spectra = Spectra(scene, block_bytes=8 * 30)
        spectra.threads = 2
        begun = threading.Event()

        def work(block):
            if block.first:  # the other thread, which runs until it is told to stop
                begun.set()
                return 0
            begun.wait()
            raise ArithmeticError("as a test")

        with pytest.raises(ArithmeticError, match="as a test"):
            spectra.fold(work, lambda one, other: one + other)

    def test_blas_has_its_threads_again(self, scene):
        control = pytest.importorskip("threadpoolctl")

        def threads():
            known = control.threadpool_info()
            return {one["num_threads"] for one in known if one["user_api"] == "blas"}

        with control.threadpool_limits(2, user_api="blas"):
            found = Spectra(scene).fold(lambda block: threads(), lambda one, other: one | other)
            assert found == {1} and threads() == {2}

    @pytest.mark.parametrize("axis", [0, 1, 2, -1, -2])
    def test_band_axis(self, scene, axis):
        turned = np.moveaxis(scene, -1, axis)
        for a in (turned, xa.from_array(np.ascontiguousarray(turned), chunks=(9, 11, 13))):
            found = hs.pct(a, 3, band_axis=axis)
            np.testing.assert_array_equal(found.scores, hs.pct(scene, 3).scores)

    def test_integers_and_lists(self):
        data = np.random.default_rng(0).integers(-100, 9000, (12, 13, 7)).astype("i2")
        wanted = hs.pct(data.astype(float))
        np.testing.assert_array_equal(hs.pct(data).components, wanted.components)
        np.testing.assert_array_equal(hs.pct(data.tolist()).components, wanted.components)

    @pytest.mark.parametrize(
        ("a", "options", "error"),
        [
            (np.zeros((3, 4)), {}, ShapeError),
            (np.zeros((3, 0, 4)), {}, ShapeError),
            (np.zeros((3, 4, 5), complex), {}, ArgumentError),
            (np.zeros((3, 4, 5)), {"band_axis": 3}, AxisError),
            (np.full((3, 4, 5), np.nan), {}, ArgumentError),
            (np.zeros((3, 4, 5)), {"max_memory": "many"}, ArgumentError),
        ],
    )
    def test_what_is_no_scene(self, a, options, error):
        with pytest.raises(error):
            hs.pct(a, 1, **options)

    @pytest.mark.parametrize(
        ("call", "said"),
        [
            (lambda a, e: hs.pct(a, 2.5), "cannot compute 2.5 components"),
            (lambda a, e: hs.ppi(a, 10, p=0), "from 1 to"),
            (lambda a, e: hs.nfindr(a, 2.0), "from 2 to"),
            (lambda a, e: hs.nfindr(a[:1, :2], 4, init="random"), "from 2 to 2"),
            (lambda a, e: hs.vca(np.ones_like(a), 3), "span only 1 dimensions"),
            (lambda a, e: hs.vca(np.zeros_like(a), 3), "span only 1 dimensions"),
            (lambda a, e: hs.abundances(a, e * 1j), "real numbers"),
            (lambda a, e: hs.sam(a, "e"), "real numbers"),
            (lambda a, e: hs.match(e, e * 1j), "real numbers"),
            (lambda a, e: hs.classify(a, e, classes=[1, 2, 3.5, 4]), "integers"),
            (lambda a, e: hs.classify(a, e, classes=[1, 2, 3, 2**40]), "integers"),
        ],
    )
    def test_what_is_no_argument(self, made, call, said):
        with pytest.raises(ArgumentError, match=said):
            call(made.data, made.endmembers)

    def test_a_scene_of_zeros_has_no_signal(self):
        assert hs.hysime(np.zeros((4, 5, 3))) == 0

    def test_large_results_have_files_that_go_with_them(self, scene, tmp_path, monkeypatch):
        monkeypatch.setattr(hyperspectral_blocks.tempfile, "tempdir", str(tmp_path))
        scores = hs.pct(scene, 20, max_memory=LITTLE).scores
        assert isinstance(scores, xa.ExtArray) and len(list(tmp_path.iterdir())) == 1
        np.testing.assert_allclose(scores[...], hs.pct(scene, 20).scores, atol=1e-9)
        del scores
        if not replaces_open_files():  # the folder stays until the file is closed
            hyperspectral_blocks.remove_temporary()
        assert not list(tmp_path.iterdir())

    def test_files_that_the_system_keeps_go_later(self, tmp_path, monkeypatch):
        """Windows removes no file that is mapped."""
        folders = [tmp_path / "first", tmp_path / "second"]
        owners = [set(), set()]
        for number, folder in enumerate(folders):
            folder.mkdir()
            Spectra.remove_with(SimpleNamespace(rank=0), owners[number], folder / "image")
        with monkeypatch.context() as patch:
            patch.setattr(hyperspectral_blocks.shutil, "rmtree", lambda *args, **options: None)
            owners.pop(0)
        assert folders[0].exists()
        owners.pop(0)
        assert not any(folder.exists() for folder in folders)

    def test_results_at_a_path(self, scene, tmp_path):
        with hs.pct(scene, 3, path=tmp_path / "scores").scores as scores:
            assert isinstance(scores, xa.ExtArray)
        with xa.open(tmp_path / "scores") as scores:
            np.testing.assert_array_equal(scores, hs.pct(scene, 3).scores)


class TestComponents:
    def test_pct_is_that_of_spy(self, scene):
        found, theirs = hs.pct(scene, max_memory=LITTLE), spectral.principal_components(scene)
        np.testing.assert_allclose(found.mean, theirs.stats.mean)
        np.testing.assert_allclose(found.variances, theirs.eigenvalues, rtol=1e-6)
        same_up_to_sign(found.components.T[:, :4], theirs.eigenvectors[:, :4])

    def test_pct_is_that_of_scikit_learn(self, scene):
        found = hs.pct(scene, 3, max_memory=LITTLE)
        pca = decomposition.PCA(3)
        scores = pca.fit_transform(scene.reshape(-1, scene.shape[-1]))
        same_up_to_sign(found.scores.reshape(-1, 3), scores)
        np.testing.assert_allclose(found.variances, pca.explained_variance_)

    def test_mnf_is_that_of_spy(self, scene):
        found = hs.mnf(scene, 6, max_memory=LITTLE)
        theirs = spectral.mnf(spectral.calc_stats(scene), spectral.noise_from_diffs(scene))
        np.testing.assert_allclose(found.variances, theirs.napc.eigenvalues[:6])
        same_up_to_sign(found.scores, theirs.reduce(scene, num=6), 1e-6)

    def test_mnf_takes_noise_across_blocks_that_are_parts_of_rows(self, scene):
        found = hs.mnf(scene, 3, max_memory=16 * 8 * 30 * 7)
        np.testing.assert_allclose(found.variances, hs.mnf(scene, 3).variances)

    @pytest.mark.parametrize("shape", [(2, 2), (7, 5), (8, 5), (2, 9), (9, 3), (23, 9)])
    @pytest.mark.parametrize("rows", [1, 2, 3, 4, 20])
    def test_noise_is_that_of_all_diagonal_neighbours(self, shape, rows):
        data = np.random.default_rng(0).normal(5, 1, (*shape, 3))
        spectra = Spectra(data, block_bytes=rows * shape[1] * 3 * 8)
        wanted = (data[:-1, :-1] - data[1:, 1:]).reshape(-1, 3)
        found, noise = spectra.fold(lambda block: with_noise(spectra, block), merge_both)
        for moments, x in ((found, data.reshape(-1, 3)), (noise, wanted)):
            assert moments.count == len(x)
            np.testing.assert_allclose(moments.mean, x.mean(axis=0), atol=1e-14)
            deviations = x - x.mean(axis=0)
            np.testing.assert_allclose(moments.scatter, deviations.T @ deviations, atol=1e-12)

    @pytest.mark.parametrize("transform", [hs.pct, hs.mnf])
    def test_a_mean_far_from_zero_costs_no_digits(self, scene, transform):
        # The sum of squares less the square of the sum would lose all digits.
        found, shifted = (
            transform(scene, 4, max_memory=LITTLE),
            transform(scene + 1e6, 4, max_memory=LITTLE),
        )
        np.testing.assert_allclose(shifted.variances, found.variances, rtol=1e-6)

    def test_a_slope_costs_the_noise_no_digits(self, scene):
        # A slope moves all differences far from zero; their mean is no noise.
        rows, columns, _ = scene.shape
        slope = 1e5 * (np.arange(rows)[:, None, None] + np.arange(columns)[:, None])
        spectra = Spectra(scene + slope, max_memory=LITTLE)
        _, noise = spectra.fold(lambda block: with_noise(spectra, block), merge_both)
        differences = (scene[:-1, :-1] - scene[1:, 1:]).reshape(-1, scene.shape[2])
        np.testing.assert_allclose(noise.covariance, np.cov(differences.T), rtol=1e-5, atol=1e-9)
        np.testing.assert_allclose(noise.mean, differences.mean(axis=0) - 2e5)

    def test_moments_merge(self, scene):
        x = scene.reshape(-1, scene.shape[-1])
        parts = [
            Moments.of(x[part].copy()) for part in (slice(0), slice(7), slice(7, 7), slice(7, None))
        ]
        merged = parts[0].merge(parts[1]).merge(parts[2]).merge(parts[3])
        assert merged.count == len(x)
        np.testing.assert_allclose(merged.covariance, np.cov(x.T))
        np.testing.assert_allclose(merged.correlation, x.T @ x / len(x))

    @pytest.mark.parametrize("p", [3, 5, 8])
    def test_number_of_endmembers(self, p):
        data = hyperscenes.make(60, 60, 50, p, noise=1e-3, seed=p).data
        assert hs.hysime(data, max_memory=LITTLE) == p

    @pytest.mark.parametrize("far", [1e-5, 1e-3, 0.1])
    def test_hfc_by_its_definition(self, scene, far):
        stats = pytest.importorskip("scipy.stats")
        x = scene.reshape(-1, 30)
        r = np.sort(np.linalg.eigvals(x.T @ x / len(x)).real)
        k = np.sort(np.linalg.eigvals(np.cov(x.T, bias=True)).real)
        deviation = np.sqrt(2 / len(x) * (r**2 + k**2))
        wanted = (r - k > stats.norm.isf(far) * deviation).sum()
        assert hs.hfc(scene, far, max_memory=LITTLE) == wanted

    def test_hysime_by_its_definition(self):
        data = hyperscenes.make(30, 40, 12, 3, noise=0.02).data
        x = data.reshape(-1, 12)
        noise = np.empty_like(x)
        for band in range(12):
            others = np.delete(x, band, axis=1)
            noise[:, band] = x[:, band] - others @ np.linalg.lstsq(others, x[:, band])[0]
        rx = (x - noise).T @ (x - noise) / len(x)
        rn = np.diag((noise**2).mean(axis=0)) + np.trace(rx) / 12 * 1e-5 * np.eye(12)
        directions = np.linalg.eigh(rx)[1]
        cost = np.diag(directions.T @ (2 * rn - x.T @ x / len(x)) @ directions)
        assert hs.hysime(data) == (cost < 0).sum()

    @pytest.mark.parametrize("n", [0, 31])
    def test_impossible_numbers(self, scene, n):
        for function in (hs.pct, hs.mnf):
            with pytest.raises(ArgumentError, match="ask for 1 to 30"):
                function(scene, n)

    def test_no_noise(self, scene):
        flat = scene.copy()
        flat[:, :, 4] = 7
        assert hs.mnf(flat).components.shape == (29, 30)
        with pytest.raises(ArgumentError, match="29 dimensions"):
            hs.mnf(flat, 30)
        with pytest.raises(ArgumentError, match="two rows"):
            hs.mnf(scene[:1])

    @pytest.mark.parametrize("far", [0, 1, -1])
    def test_no_rate(self, scene, far):
        with pytest.raises(ArgumentError, match="between 0 and 1"):
            hs.hfc(scene, far)


FINDERS = [
    hs.atgp,
    hs.vca,
    hs.nfindr,
    lambda a, p, **o: hs.nfindr(a, p, init="vca", **o),
    lambda a, p, **o: hs.nfindr(a, p, init="random", **o),
    lambda a, p, **o: hs.ppi(a, 500, p=p, min_angle=0.05, **o),
]


class TestEndmembers:
    @pytest.mark.parametrize("find", FINDERS)
    @pytest.mark.parametrize("memory", [None, LITTLE])
    def test_pure_pixels_are_found(self, made, find, memory):
        found = find(made.data, 4, max_memory=memory)
        assert as_set(found.positions) == as_set(made.positions)
        np.testing.assert_array_equal(found.endmembers, made.data[tuple(found.positions.T)])
        assert hs.match(found.endmembers, made.endmembers).angles.max() < 0.01

    def test_ppi_counts_are_those_of_spy(self, scene):
        # SPy draws from NumPy's global generator.
        state = np.random.get_state()  # noqa: NPY002
        try:
            np.random.seed(5)  # noqa: NPY002
            skewers = np.array([np.random.rand(30) - 0.5 for _ in range(400)])  # noqa: NPY002
            np.random.seed(5)  # noqa: NPY002
            theirs = spectral.ppi(scene, 400)
        finally:
            np.random.set_state(state)  # noqa: NPY002
        found = hs.ppi(scene, skewers, max_memory=LITTLE)
        np.testing.assert_array_equal(found.counts, theirs)
        counts = found.counts[tuple(found.positions.T)]
        assert (np.diff(counts) <= 0).all() and len(counts) == (theirs > 0).sum()

    def test_atgp_by_its_definition(self, scene):
        x = scene.reshape(-1, 30)
        chosen = [int((x**2).sum(axis=1).argmax())]
        for _ in range(5):
            u = x[chosen].T
            left = x.T - u @ np.linalg.pinv(u) @ x.T
            chosen.append(int((left**2).sum(axis=0).argmax()))
        found = hs.atgp(scene, 6, max_memory=LITTLE)
        assert (found.positions @ [50, 1]).tolist() == chosen

    @pytest.mark.parametrize("seed", range(3))
    def test_no_single_pixel_enlarges_the_simplex(self, seed):
        data = hyperscenes.make(9, 10, 12, 5, noise=0.1, seed=seed).data
        found = hs.nfindr(data, 4, seed, init="random", max_memory=LITTLE)
        scores = hs.pct(data, 3).scores.reshape(-1, 3)
        pixels = found.positions @ [10, 1]

        def volume(chosen):
            return abs(np.linalg.det(np.hstack([np.ones((4, 1)), scores[chosen]]))) / 6

        assert volume(pixels) == pytest.approx(found.volume)
        for place, pixel in itertools.product(range(4), range(len(scores))):
            other = pixels.copy()
            other[place] = pixel
            assert volume(other) <= found.volume * (1 + 1e-6)

    def test_the_first_of_equal_pixels_is_taken(self, made):
        doubled = np.concatenate([made.data, made.data])
        for find in FINDERS[:4]:
            found = find(doubled, 4, max_memory=LITTLE)
            assert as_set(found.positions) == as_set(made.positions)

    def test_much_noise_and_little(self):
        # VCA chooses between two projections by the noise.
        for noise, worst in ((1e-6, 1e-4), (0.05, 0.15)):
            made = hyperscenes.make(noise=noise)
            found = hs.vca(made.data, 4, seed=3)
            assert hs.match(found.endmembers, made.endmembers).angles.max() < worst

    def test_amee_finds_what_differs_from_its_neighbourhood(self):
        made = hyperscenes.make(30, 40, 12, 2, noise=1e-4, smooth=True)
        data = made.abundances * [0.2, 0.8] @ made.endmembers
        spots = [(4, 7), (20, 33), (11, 0)]
        for k, spot in enumerate(spots):
            data[spot] = 5 * np.eye(12)[3 * k]
        found = hs.amee(data, 3, min_angle=0.3)
        assert as_set(found.positions) == as_set(spots)
        np.testing.assert_array_equal(found.endmembers, data[tuple(found.positions.T)])

    @pytest.mark.parametrize("memory", [LITTLE, 30_000])
    def test_amee_by_its_definition(self, memory):
        rng = np.random.default_rng(1)
        data = rng.random((13, 11, 4))
        unit = data / np.linalg.norm(data, axis=2, keepdims=True)

        def window(i, j, r):
            rows = range(max(0, i - r), min(13, i + r + 1))
            return list(itertools.product(rows, range(max(0, j - r), min(11, j + r + 1))))

        def angle(one, other):
            return float(np.arccos(np.clip(unit[one] @ unit[other], -1, 1)))

        wanted = np.zeros((13, 11))
        for r in (1, 3):
            mean = {
                here: np.mean([angle(here, q) for q in window(*here, r) if q != here])
                for here in np.ndindex(13, 11)
            }
            for centre in np.ndindex(13, 11):
                near = window(*centre, r)
                purest, mixed = max(near, key=mean.get), min(near, key=mean.get)
                wanted[purest] = max(wanted[purest], angle(purest, mixed))
        found = hs.amee(data, 5, (3, 7), max_memory=memory)
        np.testing.assert_allclose(found.scores, wanted, atol=1e-7)
        assert (found.positions @ [11, 1]).tolist() == np.argsort(-wanted.ravel())[:5].tolist()

    def test_impossible_arguments(self, scene):
        for call in (
            lambda: hs.atgp(scene, 0),
            lambda: hs.atgp(scene, 31),
            lambda: hs.atgp(np.ones((4, 4, 3)), 2),
            lambda: hs.nfindr(scene, 1),
            lambda: hs.nfindr(np.ones((4, 4, 3)), 3),
            lambda: hs.nfindr(np.ones((4, 4, 3)), 3, init="random"),
            lambda: hs.nfindr(scene, 3, init="best"),
            lambda: hs.ppi(scene, 0),
            lambda: hs.ppi(scene, np.ones((4, 7))),
            lambda: hs.ppi(scene, 10, p=500),
            lambda: hs.amee(scene, 3, (3, 4)),
            lambda: hs.amee(scene, 3, (5, 3)),
            lambda: hs.amee(scene, 3, ()),
            lambda: hs.amee(scene, 0),
            lambda: hs.amee(scene, 9, min_angle=3.0),
        ):
            with pytest.raises(ArgumentError):
                call()


def by_scipy(scene, endmembers):
    x = scene.reshape(-1, scene.shape[-1])
    rows = [optimize.nnls(endmembers.T, pixel)[0] for pixel in x]
    return np.array(rows).reshape(*scene.shape[:2], -1)


class TestAbundances:
    @pytest.mark.parametrize("p", [1, 2, 5, 9])
    @pytest.mark.parametrize("noise", [0.0, 1e-3, 0.5])
    def test_nnls_is_that_of_scipy(self, p, noise):
        made = hyperscenes.make(12, 13, 20, p, noise, seed=p)
        found = hs.abundances(made.data, made.endmembers, "nnls", max_memory=LITTLE)
        np.testing.assert_allclose(found, by_scipy(made.data, made.endmembers), atol=1e-9)

    def test_nnls_where_endmembers_are_almost_the_same(self):
        made = hyperscenes.make(12, 13, 20, 6, 0.01)
        alike = made.endmembers[0] + 1e-4 * (made.endmembers - made.endmembers[0])
        found = hs.abundances(made.data, alike, "nnls")
        np.testing.assert_allclose(found @ alike, by_scipy(made.data, alike) @ alike, atol=1e-8)

    @pytest.mark.parametrize("p", [1, 2, 4, 7])
    def test_fcls_is_that_of_a_general_solver(self, p):
        made = hyperscenes.make(4, 5, 15, p, 0.3, seed=p)
        found = hs.abundances(made.data, made.endmembers)
        assert found.min() >= 0
        np.testing.assert_allclose(found.sum(axis=2), 1, atol=1e-12)
        for pixel, mine in zip(made.data.reshape(-1, 15), found.reshape(-1, p), strict=True):
            theirs = optimize.minimize(
                lambda y, x=pixel: ((x - y @ made.endmembers) ** 2).sum(),
                np.full(p, 1 / p),
                jac=lambda y, x=pixel: 2 * (y @ made.endmembers - x) @ made.endmembers.T,
                bounds=[(0, 1)] * p,
                constraints={"type": "eq", "fun": lambda y: y.sum() - 1},
                method="SLSQP",
                options={"ftol": 1e-14, "maxiter": 500},
            )
            np.testing.assert_allclose(mine, theirs.x, atol=1e-5)

    @pytest.mark.parametrize("scale", [1e-6, 1.0, 1e5])
    def test_fcls_meets_the_conditions_of_the_best(self, scale):
        # No pure endmember lies farther along the residual than the fit (Karush, Kuhn, Tucker).
        made = hyperscenes.make(20, 20, 30, 8, 0.2)
        data, members = made.data * scale, made.endmembers * scale
        found = hs.abundances(data, members)
        fit = found @ members
        gain = (data - fit) @ members.T - ((data - fit) * fit).sum(axis=2)[..., None]
        assert gain.max() < 1e-9 * (members**2).max()
        assert found.min() >= 0 and abs(found.sum(axis=2) - 1).max() < 1e-12

    def test_fcls_takes_one_endmember_more_than_there_are_bands(self):
        members = np.array([[0.0, 0], [1, 0], [0, 1]])
        scene = np.array([[[0.2, 0.3], [-1, -1], [2, 2]]])
        found = hs.abundances(scene, members)
        np.testing.assert_allclose(
            found[0], [[0.5, 0.2, 0.3], [1, 0, 0], [0, 0.5, 0.5]], atol=1e-12
        )

    def test_known_abundances_come_back(self, made):
        exact = made.abundances @ made.endmembers
        for method in ("ucls", "scls", "nnls", "fcls"):
            found = hs.abundances(exact, made.endmembers, method, max_memory=LITTLE)
            np.testing.assert_allclose(found, made.abundances, atol=1e-9)

    @pytest.mark.parametrize("method", ["nnls", "fcls"])
    def test_a_block_does_not_depend_on_those_before(self, method):
        # Sets of endmembers met before take the same path as new ones.
        made = hyperscenes.make(40, 40, 20, 6, 0.3)
        fit = hyperspectral_unmixing.Fit.of(made.endmembers, method)
        x = made.data.reshape(-1, 20)
        for start in range(0, 1600, 200):
            part = x[start : start + 200]
            fresh = hyperspectral_unmixing.Fit.of(made.endmembers, method)
            np.testing.assert_array_equal(fit(part), fresh(part))

    def test_ucls_is_that_of_spy(self, made):
        found = hs.abundances(made.data, made.endmembers, "ucls")
        np.testing.assert_allclose(found, spectral.unmix(made.data, made.endmembers), atol=1e-9)

    def test_scls_by_its_definition(self, made):
        found = hs.abundances(made.data, made.endmembers, "scls")
        e, x = made.endmembers, made.data.reshape(-1, 30)
        system = np.block([[e @ e.T, np.ones((4, 1))], [np.ones((1, 4)), 0]])
        wanted = np.linalg.solve(system, np.vstack([e @ x.T, np.ones(len(x))]))[:4].T
        np.testing.assert_allclose(found.reshape(-1, 4), wanted, atol=1e-9)

    @pytest.mark.parametrize("method", ["nnls", "fcls"])
    def test_every_way_to_solve_gives_the_same(self, method, monkeypatch):
        made = hyperscenes.make(20, 20, 25, 7, 0.2)
        wanted = hs.abundances(made.data, made.endmembers, method)
        for name, value in (("_COMMON", 1), ("_COMMON", 10**6), ("_KEPT", 2), ("_PATIENCE", 0)):
            with monkeypatch.context() as patch:
                patch.setattr(hyperspectral_unmixing, name, value)
                found = hs.abundances(made.data, made.endmembers, method)
            np.testing.assert_allclose(found, wanted, atol=1e-9)

    def test_more_endmembers_than_bits_in_a_number(self):
        rng = np.random.default_rng(0)
        members = np.eye(70, 80) + 0.1 * rng.random((70, 80))
        scene = (rng.dirichlet(np.full(70, 0.1), (4, 5)) @ members)[:, :, :]
        found = hs.abundances(scene, members, "nnls")
        np.testing.assert_allclose(found, by_scipy(scene, members), atol=1e-9)

    def test_black_pixels(self, made):
        scene = made.data[:3, :3].copy()
        scene[1, 1] = 0
        assert (hs.abundances(scene, made.endmembers, "nnls")[1, 1] == 0).all()
        assert hs.abundances(scene, made.endmembers)[1, 1].sum() == pytest.approx(1)

    def test_impossible_arguments(self, scene, made):
        twice = np.vstack([made.endmembers, made.endmembers[0]])
        for endmembers, method in (
            (made.endmembers, "lasso"),
            (made.endmembers[:, :5], "fcls"),
            (made.endmembers[0], "fcls"),
            (np.full((2, 30), np.nan), "fcls"),
            *((twice, method) for method in ("ucls", "scls", "nnls", "fcls")),
        ):
            with pytest.raises(ArgumentError):
                hs.abundances(scene, endmembers, method)


class TestClasses:
    def test_angles_are_those_of_spy(self, made):
        found = hs.sam(made.data, made.endmembers, max_memory=LITTLE)
        theirs = spectral.spectral_angles(made.data, made.endmembers)
        np.testing.assert_allclose(found, theirs, atol=1e-7)

    def test_angle_of_nothing(self):
        assert hs.sam([[[0.0, 0]]], [[1, 2]])[0, 0, 0] == pytest.approx(np.pi / 2)

    def test_classes(self, made):
        angles = hs.sam(made.data, made.endmembers)
        np.testing.assert_array_equal(
            hs.classify(made.data, made.endmembers), angles.argmin(axis=2) + 1
        )
        named = hs.classify(made.data, made.endmembers, classes=[4, 9, 9, 1], threshold=0.1)
        wanted = np.array([4, 9, 9, 1])[angles.argmin(axis=2)]
        wanted[angles.min(axis=2) > 0.1] = 0
        np.testing.assert_array_equal(named, wanted)
        amounts = hs.abundances(made.data, made.endmembers)
        wanted = np.where(amounts.max(axis=2) < 0.5, 0, amounts.argmax(axis=2) + 1)
        found = hs.classify(made.data, made.endmembers, "fcls", threshold=0.5)
        np.testing.assert_array_equal(found, wanted)

    @pytest.mark.parametrize("classes", [[1, 2, 3], [0, 1, 2, 3]])
    def test_no_classes(self, made, classes):
        with pytest.raises(ArgumentError):
            hs.classify(made.data, made.endmembers, classes=classes)

    def test_accuracy_is_that_of_scikit_learn(self):
        metrics = pytest.importorskip("sklearn.metrics")
        rng = np.random.default_rng(0)
        truth = rng.choice([0, 2, 3, 7], (30, 20))
        labels = np.where(rng.random((30, 20)) < 0.6, truth, rng.integers(0, 9, (30, 20)))
        known = truth > 0
        for given in (labels, xa.from_array(labels, chunks=(7, 7))):
            found = hs.accuracy(given, truth.astype("u1"))
            assert found.overall == pytest.approx(
                metrics.accuracy_score(truth[known], labels[known])
            )
            assert found.kappa == pytest.approx(
                metrics.cohen_kappa_score(truth[known], labels[known])
            )
            recall = metrics.recall_score(
                truth[known], labels[known], labels=[2, 3, 7], average=None, zero_division=0
            )
            np.testing.assert_allclose(found.per_class, recall)
            assert found.classes.tolist() == [2, 3, 7]
            assert found.confusion.sum() == known.sum()

    def test_accuracy_of_sizes_alone(self):
        swapped = hs.accuracy([[1, 2, 2, 1]], [[2, 1, 1, 2]])
        assert (swapped.overall, swapped.histogram) == (0, 1)
        # Class 1 has one of four known pixels too many, class 2 two too few; 9 is no class.
        assert hs.accuracy([[1, 1, 9, 2, 5]], [[1, 2, 2, 2, 0]]).histogram == pytest.approx(0.25)

    def test_accuracy_of_nothing(self):
        with pytest.raises(ArgumentError, match="no labelled pixel"):
            hs.accuracy([[1, 2]], [[0, 0]])
        with pytest.raises(ShapeError):
            hs.accuracy([[1, 2]], [[1], [2]])
        with pytest.raises(ShapeError):
            hs.accuracy([[1.0, 2]], [[1, 2]])

    def test_pairs(self, made):
        shuffled = made.endmembers[[2, 0, 3, 1]] * 3
        found = hs.match(shuffled, made.endmembers)
        assert found.order.tolist() == [1, 3, 0, 2] and found.angles.max() < 1e-7
        with pytest.raises(ArgumentError, match="cannot pair"):
            hs.match(made.endmembers[:2], made.endmembers)


@pytest.mark.slow
class TestMemory:
    @pytest.mark.parametrize(
        "call",
        [
            lambda a, e, m: hs.pct(a, 5, max_memory=m),
            lambda a, e, m: hs.mnf(a, 5, max_memory=m),
            lambda a, e, m: hs.ppi(a, 1000, max_memory=m, p=5),
            lambda a, e, m: hs.nfindr(a, 5, max_memory=m),
            lambda a, e, m: hs.amee(a, 5, (3, 5), max_memory=m),
            lambda a, e, m: hs.abundances(a, e, "nnls", max_memory=m),
            lambda a, e, m: hs.abundances(a, e, "fcls", max_memory=m),
            lambda a, e, m: hs.classify(a, e, max_memory=m),
        ],
    )
    def test_scenes_larger_than_the_memory(self, call, tmp_path):
        made = hyperscenes.make(100, 150, 60, 5)  # 7 MB as float64
        with xa.from_array(made.data.astype("f4"), tmp_path / "scene", chunks=(32, 32, 60)) as a:
            call(a[:8, :8], made.endmembers, "3 MiB")  # warm up imports and caches
            tracemalloc.start()
            try:
                call(a, made.endmembers, "3 MiB")
                assert tracemalloc.get_traced_memory()[1] < 3 * 2**20
            finally:
                tracemalloc.stop()

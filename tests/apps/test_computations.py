"""Computations on growing arrays, compared with plain Python and published figures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain import VELOCITIES, cavity_step, lennard_jones

import extarray as xa
from extarray.apps import lattice_boltzmann
from extarray.apps.lattice_boltzmann import WEIGHTS, Cavity
from extarray.apps.lennard_jones import System, pair_forces
from extarray.apps.matrix_product import multiply

PROGRAM = Path(__file__).parent / "programs" / "computations.py"


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_ranks_compute_what_plain_numpy_does(mpirun, tmp_path, ranks):
    mpirun(ranks, PROGRAM, tmp_path)


# -- the product of matrices -----------------------------------------------------------------------


@pytest.mark.parametrize("max_memory", [2000, 2**28])
def test_a_product_follows_its_factors(path, max_memory):
    rng = np.random.default_rng(1)
    a, b = rng.random((40, 30)), rng.random((30, 50))
    left, right = xa.zeros((0, 0), chunks=(8, 4)), xa.zeros((0, 0), chunks=(4, 8))
    with xa.create(path, (0, 0), chunks=(8, 8)) as product, xa.config.set(max_memory=max_memory):
        for m, k, n in [(0, 0, 0), (10, 0, 5), (20, 11, 13), (20, 30, 13), (40, 30, 50)]:
            left.resize((m, k))
            right.resize((k, n))
            left[...], right[...] = a[:m, :k], b[:k, :n]
            multiply(product, left, right)
            np.testing.assert_allclose(product[...], a[:m, :k] @ b[:k, :n], rtol=1e-12)


def test_only_what_is_new_is_computed(path):
    left, right = xa.full((3, 4), 1.0), xa.full((4, 5), 2.0)
    with xa.create(path, (0, 0)) as product:
        multiply(product, left, right)
        product[0, 0] = 100  # blocks that were computed are not computed again
        left.extend(0, 2)
        multiply(product, left, right)
        assert product[0, 0] == 100 and (product[3:] == 8).all()
        left.extend(1, 1)
        right.extend(0, 1)
        multiply(product, left, right)
        assert product[0, 0] == 102 and (product[1:] == 10).all()
        left.shrink(1, 2)
        right.shrink(0, 2)
        multiply(product, left, right)
        assert (product[...] == 6).all()


def fails(*_, **__):
    raise KeyboardInterrupt


def test_a_product_that_was_not_finished_is_made_anew(path, monkeypatch):
    left, right = xa.full((3, 4), 1.0), xa.full((4, 5), 2.0)
    with xa.create(path, (0, 0)) as product:
        multiply(product, left, right)
        right.extend(1, 2)
        with monkeypatch.context() as context:
            context.setattr(np, "matmul", fails)
            with pytest.raises(KeyboardInterrupt):
                multiply(product, left, right)
        product[...] = -1
        multiply(product, left, right)
        assert (product[...] == 8).all()


CHANGES = {
    "an element": lambda a: a.__setitem__((2, 1), 7.0),
    "through the mapping": lambda a: a.chunk((0, 0)).__setitem__((0, 0), 7.0),
    "growth at the start": lambda a: a.extend(0, 1, side="start"),
    "growth at the start of the sum": lambda a: a.extend(1, 1, side="start"),
    "growth at both ends": lambda a: (a.extend(0, 1), a.extend(0, 2, side="start")),
    "it grew and changed": lambda a: (a.extend(0, 2), a.__setitem__((0, 3), 7.0)),
    "it was cut and grew again": lambda a: (a.shrink(0, 1), a.extend(0, 1)),
    "all is new": lambda a: a.fill(3.0),
    "nothing is left of the sum": lambda a: a.shrink(1, a.shape[1]),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("which", [0, 1])
def test_changed_factors_give_no_stale_blocks(tmp_path, change, which):
    rng = np.random.default_rng(1)
    factors = [
        xa.from_array(rng.random(shape), tmp_path / name, chunks=(3, 3))
        for name, shape in (("left", (5, 7)), ("right", (7, 6)))
    ]
    with factors[0] as left, factors[1] as right, xa.create(tmp_path / "p", (0, 0)) as product:
        multiply(product, left, right)
        # Change the right factor as the left one of the transposed product.
        change(factors[which] if which == 0 else Turned(right))
        other = factors[1 - which]
        terms = factors[which].shape[1 - which]
        other.resize((other.shape[0], terms) if which else (terms, other.shape[1]))
        for _ in range(2):
            multiply(product, left, right)
            np.testing.assert_allclose(product[...], left[...] @ right[...], rtol=1e-12)


class Turned:
    """The transpose of an array, as a matrix to change."""

    def __init__(self, array):
        self.array, self.fill = array, array.fill

    @property
    def shape(self):
        return self.array.shape[::-1]

    def __setitem__(self, key, value):
        self.array[key[::-1]] = value

    def chunk(self, index):
        return self.array.chunk(index[::-1]).T

    def extend(self, axis, by, **options):
        self.array.extend(1 - axis, by, **options)

    def shrink(self, axis, by):
        self.array.shrink(1 - axis, by)


def test_a_product_in_other_bounds_is_made_anew(path):
    left, right = xa.full((3, 4), 1.0), xa.full((4, 5), 2.0)
    with xa.create(path, (0, 0)) as product:
        multiply(product, left, right)
        for change in (
            lambda: product.extend(0, 2, side="start"),
            lambda: product.shrink(1, 1),
            lambda: (product.extend(1, 1, side="start"), product.shrink(1, 1)),
        ):
            change()
            multiply(product, left, right)
            assert product.shape == (3, 5) and (product[...] == 8).all()
        product.attrs["product of"] = [3, 4, 5]  # as earlier versions noted it, without digests
        left[...] = 2
        multiply(product, left, right)
        assert (product[...] == 16).all()


def test_a_product_stays_with_copies_of_its_factors(path):
    rng = np.random.default_rng(1)
    a, b = rng.random((1100, 700)), rng.random((700, 20))
    left, right = xa.from_array(a, chunks=(100, 70)), xa.from_array(b)
    with xa.create(path, (0, 0)) as product:
        multiply(product, left, right)
        product[0, 0] = -1
        larger = np.vstack([a, a[:50]])
        for again in (xa.from_array(a, chunks=(1000, 30)), xa.from_array(larger)):
            with xa.config.set(threads=1):
                multiply(product, again, right)
            assert product[0, 0] == -1
        np.testing.assert_allclose(product[1:], (larger @ b)[1:])


@st.composite
def histories(draw):
    """Draw the three extents, growth at their starts, and places that change."""
    step = st.tuples(
        st.tuples(*[st.integers(0, 6)] * 3),
        st.tuples(*[st.integers(0, 2)] * 3),
        st.lists(st.tuples(st.integers(0, 1), st.integers(0, 63)), max_size=2),
    )
    return draw(st.lists(step, min_size=1, max_size=5))


@pytest.mark.slow
@settings(max_examples=50)
@given(history=histories())
def test_whatever_happens_to_factors(history):
    rng = np.random.default_rng(0)
    left, right = xa.zeros((0, 0), chunks=(2, 3)), xa.zeros((0, 0), chunks=(3, 2))
    product = xa.zeros((0, 0), chunks=(2, 2))
    for (m, k, n), starts, places in history:
        before = left.shape, right.shape
        left.resize((m, k))
        right.resize((k, n))
        for array, shape in zip((left, right), before, strict=True):
            new = np.ones(array.shape, bool)
            new[: shape[0], : shape[1]] = False
            array[new] = rng.random(int(new.sum()))
        for array, by in ((left, starts[:2]), (right, starts[1:])):
            for axis in (0, 1):
                array.extend(axis, by[axis], side="start")
        for which, place in places:
            array = (left, right)[which]
            if array.size:
                array[np.unravel_index(place % array.size, array.shape)] += 1
        multiply(product, left, right)
        np.testing.assert_allclose(product[...], left[...] @ right[...], rtol=1e-12)


def test_a_product_is_none_of_its_factors():
    a = xa.ones((3, 3))
    for product, left, right in ((a, a, xa.ones((3, 3))), (a, xa.ones((3, 3)), a)):
        with pytest.raises(xa.ArgumentError, match="one of its factors"):
            multiply(product, left, right)
    square = xa.zeros((0, 0))
    multiply(square, a, a)
    assert (square[...] == 3).all()


def test_factors_must_fit():
    with pytest.raises(xa.ShapeError, match=r"\(2, 3\) and \(4, 5\) cannot be multiplied"):
        multiply(xa.zeros((0, 0)), xa.zeros((2, 3)), xa.zeros((4, 5)))


# -- Lennard-Jones ---------------------------------------------------------------------------------


def lattice(side, apart=1.1):
    return apart * np.stack(np.meshgrid(*[np.arange(float(side))] * 3), -1).reshape(-1, 3)


@pytest.mark.parametrize(("box", "cutoff"), [(None, np.inf), (None, 1.5), (4.0, 1.9)])
def test_forces_are_those_of_all_pairs(box, cutoff):
    positions = np.random.default_rng(2).random((25, 3)) * 4
    expected, energy = lennard_jones(positions, box, cutoff)
    forces, energies = pair_forces(positions, slice(0, 25), box, cutoff)
    np.testing.assert_allclose(forces, expected, rtol=1e-9, atol=1e-9)
    assert energies.sum() / 2 == pytest.approx(energy, rel=1e-9)
    some, _ = pair_forces(positions, slice(5, 9), box, cutoff)
    np.testing.assert_array_equal(some, forces[5:9])


def test_energy_and_momentum_stay_while_particles_join(path):
    rng = np.random.default_rng(3)
    places = lattice(3)
    with (
        xa.create(path, (0, 0, 3), chunks=(8, 8, 3)) as forces,
        xa.config.set(max_memory=50_000),  # memory for a few rows at a time
    ):
        system = System(forces)
        for some in (slice(0, 12), slice(12, 20), slice(20, 27)):
            size = places[some].shape
            system.add(places[some], rng.normal(0, 0.3, size))
            energy, momentum = system.energy, system.velocities.sum(0)
            system.run(40, 0.002)
            assert system.energy == pytest.approx(energy, abs=2e-4 * len(places))
            np.testing.assert_allclose(system.velocities.sum(0), momentum, atol=1e-10)
            expected, potential = lennard_jones(system.positions)
            np.testing.assert_allclose(forces[...], expected, rtol=1e-9, atol=1e-9)
            assert system.potential == pytest.approx(potential, rel=1e-9)
        assert forces.shape == (27, 27, 3)
        np.testing.assert_array_equal(forces[...], -forces[...].transpose(1, 0, 2))


@pytest.mark.parametrize("cutoff", [np.inf, 2.1])
def test_a_cutoff_beyond_half_the_box_is_refused(cutoff):
    positions = lattice(2)
    for call in (
        lambda: pair_forces(positions, box=4.0, cutoff=cutoff),
        lambda: System(xa.zeros((0, 0, 3)), 4.0, cutoff),
        lambda: System(xa.zeros((0, 0, 3)), box=4.0),
    ):
        with pytest.raises(xa.ArgumentError, match=r"two images .* a cutoff of at most 2\.0"):
            call()
    # On a line no nearest image lies farther than half the box: all pairs meet once.
    line = np.array([[0.1, 0.2], [1.4, 0.2], [2.9, 0.2]])
    expected, energy = lennard_jones(line, 4.0, 2.0)
    forces, energies = pair_forces(line, box=4.0, cutoff=2.0)
    np.testing.assert_allclose(forces, expected, rtol=1e-12, atol=1e-12)
    assert energies.sum() / 2 == pytest.approx(energy)


@pytest.mark.parametrize(("box", "cutoff"), [(0.0, 1.0), (-3.0, 1.0), (np.nan, 1.0), (None, 0.0)])
def test_no_cell_and_no_cutoff(box, cutoff):
    with pytest.raises(xa.ArgumentError, match="positive"):
        System(xa.zeros((0, 0, 3)), box, cutoff)


@pytest.mark.parametrize(
    ("box", "new", "said"),
    [
        (None, [[5.0, 0, 0], [1.1, 0, 0]], r"particles \d and \d are at the same place, \["),
        (None, [[9.0, 9, 9], [9.0, 9, 9]], "particles 8 and 9 are at the same place"),
        (8.0, [[0.0, 8, -16]], r"particles \d and \d are at the same place"),
        (None, [[5.0, np.nan, 0]], r"particle 8 is not finite: \[5.0, nan, 0.0\]"),
    ],
)
def test_particles_that_cannot_be_are_not_added(box, new, said):
    system = System(xa.zeros((0, 0, 3)), box, 2.0)
    system.add(lattice(2))
    before = system.forces[...]
    with xa.config.set(max_memory=1000), pytest.raises(xa.ArgumentError, match=said):
        system.add(new)
    with pytest.raises(xa.ArgumentError, match=said):
        pair_forces(np.vstack([lattice(2), new]), box=box, cutoff=2.0)
    for positions, velocities in (([1.0, 2, 3], 0), ([[1.0, 2]], 0), ([[7.0, 7, 7]], [1, 2])):
        with pytest.raises(xa.ShapeError):
            system.add(positions, velocities)
    with pytest.raises(xa.ArgumentError, match="velocities"):
        system.add([[7.0, 7, 7]], np.inf)
    assert system.positions.shape == (8, 3)
    np.testing.assert_array_equal(system.forces[...], before)
    system.add([[4.0, 4, 4]])
    assert system.forces.shape == (9, 9, 3)


def test_a_step_that_is_too_long_moves_nothing():
    system = System(xa.zeros((0, 0, 3)))
    system.add([[0, 0, 0], [0.9, 0, 0]], [[1.0, 0, 0], [0, 1, 0]])
    before = system.positions, system.velocities, system.potential, system.forces[...]
    with pytest.raises(xa.ArgumentError, match="not finite"):
        system.run(3, 1e308)
    after = system.positions, system.velocities, system.potential, system.forces[...]
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one, other)
    system.run(3, 0.001)


@pytest.mark.parametrize(("box", "cutoff"), [(None, None), (6.0, 2.5)])
def test_a_system_goes_on_with_its_matrix(path, box, cutoff):
    velocities = np.random.default_rng(3).normal(0, 0.3, (12, 3))
    whole = System(xa.zeros((0, 0, 3)), box, cutoff)
    whole.add(lattice(3)[:12], velocities)
    whole.run(5, 0.002)
    whole.add(lattice(3)[12:20])
    whole.run(10, 0.002)
    with xa.create(path, (0, 0, 3), chunks=(8, 8, 3)) as forces:
        system = System(forces, box, cutoff)
        system.add(lattice(3)[:12], velocities)
        system.run(5, 0.002)
    for cell in ((), (box, np.inf if cutoff is None else cutoff)):
        with xa.open(path, "r+") as forces:
            system = System(forces, *cell)
            assert (system.box, system.cutoff) == (whole.box, whole.cutoff)
            if len(system.positions) == 12:
                system.add(lattice(3)[12:20])
            assert system.energy == pytest.approx(whole.energy, abs=1e-3)
            system.run(5, 0.002)
    with xa.open(path, "r+") as forces:
        system = System(forces)
        for name in ("positions", "velocities", "potential"):
            np.testing.assert_array_equal(getattr(system, name), getattr(whole, name))
        np.testing.assert_array_equal(forces, whole.forces)
        with pytest.raises(xa.ArgumentError, match=r"has box=.*, not 7\.0; leave out box"):
            System(forces, box=7.0)
        with pytest.raises(xa.ArgumentError, match=r"has cutoff=.*, not 1\.5"):
            System(forces, cutoff=1.5)
        forces.extend(0, 1)
        forces.extend(1, 1)
        with pytest.raises(xa.ArgumentError, match="forces of 21 particles, .* positions of 20"):
            System(forces)
        # The caller supplies the missing positions.
        places = np.vstack([system.positions, [[9.0, 9, 9]]])
        system = System(forces, positions=places, velocities=0.1)
        expected, potential = lennard_jones(places, system.box, system.cutoff)
        np.testing.assert_allclose(forces, expected, rtol=1e-9, atol=1e-9)
        assert system.potential == pytest.approx(potential)
        assert (system.velocities == 0.1).all()
        np.testing.assert_array_equal(System(forces).positions, places)


def test_a_matrix_that_no_system_made_is_refused():
    with pytest.raises(xa.ArgumentError, match=r"forces of 2 particles.* shape \(0, 0, 3\)"):
        System(xa.zeros((2, 2, 3)))
    with pytest.raises(xa.ArgumentError, match=r"forces of 2 particles.* positions of 3"):
        System(xa.zeros((2, 2, 3)), positions=lattice(2)[:3])
    with pytest.raises(xa.ShapeError, match=r"\(number, 3\), not \(2, 2\)"):
        System(xa.zeros((2, 2, 3)), positions=[[1, 2], [3, 4]])
    for shape in ((0, 0), (2, 3, 3), (0, 0, 0)):
        with pytest.raises(xa.ShapeError, match=r"\(n, n, axes\)"):
            System(xa.zeros(shape))


# -- the cavity ------------------------------------------------------------------------------------


@pytest.mark.parametrize("max_memory", [5000, 2**28])
def test_a_cavity_that_grows_is_the_plain_one(max_memory):
    assert [(right, down) for down, right in lattice_boltzmann.STEPS.tolist()] == VELOCITIES
    cavity = Cavity(xa.zeros((9, 0, 0)), xa.zeros((9, 0, 0)), viscosity=0.05, lid=0.08)
    cavity.grow(4, 5)
    plain = np.zeros((9, 4, 5)) + WEIGHTS[:, None, None]
    with xa.config.set(max_memory=max_memory):
        for rows, columns in [(0, 0), (3, 0), (0, 4), (2, 1)]:
            cavity.grow(rows, columns)
            larger = np.zeros((9, *cavity.shape)) + WEIGHTS[:, None, None]
            larger[:, : plain.shape[1], : plain.shape[2]] = plain
            plain = larger
            cavity.run(4)
            for _ in range(4):
                plain = cavity_step(plain, 0.05, 0.08)
            np.testing.assert_allclose(cavity.now[...], plain, rtol=1e-12)
    density, _ = cavity.fields()
    assert density.sum() == pytest.approx(density.size)  # mass is conserved


#: U. Ghia, K. N. Ghia, C. T. Shin, "High-Re solutions for incompressible flow using the
#: Navier-Stokes equations and a multigrid method", Journal of Computational Physics 48 (1982)
#: 387-411, Table I, Re = 100: height, and speed along the lid on the vertical centre line.
GHIA_U = [
    (0.0547, -0.03717),
    (0.0625, -0.04192),
    (0.0703, -0.04775),
    (0.1016, -0.06434),
    (0.1719, -0.10150),
    (0.2813, -0.15662),
    (0.4531, -0.21090),
    (0.5000, -0.20581),
    (0.6172, -0.13641),
    (0.7344, 0.00332),
    (0.8516, 0.23151),
    (0.9531, 0.68717),
    (0.9609, 0.73722),
    (0.9688, 0.78871),
    (0.9766, 0.84123),
]
#: Table II: the same for the upward speed on the horizontal centre line.
GHIA_V = [
    (0.0625, 0.09233),
    (0.0703, 0.10091),
    (0.0781, 0.10890),
    (0.0938, 0.12317),
    (0.1563, 0.16077),
    (0.2266, 0.17507),
    (0.2344, 0.17527),
    (0.5000, 0.05454),
    (0.8047, -0.24533),
    (0.8594, -0.22445),
    (0.9063, -0.16914),
    (0.9453, -0.10313),
    (0.9531, -0.08864),
    (0.9609, -0.07391),
    (0.9688, -0.05906),
]


@pytest.mark.slow
def test_the_cavity_has_the_published_profile(path):
    nodes, lid = 40, 0.1
    viscosity = lid * nodes / 100
    now, after = (xa.zeros((9, 0, 0), chunks=(9, 16, 16)) for _ in range(2))
    cavity = Cavity(now, after, viscosity, lid)
    cavity.grow(24, 24)
    cavity.run(200)  # a smaller cavity first; then its walls move outwards
    cavity.grow(8, 0)
    cavity.run(100)
    cavity.grow(nodes - 32, nodes - 24)
    cavity.run(8000)
    _, (down, right) = cavity.fields()
    places = (np.arange(nodes) + 0.5) / nodes
    middle = slice(nodes // 2 - 1, nodes // 2 + 1)
    u = np.interp([y for y, _ in GHIA_U], places, right[::-1, middle].mean(1) / lid)
    v = np.interp([x for x, _ in GHIA_V], places, -down[middle].mean(0) / lid)
    np.testing.assert_allclose(u, [u for _, u in GHIA_U], atol=0.01)
    np.testing.assert_allclose(v, [v for _, v in GHIA_V], atol=0.01)

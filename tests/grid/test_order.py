"""Orders of the elements in a chunk: NumPy for C and F, scalar arithmetic for Z and H."""

import doctest
import math
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extarray import errors
from extarray.common.choices import ORDERS
from extarray.grid import order

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "explanation" / "orders.md"
CURVES = ("Z", "H")

small_chunks = st.lists(st.integers(1, 9), max_size=4).map(tuple)
# Up to 32 axes, most of extent 1, and few enough elements for a scalar check.
many_axes = st.lists(st.sampled_from([1, 1, 1, 2, 2, 3, 5]), max_size=32).map(tuple)
chunk_shapes = st.one_of(small_chunks, many_axes).filter(lambda c: math.prod(c) <= 4096)


@st.composite
def points_and_bits(draw, max_ndim=32, max_bits=63):
    ndim = draw(st.integers(1, max_ndim))
    bits = draw(st.integers(1, max_bits))
    coordinate = st.integers(0, (1 << bits) - 1)
    points = draw(st.lists(st.tuples(*[coordinate] * ndim), min_size=1, max_size=8))
    return points, bits


def as_ints(keys):
    """Return the rows of (n, words) keys as Python ints."""
    assert keys.dtype == np.uint64
    return [sum(int(word) << 64 * i for i, word in enumerate(row[::-1])) for row in keys]


def keys_of(key, points, bits):
    """Return the (n, words) keys of (n, k) points."""
    return key(np.asarray(points, np.uint64).T, bits).T


def interleave(point, bits):
    """Return the Morton key through text: columns of the coordinates' binary numerals."""
    numerals = [format(coordinate, f"0{bits}b") for coordinate in point]
    return int("".join("".join(column) for column in zip(*numerals, strict=True)), 2)


def butz_point(key, ndim, bits):
    """Return the point of a key, with the letters and direction (key to point) of Butz 1971.

    Bytes are lists of ndim bits; principal positions count from 1 at the left.
    """

    def turn_right(byte, by):
        by %= ndim
        return byte[ndim - by :] + byte[: ndim - by]

    numeral = [key >> place & 1 for place in reversed(range(ndim * bits))]
    omega = [0] * ndim
    shift = 0
    alphas = []
    for level in range(bits):
        rho = numeral[level * ndim : (level + 1) * ndim]
        differing = [i + 1 for i, bit in enumerate(rho) if bit != rho[-1]]
        principal = differing[-1] if differing else ndim
        sigma = [rho[0]] + [rho[i] ^ rho[i - 1] for i in range(1, ndim)]
        tau = sigma[:-1] + [1 - sigma[-1]]
        if sum(tau) % 2:
            tau[principal - 1] ^= 1
        alphas.append([a ^ b for a, b in zip(omega, turn_right(sigma, shift), strict=True)])
        omega = [a ^ b for a, b in zip(omega, turn_right(tau, shift), strict=True)]
        shift += principal - 1
    return tuple(int("".join(map(str, bits_)), 2) for bits_ in zip(*alphas, strict=True))


def indices(shape):
    """Return all indices of a shape in C order, (n, k)."""
    return np.indices(shape).reshape(len(shape), math.prod(shape)).T


@pytest.fixture(scope="module")
def page():
    """The names that the Python block of the page on orders defines."""
    (block,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.S | re.M)
    names = {}
    exec(block, names)
    return names


# positions


@given(chunk_shapes, st.sampled_from(ORDERS))
def test_positions_are_a_bijection(chunks, name):
    positions = order.positions(chunks, name)
    assert positions.dtype == np.int64
    assert positions.flags.c_contiguous and positions.flags.writeable
    np.testing.assert_array_equal(np.sort(positions), np.arange(math.prod(chunks)))
    assert positions[0] == 0


@given(chunk_shapes)
def test_c_and_f_are_numpys(chunks):
    elements = np.arange(math.prod(chunks)).reshape(chunks)
    for name in ("C", "F"):
        stored = np.empty(elements.size, dtype=int)
        stored[order.positions(chunks, name)] = elements.ravel()
        np.testing.assert_array_equal(stored, elements.ravel(order=name))


@pytest.mark.parametrize("name", CURVES)
@given(chunks=small_chunks.filter(lambda c: math.prod(c) <= 600))
def test_positions_rank_the_keys_of_the_enclosing_cube(name, chunks):
    key = {"Z": order.morton_key, "H": order.hilbert_key}[name]
    points = indices(tuple(extent for extent in chunks if extent > 1))
    keys = as_ints(keys_of(key, points, (max(chunks, default=1) - 1).bit_length()))
    rank = {k: i for i, k in enumerate(sorted(keys))}
    assert order.positions(chunks, name).tolist() == [rank[k] for k in keys]


@given(chunk_shapes, st.data())
def test_axes_of_extent_one_do_not_count(chunks, data):
    longer = list(chunks)[:31]
    longer.insert(data.draw(st.integers(0, len(longer))), 1)
    for name in ORDERS:
        np.testing.assert_array_equal(
            order.positions(longer, name), order.positions(chunks[:31], name)
        )


@pytest.mark.parametrize("name", ORDERS)
@pytest.mark.parametrize("chunks", [(), (1,), (7,), (1, 6), (1,) * 32, (1,) * 31 + (5,)])
def test_at_most_one_longer_axis_is_c_order(chunks, name):
    np.testing.assert_array_equal(order.positions(chunks, name), np.arange(math.prod(chunks)))


@pytest.mark.parametrize("name", CURVES)
@pytest.mark.parametrize("bits, ndim", [(3, 2), (2, 3), (1, 5)])
def test_positions_of_a_whole_cube_are_its_keys(name, bits, ndim):
    key = {"Z": order.morton_key, "H": order.hilbert_key}[name]
    cube = (1 << bits,) * ndim
    keys = keys_of(key, indices(cube), bits)
    np.testing.assert_array_equal(order.positions(cube, name), keys[:, 0])


@pytest.mark.slow
@pytest.mark.parametrize("name", CURVES)
@pytest.mark.parametrize(
    "chunks",
    [
        (1, 2) * 10,
        (1,) * 20 + (2,) * 12,  # rank 32
        (2,) * 9 + (256,),  # keys of 80 bits
        (130, 2, 2, 2, 2, 2, 2, 2, 1),  # keys of 64 bits
        (150, 150),  # several blocks of points
    ],
    ids=str,
)
def test_chunks_with_many_axes_long_keys_and_many_blocks(page, name, chunks):
    positions = order.positions(chunks, name)
    curve = page["morton" if name == "Z" else "hilbert"]
    assert positions.tolist() == page["positions"](chunks, curve)


def test_chunks_may_be_any_integers():
    expected = order.positions((3, 5), "H")
    np.testing.assert_array_equal(order.positions(np.array([3, 5]), "H"), expected)
    np.testing.assert_array_equal(order.positions([np.int8(3), 5], "H"), expected)


# curves


@pytest.mark.parametrize(
    "ndim, bits", [(1, 1), (1, 6), (2, 1), (2, 2), (2, 5), (3, 1), (3, 2), (3, 3), (4, 1), (4, 3)]
)
def test_hilbert_neighbours_differ_by_one_step_in_one_axis(ndim, bits):
    cube = (1 << bits,) * ndim
    path = indices(cube)[np.argsort(order.positions(cube, "H"))]
    assert not path[0].any()
    np.testing.assert_array_equal(np.abs(np.diff(path, axis=0)).sum(axis=1), 1)


@pytest.mark.parametrize("name", CURVES)
@pytest.mark.parametrize("ndim, bits", [(2, 3), (3, 3), (4, 2)])
def test_curves_finish_each_cell_before_the_next(name, ndim, bits):
    cube = (1 << bits,) * ndim
    path = indices(cube)[np.argsort(order.positions(cube, name))]
    for level in range(bits):
        cells = (path >> level).reshape(-1, 1 << level * ndim, ndim)
        assert (cells == cells[:, :1]).all()


@given(points_and_bits())
def test_morton_keys_interleave_the_bits(case):
    points, bits = case
    keys = keys_of(order.morton_key, points, bits)
    assert as_ints(keys) == [interleave(point, bits) for point in points]
    assert keys.shape[1] == max(1, math.ceil(len(points[0]) * bits / 64))


@given(points_and_bits())
def test_hilbert_keys_invert_butz(case):
    points, bits = case
    keys = keys_of(order.hilbert_key, points, bits)
    assert [butz_point(key, len(points[0]), bits) for key in as_ints(keys)] == points
    assert keys.shape[1] == max(1, math.ceil(len(points[0]) * bits / 64))


@pytest.mark.parametrize("ndim", [2, 31, 32])
def test_hilbert_keys_at_the_corners(ndim):
    corners = [(0,) * ndim, (1,) * ndim, (0,) * (ndim - 1) + (1,), (1,) + (0,) * (ndim - 1)]
    keys = as_ints(keys_of(order.hilbert_key, corners, 1))
    assert keys[0] == 0 and keys[2] == 1 and keys[3] == (1 << ndim) - 1
    assert [butz_point(key, ndim, 1) for key in keys] == corners


def test_the_thesiss_hilbert_example():
    """Nimako 2014, section 5.4.1: third order, two axes, the point (5, 3)."""
    assert as_ints(keys_of(order.hilbert_key, [(5, 3)], 3)) == [0b110100]
    assert order.positions((8, 8), "H").reshape(8, 8)[5, 3] == 52


@pytest.mark.parametrize("key", [order.morton_key, order.hilbert_key])
@pytest.mark.parametrize(
    "points, bits, shape",
    [
        (np.zeros((0, 3), dtype=int), 4, (0, 1)),
        (np.zeros((5, 0), dtype=int), 4, (5, 1)),
        (np.zeros((5, 3), dtype=int), 0, (5, 1)),
        (np.zeros((2, 32), dtype=np.uint8), 2, (2, 1)),
        (np.zeros((2, 32), dtype=np.uint8), 3, (2, 2)),
    ],
    ids=["no points", "no axes", "no bits", "64 bits", "96 bits"],
)
def test_keys_at_the_edges(key, points, bits, shape):
    keys = keys_of(key, points, bits)
    assert keys.shape == shape and keys.dtype == np.uint64 and not keys.any()


# the page on orders


@given(chunk_shapes.filter(lambda c: math.prod(c) <= 500))
def test_the_pages_algorithm_is_the_one_used(page, chunks):
    for name, curve in (("Z", page["morton"]), ("H", page["hilbert"])):
        assert order.positions(chunks, name).tolist() == page["positions"](chunks, curve)


def test_the_pages_worked_example():
    (text,) = re.findall(r"^```text\n(.*?)^```", PAGE.read_text("utf-8"), re.S | re.M)
    rows = np.array(re.sub(r'"[ZH]"', "", text).split(), dtype=int).reshape(2, 3, 10)
    for name, key, table in zip(CURVES, (order.morton_key, order.hilbert_key), rows, strict=True):
        np.testing.assert_array_equal(keys_of(key, indices((3, 5)), 3)[:, 0], table[:, :5].ravel())
        np.testing.assert_array_equal(order.positions((3, 5), name), table[:, 5:].ravel())


def test_the_pages_steps(page):
    """In the table of steps for the point (5, 3), the digits w are those of the key."""
    (table,) = re.findall(r"^\| b \|.*?\n\n", PAGE.read_text("utf-8"), re.S | re.M)
    written = "".join(re.findall(r"\*\*(\d+)\*\*", table))
    assert int(written, 2) == page["hilbert"]((5, 3), 3)
    digits = [row.split("|")[2].strip() for row in table.strip().splitlines()[2:]]
    assert [int(digit, 2) for digit in digits] == list(page["digits"]((5, 3), 3))


@pytest.mark.thread_unsafe(reason="doctest takes the process's standard output")
def test_docstrings():
    failed, attempted = doctest.testmod(order)
    assert attempted and not failed


# errors


@pytest.mark.parametrize("name", ["", "c", "K", "A", "CF", "hilbert", "Ζ"])
def test_unknown_orders(name):
    with pytest.raises(errors.ArgumentError, match="unknown order .*'C', 'F', 'Z', 'H'") as caught:
        order.positions((2, 2), name)
    assert repr(name) in str(caught.value)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("name", [None, 0, b"C", ["C"]], ids=repr)
def test_orders_that_are_no_text(name):
    with pytest.raises(errors.ArgumentTypeError, match="order must be a str") as caught:
        order.check_order(name)
    assert isinstance(caught.value, TypeError)


def test_check_order_returns_the_order():
    assert [order.check_order(name) for name in ORDERS] == ["C", "F", "Z", "H"]


@pytest.mark.parametrize(
    "chunks, message",
    [((2, 0), r"chunks=\(2, 0\).*at least 1"), ((-1,), "at least 1"), ((1,) * 33, "33 extents")],
)
def test_bad_chunks(chunks, message):
    for name in ORDERS:
        with pytest.raises(errors.ChunksError, match=message):
            order.positions(chunks, name)


def test_every_order_has_axes_or_a_key():
    assert (*order._AXES, *order._KEYS) == ORDERS


def test_types_and_the_specification_name_the_orders_that_there_are():
    page = (ROOT / "docs" / "format" / "reading.md").read_text(encoding="utf-8")
    row = re.search(r"order of the elements in a chunk: ASCII (.*) \|", page)
    assert re.findall(r"`(\w)`", row[1]) == list(ORDERS)
    for path in (ROOT / "extarray").rglob("*.py*"):
        if path.suffix in {".py", ".pyi", ".pyx"}:
            for literal in re.findall(r"Literal\[([^]]*\"Z\"[^]]*)\]", path.read_text("utf-8")):
                assert re.findall(r"\w", literal) == list(ORDERS), path


#: Code that may compare letters, as the letter does not locate elements there.
ASKS = {
    "_core/_array.pyx": {'order not in ("C", "F")', 'order == "F"'},  # a result, in memory
    "array/lazy.py": {'order == "C"'},  # a result, in memory
    "format/images.py": {'"Z":'},  # zetta, a prefix of units
    "grid/html.py": {'facts["order"] == "C"'},  # the order that is not shown
    "interop/described.py": {'array.order not in ("C", "F")', 'array.order == "F"'},  # Zarr's own
    "streaming/elementwise.py": {'order == "F"'},  # a result, in memory
    "view/planes.py": {'self._order == "C"'},  # an estimate of time
}
_IS = r"(?:==|!=|\bis\b|\bnot in\b|\bin\b)"
_LETTERS = r"""(?:[(\[{](?:['"][CFZH]+['"],? ?)+[)\]}]|['"][CFZH]+['"])"""
_OF_AN_ORDER = rf"""[\w.()]*(?:\[['"])?order\w*(?:['"]\])? {_IS} {_LETTERS}"""
_OF_CURVES = (
    rf"""\S+ {_IS} [(\[{{]?['"](?:CF|FC|\w?[ZH]\w?)['"]|\bcase ['"][CFZH]['"]|['"][ZH]['"]:"""
)


def questions(text):
    """Find comparisons of an order with letters, and of anything with letters of table orders."""
    return set(re.findall(_OF_AN_ORDER, text)) | set(re.findall(_OF_CURVES, text))


@pytest.mark.parametrize(
    "line",
    [
        'if order not in "ZH":',
        'key = morton_key if order == "Z" else hilbert_key',
        'j = i if order == "F" else ndim - 1 - i',
        'if array.header.order in ("C", "F"):',
        'if header["order"] != "C":',
        'if letter in "CF":',
        'case "Z":',
        'return {"Z": 1, "H": 2}[letter]',
    ],
)
def test_questions_for_a_letter_are_seen(line):
    assert questions(line)


@pytest.mark.slow
def test_nothing_else_asks_for_a_letter():
    root = ROOT / "extarray"
    found = {
        path.relative_to(root).as_posix(): asked
        for path in root.rglob("*.py*")
        if path.suffix in {".py", ".pyx"}
        and path.parent.name != "formats"  # files of other formats have orders of their own
        and (asked := questions(path.read_text("utf-8")))
    }
    assert found.pop("grid/order.py") == {'"Z":', '"H":'}
    assert found == ASKS

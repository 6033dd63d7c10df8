"""Byte and bit shuffle, against NumPy and the filters of HDF5."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extarray.codecs._filters import (
    bit_shuffle,
    bit_unshuffle,
    is_constant,
    repeat,
    shuffle,
    unshuffle,
)

SIZES = [1, 2, 3, 4, 5, 8, 12, 16, 17, 24, 40]
#: Around the elements that a vector, a tile of bits, and several of them hold.
NUMBERS = [0, 1, 7, 8, 9, 15, 16, 17, 31, 127, 128, 129, 264, 1000]


def planes(elements):
    """Bytes of equal weight side by side."""
    return elements.T.ravel()


def bit_planes(elements):
    """Bits of equal weight side by side; the last n % 8 elements stay."""
    n, size = elements.shape
    whole = n // 8 * 8
    bits = np.unpackbits(elements[:whole, :, None], axis=2, bitorder="little")
    rows = bits.transpose(1, 2, 0).reshape(size * 8, whole)
    packed = np.packbits(rows, axis=1, bitorder="little")
    return np.concatenate([packed.ravel(), elements[whole:].ravel()])


@pytest.mark.parametrize(
    "forward, backward, oracle",
    [(shuffle, unshuffle, planes), (bit_shuffle, bit_unshuffle, bit_planes)],
    ids=["bytes", "bits"],
)
@pytest.mark.parametrize("size", SIZES)
def test_filters_against_numpy(forward, backward, oracle, size):
    rng = np.random.default_rng(size)
    for n in NUMBERS:
        elements = rng.integers(0, 256, (n, size), np.uint8)
        out, back = np.empty(n * size, np.uint8), np.empty(n * size, np.uint8)
        forward(out, elements.ravel(), size)
        np.testing.assert_array_equal(out, oracle(elements))
        backward(back, out, size)
        np.testing.assert_array_equal(back, elements.ravel())


@given(st.binary(max_size=700), st.integers(1, 9))
def test_any_bytes_come_back(data, size):
    data = data[: len(data) // size * size]
    for forward, backward in ((shuffle, unshuffle), (bit_shuffle, bit_unshuffle)):
        out, back = bytearray(len(data)), bytearray(len(data))
        forward(out, data, size)
        backward(back, out, size)
        assert back == data


@pytest.mark.parametrize("dtype", ["i2", "f4", "f8", "c16", "S3"])
def test_shuffle_is_that_of_hdf5(tmp_path, dtype):
    h5py = pytest.importorskip("h5py")
    x = np.frombuffer(np.random.default_rng(0).bytes(np.dtype(dtype).itemsize * 100), dtype)
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file.create_dataset("x", data=x, chunks=(100,), shuffle=True)
    with h5py.File(tmp_path / "f.h5") as file:
        _, stored = file["x"].id.read_direct_chunk((0,))
    out = bytearray(x.nbytes)
    shuffle(out, x.view(np.uint8), x.itemsize)
    assert bytes(out) == stored


@pytest.mark.parametrize("function", [shuffle, unshuffle, bit_shuffle, bit_unshuffle])
def test_bytes_that_are_no_elements_are_refused(function):
    with pytest.raises(ValueError, match="no elements of 3 bytes"):
        function(bytearray(8), bytes(8), 3)
    with pytest.raises(ValueError, match="no elements of 0 bytes"):
        function(bytearray(8), bytes(8), 0)
    with pytest.raises(ValueError, match="out has 7 bytes in place of 8"):
        function(bytearray(7), bytes(8), 1)
    with pytest.raises((BufferError, ValueError, TypeError)):
        function(bytes(8), bytes(8), 1)  # cannot be written to


@pytest.mark.parametrize("size", [1, 3, 8, 40])
@pytest.mark.parametrize("n", [1, 2, 5, 100])
def test_one_element_over_and_over(size, n):
    element = np.random.default_rng(size).bytes(size)
    out = bytearray(n * size)
    repeat(out, element)
    assert bytes(out) == element * n
    assert is_constant(out, size)
    out[-1] ^= 1
    assert is_constant(out, size) == (n == 1)
    repeat(bytearray(), element)
    assert is_constant(b"", size)


def test_elements_that_do_not_fill_a_buffer_are_refused():
    with pytest.raises(ValueError, match="no elements of 3 bytes"):
        repeat(bytearray(8), b"abc")
    with pytest.raises(ValueError, match="no elements of 0 bytes"):
        repeat(bytearray(8), b"")
    with pytest.raises(ValueError, match="no elements of 3 bytes"):
        is_constant(bytes(8), 3)

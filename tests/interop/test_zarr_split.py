"""Recordings whose frames are several axes, as Zarr sees them."""

from __future__ import annotations

import numpy as np
import pytest

import extarray as xa

zarr = pytest.importorskip("zarr")

SPLIT = {"frame": {"t": -1, "c": 3, "z": 5}}


def frames(n):
    return np.arange(1, n * 24 + 1, dtype="u2").reshape(n, 4, 6)


def padded(x, fill=7):
    late = -len(x) % 15
    whole = np.concatenate([x, np.full((late, *x.shape[1:]), fill, x.dtype)])
    return whole.reshape(-1, 3, 5, *x.shape[1:])


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(
    ("chunks", "compression"), [((1, 3, 4), None), ((4, 3, 4), None), ((1, 3, 4), "zstd")]
)
def test_zarr_reads_the_dimensions_of_a_recording(path, order, chunks, compression):
    with xa.create(
        path,
        (0, 4, 6),
        "u2",
        chunks=chunks,
        fill_value=7,
        order=order,
        dims=("frame", "y", "x"),
        split=SPLIT,
        compression=compression,
    ) as a:
        a.append(frames(40))
        if compression:
            a.freeze()
        for encoded in (False, True):
            store = a.as_zarr_store(encoded=encoded)
            z = zarr.open_array(store, mode="r")
            assert z.shape == (3, 3, 5, 4, 6)
            assert z.chunks == (1, 1, 1, 3, 4)
            assert z.metadata.dimension_names == ("t", "c", "z", "y", "x")
            assert "split" not in z.attrs
            np.testing.assert_array_equal(z[...], padded(frames(40)))
            np.testing.assert_array_equal(z[2, :, 1], padded(frames(40))[2, :, 1])
            assert store.get_sync("c/2/2/0/0/0") is None
            assert store.get_sync("c/0/3/0/0/0") is None
            assert store == a.as_zarr_store(encoded=encoded)
        a.append(frames(20))
        z = zarr.open_array(store, mode="r")  # its metadata follow
        np.testing.assert_array_equal(z[...], padded(np.concatenate([frames(40), frames(20)])))
        a.append(frames(1), side="start")
        with pytest.raises(xa.errors.ArgumentError, match="call as_zarr_store again"):
            zarr.open_array(store, mode="r")


def test_a_split_whose_keys_would_change_is_not_shown():
    a = xa.create(
        None, (40, 4, 6), "u2", dims=("frame", "y", "x"), split={"frame": {"c": 3, "t": -1}}
    )
    assert zarr.open_array(a.as_zarr_store(), mode="r").shape == (40, 4, 6)

"""Arrays in place as images of OME-Zarr, while they grow."""

from __future__ import annotations

import http.client
import importlib.util
import pickle
import signal
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
import warnings

import numpy as np
import pytest
from systems import needs_signals

import extarray as xa

zarr = pytest.importorskip("zarr", minversion="3.1")

SPLIT = {"frame": {"t": -1, "c": 2, "z": 3}}
COORDS = {
    "y": {"dims": ["y"], "data": np.arange(8) * 0.5, "attrs": {"units": "µm"}},
    "x": {"dims": ["x"], "data": 1 + np.arange(12) * 0.5, "attrs": {"units": "µm"}},
    "c": {"dims": ["c"], "data": ["DAPI", "GFP"]},
}


def frames(n, first=0):
    return np.random.default_rng(first).integers(1, 4000, (n, 8, 12)).astype("u2")


def recording(path, **options):
    return xa.create(
        path,
        (0, 8, 12),
        "u2",
        chunks=(1, 8, 12),
        dims=("frame", "y", "x"),
        split=SPLIT,
        attrs={"coords": COORDS, "lens": "63x"},
        **options,
    )


def image_in(store):
    """Open a store, and let ome-zarr-models check it, if that is there."""
    group = zarr.open_group(store, mode="r")
    try:
        from ome_zarr_models.v05 import Image
    except ImportError:
        return group
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Image.from_zarr(group)
    return group


def filled(x):
    late = -len(x) % 6
    return np.concatenate([x, np.zeros((late, *x.shape[1:]), x.dtype)]).reshape(
        -1, 2, 3, *x.shape[1:]
    )


def halves(x):
    y, n = x.shape[-2] // 2, x.shape[-1] // 2
    return np.rint(x.reshape(*x.shape[:-2], y, 2, n, 2).mean(axis=(-3, -1)))


def test_a_recording_is_an_image_while_it_grows(tmp_path):
    with recording(tmp_path / "a") as a, xa.pyramid(a, levels=2) as p:
        store = xa.open(tmp_path / "a").as_zarr_store(ome=True)
        assert [z.shape for _, z in sorted(image_in(store).arrays())] == [
            (0, 2, 3, 8, 12),
            (0, 2, 3, 4, 6),
            (0, 2, 3, 2, 3),
        ]
        x = frames(8)
        a.append(x)
        p.update()
        group = image_in(store)
        np.testing.assert_array_equal(group["0"][...], filled(x))
        np.testing.assert_array_equal(group["1"][...], filled(halves(x)))
        np.testing.assert_array_equal(group["2"][...], filled(halves(halves(x)[..., :6])))
        (about,) = group.attrs["ome"]["multiscales"]
        assert [axis["name"] for axis in about["axes"]] == [*"tczyx"]
        assert about["axes"][3] == {"name": "y", "type": "space", "unit": "micrometer"}
        steps = about["datasets"][1]["coordinateTransformations"]
        assert steps[0]["scale"] == [1, 1, 1, 1, 1]
        assert steps[1]["translation"] == [0, 0, 0, 0.25, 1.25]
        channels = group.attrs["ome"]["omero"]["channels"]
        assert [channel["label"] for channel in channels] == ["DAPI", "GFP"]
        low, high = channels[0]["window"]["start"], channels[0]["window"]["end"]
        assert p.levels[1][1].min() == low and p.levels[1][1].max() == high
        assert group["0"].attrs["lens"] == "63x" and "coords" not in group["0"].attrs
        # The levels are behind: they have the shape of the array, and what they lack is not there.
        late = frames(12, 1)
        a.append(late)
        group = image_in(store)
        assert group["0"].shape[0] == group["1"].shape[0] == group["2"].shape[0] == 4
        np.testing.assert_array_equal(group["0"][...], filled(np.concatenate([x, late])))
        assert not group["1"][2:].any()
        p.update()
        np.testing.assert_array_equal(group["1"][...], filled(halves(np.concatenate([x, late]))))


def test_what_ome_zarr_reads_from_it(tmp_path):
    pytest.importorskip("ome_zarr")
    from ome_zarr.reader import Multiscales, Node

    with recording(tmp_path / "a") as a, xa.pyramid(a, levels=1) as p:
        a.append(frames(6))
        p.update()
        store = a.as_zarr_store(ome=True)
        group = image_in(store)

        class Location:
            """A place of ome-zarr, which itself takes folders and addresses only."""

            root_attrs = zgroup = dict(group.attrs)["ome"]

            def load(self, path):
                import dask.array as da

                return da.from_zarr(store, path)

            def create(self, path):
                return self

            def exists(self):
                return False

        found = Node(Location(), [])
        assert any(isinstance(spec, Multiscales) for spec in found.specs)
        np.testing.assert_array_equal(found.data[0], filled(frames(6)))
        np.testing.assert_array_equal(found.data[1], filled(halves(frames(6))))
        assert found.metadata["channel_names"] == ["DAPI", "GFP"]


def test_programs_open_an_address(tmp_path):
    pytest.importorskip("aiohttp")
    x = frames(6)
    with (
        recording(tmp_path / "a") as a,
        xa.pyramid(a, levels=1) as p,
        a.as_zarr_store(ome=True).serve() as served,
    ):
        assert served.url.endswith("/a.ome.zarr")
        a.append(x)
        p.update()
        group = image_in(served.url)
        np.testing.assert_array_equal(group["1"][...], filled(halves(x)))
        if importlib.util.find_spec("ome_zarr"):
            from ome_zarr.io import parse_url
            from ome_zarr.reader import Reader

            (node,) = Reader(parse_url(served.url))()
            np.testing.assert_array_equal(node.data[0], filled(x))
            np.testing.assert_array_equal(node.data[1], filled(halves(x)))
            assert node.metadata["channel_names"] == ["DAPI", "GFP"]


def answer(url, method="GET", **headers):
    request = urllib.request.Request(url, method=method, headers=headers)
    try:
        with urllib.request.urlopen(request) as found:
            return found.status, found.read(), found.headers
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read(), error.headers


def test_requests():
    a = xa.from_array(np.arange(6, dtype="u1").reshape(2, 3))
    store = a.as_zarr_store(ome=True)
    with store.serve() as served:
        url = f"{served.url}/0/c/0/0"
        assert answer(url)[:2] == (200, bytes(range(6)))
        assert answer(url, "HEAD")[:2] == (200, b"")
        for asked, wanted in (("1-2", b"\1\2"), ("4-", b"\4\5"), ("-1", b"\5"), ("4-99", b"\4\5")):
            status, body, headers = answer(url, Range=f"bytes={asked}")
            assert (status, body) == (206, wanted) and headers["Content-Range"].endswith("/6")
        assert answer(url, Range="bytes=9-")[0] == 416
        assert answer(url, "OPTIONS")[2]["Access-Control-Allow-Origin"] == "*"
        assert answer(f"{served.url}/0/c/7/0")[0] == answer(f"{served.url}/labels")[0] == 404
        assert answer(f"{served.url}/0/c/{'9' * 5000}/0")[0] == 404
        other = served.url.rsplit("/", 2)[0]
        assert answer(f"{other}/guessed/array.ome.zarr/zarr.json")[0] == 404
        a.append(np.ones((1, 3), "u1"), side="start")
        status, body, _ = answer(f"{served.url}/0/zarr.json")
        assert status == 500 and b"call as_zarr_store again" in body
        port = int(urllib.parse.urlsplit(served.url).port)
        with pytest.raises(xa.errors.StorageError, match="give another"):
            store.serve(port)
        served.close()
    with pytest.raises(xa.errors.ArgumentError, match="out of range"):
        store.serve(1 << 16)


def test_connections_that_are_kept_end_with_the_server():
    with xa.zeros((2, 3)).as_zarr_store(ome=True).serve() as served:
        place = urllib.parse.urlsplit(served.url)
        kept = http.client.HTTPConnection(str(place.hostname), place.port, timeout=60)
        for about in ({}, {"Range": f"bytes={'9' * 5000}-"}):
            kept.request("GET", f"{place.path}/0/zarr.json", headers=about)
            with kept.getresponse() as found:
                assert found.status == 200 and found.read()
    assert kept.sock.recv(1) == b""
    kept.close()


@needs_signals
@pytest.mark.process
def test_the_command(tmp_path):
    recording(tmp_path / "a").close()
    command = [sys.executable, "-m", "extarray", "serve", "a"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        url = process.stdout.readline().split()[-1]
        assert b"multiscales" in answer(f"{url}/zarr.json")[1]
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=250)
    assert process.returncode == 0


def test_packed_numbers_mean_the_same_at_every_level(tmp_path):
    about = {"scale_factor": 0.5, "add_offset": 3.0, "lens": "63x"}
    with (
        xa.from_array(frames(2), path=tmp_path / "a", dims=("t", "y", "x"), attrs=about) as a,
        xa.pyramid(a, levels=1),
    ):
        group = image_in(a.as_zarr_store(ome=True))
        shared = {"scale_factor": 0.5, "add_offset": 3.0}
        assert dict(group["0"].attrs) == about
        assert dict(group["1"].attrs) == shared


@pytest.mark.parametrize("encoded", [False, True])
def test_without_a_pyramid_and_compressed(tmp_path, encoded):
    x = frames(10)
    with xa.from_array(x, path=tmp_path / "a", dims=("t", "y", "x"), compression="zstd") as a:
        store = a.as_zarr_store("run/image", encoded=encoded, ome=True)
        group = zarr.open_group(store, mode="r")
        assert sorted(group["run"].group_keys()) == ["image"]
        image = group["run/image"]
        np.testing.assert_array_equal(image["0"][...], x)
        assert image.attrs["ome"]["multiscales"][0]["name"] == "a"
        assert "omero" not in image.attrs["ome"]
        assert store == pickle.loads(pickle.dumps(store))
        assert store != a.as_zarr_store("run/image", encoded=encoded)


def test_arrays_without_names_of_axes():
    a = xa.from_array(np.ones((3, 4, 5), "f4"), fill_value=7)
    p = xa.pyramid(a, levels=1)
    group = image_in(a.as_zarr_store(ome=p))
    assert group["0"].metadata.dimension_names == ("z", "y", "x")
    assert group["1"].shape == (3, 2, 3)
    a.append(np.full((3, 4, 1), 3), axis=2)
    a.append(np.full((3, 4, 2), 3), axis=2)
    group = image_in(a.as_zarr_store(ome=p))
    assert group["1"].shape == (3, 2, 4)
    np.testing.assert_array_equal(group["1"][0, 0], [1, 1, 1, 7])


def test_growth_at_the_start_of_an_odd_number(tmp_path):
    """The first element of a level lies in the middle of those that would be there."""
    x = np.arange(24.0).reshape(4, 6)
    with xa.create(tmp_path / "a", (4, 6), dims=("y", "x"), chunks=1) as a:
        a[...] = x
        a.append(np.zeros((4, 1)), axis=1, side="start")
        with xa.pyramid(a, levels=1) as p:
            group = image_in(a.as_zarr_store(ome=p))
            np.testing.assert_array_equal(group["1"][...], p.levels[0][...])
            steps = group.attrs["ome"]["multiscales"][0]["datasets"][1]["coordinateTransformations"]
            assert steps[1]["translation"] == [0.5, -0.5]
            store = a.as_zarr_store(ome=p)
            a.append(np.zeros((4, 1)), axis=1, side="start")
            with pytest.raises(xa.errors.ArgumentError, match="call as_zarr_store again"):
                zarr.open_group(store, mode="r")


def test_what_is_refused_and_lost(tmp_path):
    a = xa.create(None, (3, 4, 2), dims=("y", "x", "c"))
    with pytest.raises(xa.errors.ArgumentError, match=r"np.transpose\(a, \(2, 0, 1\)\)"):
        a.as_zarr_store(ome=True)
    with pytest.raises(xa.errors.ShapeError, match="2 to 5 axes"):
        xa.ones(3).as_zarr_store(ome=True)
    with pytest.raises(xa.errors.ArgumentError, match="the pyramid is of"):
        xa.ones((4, 4)).as_zarr_store(ome=xa.pyramid(xa.ones((4, 4)), levels=1))
    with pytest.raises(xa.errors.ArgumentTypeError, match="ome"):
        xa.ones((4, 4)).as_zarr_store(ome="yes")
    b = xa.create(None, (4, 4), dims=("y", "x"), attrs={"coords": {"y": [1.0, 2.0, 4.0, 5.0]}})
    with pytest.warns(xa.LossyWarning, match="'y', whose steps differ"):
        b.as_zarr_store(ome=True)
    with xa.create(tmp_path / "a", (4, 4), dims=("y", "x"), overwrite=True) as c:
        xa.pyramid(c, levels=1).close()
    with xa.create(tmp_path / "a", (4, 4), dims=("y", "x"), overwrite=True) as c:
        group = image_in(c.as_zarr_store(ome=True))
        assert list(group.array_keys()) == ["0"]  # the pyramid is of the array before

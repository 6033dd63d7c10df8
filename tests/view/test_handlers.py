"""Answers of the server, by client and request, through Tornado's own test client."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import gzip
import io
import json
import os
import re
import shutil
import struct
import tempfile
import time
import weakref
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
import pytest
from systems import needs_replaced_open_files
from viewing import until

import extarray as xa

pytest.importorskip("tornado", reason="the server is Tornado (extra 'view')")

from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.testing import AsyncHTTPTestCase, ExpectLog
from tornado.websocket import websocket_connect

from extarray.common.errors import BoundsError
from extarray.common.limits import limits
from extarray.plot import segments
from extarray.view import exhibits, handlers, places
from extarray.view.exhibits import Gallery
from extarray.view.handlers import Site, make_app
from extarray.view.planes import Abandoned

TOKEN = "the-token-of-the-tests"
CODES = {"u1": "u1", "i1": "i1", "u2": "<u2", "i2": "<i2", "f4": "<f4"}
FILL = 0x7FC0F111
RECORD = np.dtype([("when", "M8[s]"), ("speed", "f8"), ("tag", "S3")])


def coordinate(name, units="", title="", flip=(False, False)):
    return {"name": name, "units": units, "title": title, "flip": list(flip)}


def make_arrays(folder):
    """Make a folder as users have it; files beside it must stay unseen."""
    data = np.random.default_rng(0).standard_normal((6, 50, 70)).astype("f4")
    data[2, 3, 4] = np.nan
    coords = {
        "time": {
            "dims": ["time"],
            "dtype": "M8[D]",
            "data": [f"2024-05-{day:02}" for day in range(1, 7)],
            "origin": [0],
        }
    }
    with xa.create(
        folder / "scene", (0, 50, 60), "f4", chunks=(2, 16, 16), dims=("time", "y", "x")
    ) as a:
        a.append(data[:4, :, :60])
        a.extend(2, 10)
        a[:4, :, 60:] = data[:4, :, 60:]
        a.append(data[4:])
        a.attrs["coords"] = coords
    xa.from_array(np.arange(50) / 4, folder / "y", dims=("y",), attrs={"units": "m"}).close()
    (folder / "sub").mkdir()
    large = np.arange(12, dtype="i8").reshape(3, 4) + 2**60
    xa.from_array(large, folder / "sub" / "large").close()
    records = np.zeros((4, 5), RECORD)
    records["when"] = np.datetime64("2024-05-01T12:00")
    records["speed"] = np.arange(20).reshape(4, 5)
    records["tag"] = b"ab"
    xa.from_array(records, folder / "records").close()
    xa.from_array((1 + 1j) * np.arange(6).reshape(2, 3), folder / "waves").close()
    xa.full((), 7, "i4", path=folder / "single").close()
    xa.create(folder / "empty", (0, 3), "u2").close()
    xa.create(folder / "none", (300, 400), "f8", fill_value=-1, sparse=True).close()
    (folder / "broken.xmd").write_bytes(b"no array")
    (folder / "broken.xta").write_bytes(b"")
    (folder / "notes.txt").write_text("private")
    return data


@pytest.fixture(scope="module", autouse=True)
def patience():
    """Raise Tornado's limit of five seconds for an answer, which a busy machine may exceed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASYNC_TEST_TIMEOUT", "250")
        yield


class Case(AsyncHTTPTestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())
        (self.folder / "arrays").mkdir()
        xa.zeros((3, 3), path=self.folder / "outside").close()
        self.data = make_arrays(self.folder / "arrays")
        self.followers = []
        super().setUp()

    def patch(self, where, name, value):
        patch = pytest.MonkeyPatch()
        self.addCleanup(patch.undo)
        patch.setattr(where, name, value)

    def tearDown(self):
        for follower in self.followers:
            follower.end()
        self.site.close()
        super().tearDown()
        shutil.rmtree(self.folder)

    def get_app(self):
        self.site = Site(Gallery(self.folder / "arrays"), TOKEN)
        return make_app(self.site)

    def others(self):
        """Link to files outside the folder; return names that must not be readable."""
        (self.folder / "arrays" / "link").symlink_to(self.folder)
        for suffix in (".xmd", ".xta"):
            target = self.folder / f"outside{suffix}"
            (self.folder / "arrays" / f"linked{suffix}").symlink_to(target)
        names = ["../outside", str(self.folder / "outside"), "outside", "link/outside", "linked"]
        return [*names, "sub/../../outside", "scene.xmd", "", " scene", "./scene"]

    def ask(self, what, headers=(), token=TOKEN, **query):
        return self.fetch(
            f"/api/{what}?{urlencode(query)}",
            headers={"Authorization": f"Bearer {token}", **dict(headers)},
            raise_error=False,
            request_timeout=250,
        )

    def facts(self, what, **query):
        answer = self.ask(what, **query)
        assert answer.code == 200, answer.body
        return json.loads(answer.body)

    def numbers(self, what, **query):
        answer = self.ask(what, **query)
        assert answer.code == 200, answer.body
        return unpack(answer.body)

    def wait(self, future):
        async def run():
            return await future

        return self.io_loop.run_sync(run, timeout=30)

    def follower(self, **options):
        follower = Follower(self, **options)
        self.followers.append(follower)
        return follower

    def plane(self, name, at, rows, columns, **query):
        """Return the values of a plane, as float64."""
        query = {"ms": 10_000, **query}
        rows = ",".join(map(str, rows))
        columns = ",".join(map(str, columns))
        at = ",".join(map(str, at))
        head, body = self.numbers("plane", name=name, at=at, rows=rows, columns=columns, **query)
        if head["constant"]:
            body = body[: np.dtype(CODES[head["code"]]).itemsize] * int(np.prod(head["shape"]))
        numbers = np.frombuffer(body, CODES[head["code"]]).reshape(head["shape"])
        values = numbers.astype(np.float64)
        if head["code"] == "f4" and head["fill"] is not None:
            values[numbers.view("<u4") == FILL] = head["fill"]
        return head, head["base"] + head["scale"] * values


class Follower:
    """The WebSocket of a page."""

    def __init__(self, case, token=TOKEN, protocols=None, **headers):
        self.case = case
        self.is_over = False
        url = f"ws://127.0.0.1:{case.get_http_port()}/api/news"
        protocols = ["extarray-view", token] if protocols is None else protocols
        self.socket = case.wait(
            websocket_connect(HTTPRequest(url, headers=headers), subprotocols=protocols)
        )

    def say(self, message):
        self.case.wait(self.socket.write_message(message, isinstance(message, bytes)))

    def follow(self, name, revision):
        self.say(json.dumps({"arrays": [{"name": name, "revision": revision}], "tree": None}))

    def hear(self):
        """Return the next message; None: the server has closed the connection."""
        message = self.case.wait(self.socket.read_message())
        self.is_over = message is None
        return message and json.loads(message)

    def end(self):
        self.socket.close()
        until(lambda: self.is_over or self.hear() is None)


def unpack(body):
    (length,) = struct.unpack_from("<I", body)
    return json.loads(body[4 : 4 + length]), body[4 + length :]


class TestWhoIsAnswered(Case):
    def test_the_page_is_public_and_has_nothing_of_others(self):
        answer = self.fetch("/")
        assert answer.code == 200
        text = answer.body.decode()
        assert "http://" not in text and "https://" not in text
        for name in ("main.js", "view.css", "icon.svg"):
            assert self.fetch(f"/{name}").code == 200

    def test_every_answer_forbids_what_the_page_does_not_need(self):
        for answer in (self.fetch("/"), self.ask("arrays"), self.ask("arrays", token="")):
            policy = answer.headers["Content-Security-Policy"]
            assert policy.startswith("default-src 'none'; ")
            assert "unsafe" not in policy and "*" not in policy and "data:" not in policy
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            assert answer.headers["Referrer-Policy"] == "no-referrer"
            assert answer.headers["Cache-Control"] == "no-store"
            assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
            assert "Access-Control-Allow-Origin" not in answer.headers
            assert "Set-Cookie" not in answer.headers
            assert "Server" not in answer.headers

    def test_data_need_the_token(self):
        for what in ["arrays", "array", "plane", "profile", "value", "labels", "growth"]:
            for token in ("", "wrong", TOKEN[:-1], TOKEN + "x", "é"):
                answer = self.fetch(
                    f"/api/{what}?name=scene",
                    headers={"Authorization": f"Bearer {token}"} if token else {},
                    raise_error=False,
                )
                assert answer.code == 403
                assert b"scene" not in answer.body
        assert self.fetch(f"/api/arrays?token={TOKEN}", raise_error=False).code == 403

    def test_a_name_that_points_here_is_refused(self):
        for host in ("attacker.example", f"attacker.example:{self.get_http_port()}", "127.0.0.1.x"):
            assert self.ask("arrays", {"Host": host}).code == 403
            assert self.fetch("/", headers={"Host": host}, raise_error=False).code == 403
        for host in ("localhost", "127.0.0.1", "localhost:9000", "[::1]:80"):
            assert self.ask("arrays", {"Host": host}).code == 200

    def test_pages_of_others_are_refused(self):
        assert self.ask("arrays", {"Origin": "http://attacker.example"}).code == 403
        assert self.ask("arrays", {"Origin": "http://127.0.0.1:1"}).code == 403
        assert self.ask("arrays", {"Origin": "null"}).code == 403
        assert self.ask("arrays", {"Origin": "http://["}).code == 403
        own = f"http://127.0.0.1:{self.get_http_port()}"
        assert self.ask("arrays", {"Origin": own}).code == 200
        for site in ("cross-site", "same-site"):
            assert self.ask("arrays", {"Sec-Fetch-Site": site}).code == 403
        # Another site cannot load ours as an image or a script either, but may link to it.
        foreign = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
        assert self.fetch("/main.js", headers=foreign, raise_error=False).code == 403
        link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
        assert self.fetch("/", headers=link).code == 200

    def test_nothing_can_be_changed(self):
        for method in ("POST", "PUT", "DELETE", "OPTIONS"):
            answer = self.fetch(
                "/api/arrays",
                method=method,
                headers={"Authorization": f"Bearer {TOKEN}"},
                allow_nonstandard_methods=True,
                raise_error=False,
            )
            assert answer.code == 405


class TestWhatIsServed(Case):
    def test_no_other_file(self):
        paths = [
            "/notes.txt",
            "/scene.xta",
            "/../outside.xmd",
            "/..%2foutside.xmd",
            "/%2e%2e/%2e%2e/etc/passwd",
            "/page/main.js",
            "/handlers.py",
            "//etc/passwd",
            "/main.js%00",
            "/.",
        ]
        for path in paths:
            answer = self.fetch(path, raise_error=False)
            assert answer.code == 404, path
            assert b"private" not in answer.body

    def test_no_other_array(self):
        for name in self.others():
            answer = self.ask("array", name=name)
            assert answer.code in (400, 404), (name, answer.body)
        listed = {entry["name"] for entry in self.facts("arrays")["arrays"]}
        assert "sub/large" in listed
        assert not {name for name in listed if "link" in name or "outside" in name}

    def test_the_list_has_every_array_and_what_is_wrong(self):
        listing = self.facts("arrays")
        entries = {entry["name"]: entry for entry in listing["arrays"]}
        assert listing["is_folder"]
        assert entries["scene"] == {"name": "scene", "shape": [6, 50, 70], "dtype": "float32"}
        assert entries["single"]["shape"] == []
        assert "error" in entries["broken"]

    def test_a_new_array_of_the_folder_is_found(self):
        assert self.ask("array", name="late").code == 404
        xa.zeros((2, 2), path=self.folder / "arrays" / "late").close()
        assert self.facts("array", name="late")["shape"] == [2, 2]

    @pytest.mark.slow
    def test_more_arrays_than_are_kept_open(self):
        for n in range(20):
            xa.full((2,), n, path=self.folder / "arrays" / f"n{n}").close()
        for n in [*range(20), *range(20)]:
            assert self.facts("value", name=f"n{n}", at="1")["value"] == f"{n}"

    def test_what_an_array_is(self):
        info = self.facts("array", name="scene")
        assert info["shape"] == [6, 50, 70]
        assert info["names"] == ["time", "y", "x"]
        assert info["chunks"] == [2, 16, 16]
        assert info["coordinates"] == [
            coordinate("time"),
            coordinate("y", units="m"),
            None,
        ]
        assert [choice["kind"] for choice in info["choices"]] == ["number"]
        info = self.facts("array", name="records")
        assert [c["label"] for c in info["choices"]] == ["when", "speed", "tag"]
        assert [c["kind"] for c in info["choices"]] == ["datetime", "number", "text"]
        assert self.facts("array", name="waves")["choices"][0]["parts"][0] == "magnitude"

    def test_an_axis_that_is_split(self):
        path, frames = self.folder / "arrays" / "frames", np.arange(8 * 4 * 5).reshape(8, 4, 5)
        coords = {"c": {"dims": ["c"], "data": ["red", "green", "blue"]}}
        with xa.create(
            path, (0, 4, 5), "i8", dims=("frame", "v", "u"), split={"frame": {"t": -1, "c": 3}},
            attrs={"coords": coords},
        ) as a:  # fmt: skip
            a.append(frames[:7])
            info = self.facts("array", name="frames")
            assert (info["shape"], info["names"]) == ([3, 3, 4, 5], ["t", "c", "v", "u"])
            assert info["coordinates"] == [None, coordinate("c"), None, None]
            assert info["grid"] == [3, 3, 1, 1]
            head, body = self.numbers(
                "growth", name="frames", chunk="0,0,0,0", rows="0,0,3,99", columns="1,0,3,99"
            )
            found = np.frombuffer(body, "<f8", 9).reshape(head["shape"])
            np.testing.assert_array_equal(found, [[0, 1, 2], [3, 4, 5], [6, -1, -1]])
            assert [s["number"] for s in head["segments"]][:1] == [-1]
            head, body = self.numbers(
                "growth", name="frames", chunk="1,2,0,0", rows="2,0,1,99", columns="3,0,1,99"
            )
            assert np.frombuffer(body, "<f8", 1) == 5
            shown = {entry["name"]: entry for entry in self.facts("arrays")["arrays"]}
            assert shown["frames"]["shape"] == [3, 3, 4, 5]
            _, got = self.plane("frames", (1, 2, 0, 0), (2, 0, 4, 50), (3, 0, 5, 50))
            np.testing.assert_array_equal(got, frames[5])
            _, got = self.plane("frames", (0, 0, 1, 2), (0, 0, 3, 50), (1, 0, 3, 50))
            np.testing.assert_array_equal(got, np.append(frames[:7, 1, 2], [0, 0]).reshape(3, 3))
            found = self.facts("value", name="frames", at="1,2,3,4")
            assert (found["value"], found["labels"]) == (str(frames[5, 3, 4]), ["", "blue", "", ""])
            a.append(frames[7:])
            assert self.facts("array", name="frames")["revision"] > info["revision"]
            _, got = self.plane("frames", (2, 1, 0, 0), (2, 0, 4, 50), (3, 0, 5, 50))
            np.testing.assert_array_equal(got, frames[7])
        for suffix in (".xmd", ".xta"):
            path.with_suffix(suffix).unlink()

    def test_planes(self):
        head, got = self.plane("scene", (2, 0, 0), (1, 0, 50, 50), (2, 0, 70, 70))
        assert (head["level"], head["steps"], head["start"]) == (0, [1, 1], [0, 0])
        np.testing.assert_array_equal(got, self.data[2])
        head, got = self.plane("scene", (0, 9, 0), (2, 10, 60, 25), (0, 0, 6, 100))
        np.testing.assert_array_equal(got, self.data[:, 9, 10:60:2].T)
        _, got = self.plane("records", (0, 0), (0, 0, 4, 9), (1, 0, 5, 9), field=1)
        np.testing.assert_array_equal(got, np.arange(20).reshape(4, 5))
        _, got = self.plane("waves", (0, 0), (0, 0, 2, 9), (1, 0, 3, 9), part="phase")
        np.testing.assert_allclose(got.ravel(), [0, *[np.pi / 4] * 5], rtol=1e-6)
        head, got = self.plane("sub/large", (0, 0), (0, 0, 3, 9), (1, 0, 4, 9))
        assert (np.diff(got.ravel() - head["base"]) >= 0).all()
        assert head["base"] == 2.0**60

    def test_where_nothing_was_written_one_number_is_sent(self):
        rows, columns = "0,0,300,300", "1,0,400,400"
        answer = self.ask("plane", name="none", at="0,0", rows=rows, columns=columns, ms=10_000)
        assert len(answer.body) < 1000
        head, _ = unpack(answer.body)
        assert head["constant"] and head["fill"] == -1 and head["shape"] == [300, 400]

    def test_a_plane_that_is_known_is_not_sent_again(self):
        query = {"name": "scene", "at": "2,0,0", "rows": "1,0,50,50", "columns": "2,0,70,70"}
        head, _ = self.numbers("plane", ms=10_000, **query)
        again = self.ask("plane", ms=10_000, have=head["check"], **query)
        assert (again.code, again.body) == (204, b"")
        with xa.open(self.folder / "arrays" / "scene", mode="r+") as a:
            a[2, 7, 8] = 100
        assert self.ask("plane", ms=10_000, have=head["check"], **query).code == 200

    def test_a_slow_way_gets_compressed_bytes(self):
        query = {"name": "scene", "at": "2,0,0", "rows": "1,0,50,50", "columns": "2,0,70,70"}
        answer = self.fetch(
            f"/api/plane?{urlencode({**query, 'packed': 1, 'ms': 10_000})}",
            headers={"Authorization": f"Bearer {TOKEN}", "Accept-Encoding": "gzip"},
            decompress_response=False,
        )
        assert answer.headers["Content-Encoding"] == "gzip"
        plain = self.ask("plane", ms=10_000, **query).body
        assert unpack(gzip.decompress(answer.body))[1] == unpack(plain)[1]

    def test_profiles(self):
        head, body = self.numbers("profile", name="scene", at="0,9,11", axis=0)
        np.testing.assert_array_equal(np.frombuffer(body, "<f4"), self.data[:, 9, 11])
        head, body = self.numbers("profile", name="scene", at="1,0,11", axis=1, pixels=25)
        assert (head["step"], head["whole"], head["more"]) == (2, False, True)
        np.testing.assert_array_equal(np.frombuffer(body, "<f4"), self.data[1, ::2, 11])
        query = {"name": "scene", "at": "1,0,11", "axis": 1, "pixels": 10, "whole": 1}
        head, body = self.numbers("profile", **query)
        n = head["count"]
        values = np.frombuffer(body, "<f4", n)
        places = np.frombuffer(body, "<f8", n, -(-4 * n // 8) * 8).astype(int)
        np.testing.assert_array_equal(values, self.data[1, places, 11])
        for start in range(0, 50, head["step"]):
            run = self.data[1, start : start + head["step"], 11]
            mine = values[(places >= start) & (places < start + head["step"])]
            assert {np.nanmin(run), np.nanmax(run)} <= set(mine.tolist())

    def test_a_plane_without_steps_between(self):
        head, _ = self.plane("scene", (2, 0, 0), (1, 0, 50, 25), (2, 0, 70, 35))
        assert (head["whole"], head["more"]) == (False, True)
        where = {"rows": "1,0,50,25", "columns": "2,0,70,35"}
        head, body = self.numbers("plane", name="scene", at="2,0,0", whole=1, **where)
        assert (head["whole"], head["more"], head["steps"]) == (True, False, [2, 2])
        got = np.frombuffer(body, "<f4").reshape(head["shape"])
        cells = self.data[2].reshape(25, 2, 35, 2).swapaxes(1, 2).reshape(25, 35, 4)
        assert ((got == np.nanmin(cells, -1)) | (got == np.nanmax(cells, -1))).all()

    def test_values_are_exact(self):
        told = self.facts("value", name="scene", at="5,9,11")
        assert np.float32(told["value"]) == self.data[5, 9, 11]
        assert told["labels"] == ["2024-05-06", "2.25", ""]
        assert self.facts("value", name="scene", at="2,3,4")["value"] == "nan"
        assert self.facts("value", name="sub/large", at="2,3")["value"] == str(2**60 + 11)
        told = self.facts("value", name="records", at="1,2", field=1)
        assert told["value"] == "7.0" and "b'ab'" in told["record"]
        assert self.facts("value", name="single", at="")["value"] == "7"

    def test_labels(self):
        told = self.facts("labels", name="scene", axis=0, indices="0,5,7,-3")
        assert told["labels"] == ["2024-05-01", "2024-05-06", "", ""]
        assert self.facts("labels", name="scene", axis=1, indices="4")["labels"] == ["1"]
        assert self.facts("labels", name="scene", axis=2, indices="4")["labels"] == [""]

    def test_labels_stay_with_their_elements_when_the_start_moves(self):
        with xa.open(self.folder / "arrays" / "scene", mode="r+") as a:
            a.extend(0, 2, side="start")
        assert self.facts("array", name="scene")["shape"] == [8, 50, 70]
        told = self.facts("labels", name="scene", axis=0, indices="0,2")
        assert told["labels"] == ["", "2024-05-01"]

    def test_the_growth_map(self):
        head, body = self.numbers(
            "growth", name="scene", chunk="1,0,0", rows="1,0,4,99", columns="2,0,5,99"
        )
        assert head["shape"] == [4, 5]
        n = 20
        addresses = np.frombuffer(body, "<f8", n).reshape(4, 5)
        owners = np.frombuffer(body, "<u4", n, 8 * n).reshape(4, 5)
        with xa.open(self.folder / "arrays" / "scene") as a:
            assert a.grid == (3, 4, 5)
            history = segments(a)
            for i, j in np.ndindex(4, 5):
                address = a.axial.address((1, i, j))
                assert addresses[i, j] == address
                told = head["segments"][owners[i, j]]
                mine = history[told["number"]]
                assert mine.start_address <= address < mine.start_address + mine.size
                assert (told["axis"], told["by"]) == (mine.axis, mine.by)

    def test_the_growth_map_tells_frozen_chunks(self):
        with xa.create(
            self.folder / "arrays" / "frozen", (4, 6), chunks=2, compression="zlib", freeze="never"
        ) as a:
            a[...] = 1
            a.freeze()
            for value in range(limits.rewrites + 1):  # the last write thaws the chunk
                a[2, 3] = value
            a.flush()
            head, body = self.numbers(
                "growth", name="frozen", chunk="0,0", rows="0,0,2,99", columns="1,0,3,99"
            )
            assert "5 of 6 chunks frozen" in self.facts("array", name="frozen")["disk"]
        name, code, length = head["blocks"][-1]
        assert (name, code, length) == ("frozen", "u1", 6)
        found = np.frombuffer(body, "u1")[-6:].reshape(2, 3)
        np.testing.assert_array_equal(found, [[1, 1, 1], [1, 0, 1]])
        head, _ = self.numbers(
            "growth", name="scene", chunk="1,0,0", rows="1,0,4,99", columns="2,0,5,99"
        )
        assert "frozen" not in [block[0] for block in head["blocks"]]

    def test_a_folder_is_not_searched_for_each_value(self):
        self.facts("arrays")
        self.patch(places, "walk_folders", lambda root: 1 / 0)
        assert self.facts("value", name="scene", at="2,4,5")["labels"][1] == "1"

    def test_links_that_come_later_lead_nowhere(self):
        """The names are known from an earlier look."""
        self.patch(exhibits, "_MOST_OPEN", 0)
        self.facts("arrays")
        folder = self.folder / "arrays"
        for suffix in (".xmd", ".xta"):
            os.remove(folder / f"records{suffix}")
            (folder / f"records{suffix}").symlink_to(self.folder / f"outside{suffix}")
        assert self.ask("array", name="records").code == 404

    def test_what_was_read_is_not_kept_after_an_error(self):
        """An error knows where it was raised, and that what was read there."""
        found = []

        def read(array, *rest, **options):
            values = np.zeros(1000)
            found.append(weakref.ref(values))
            raise BoundsError("it has shrunk") if len(found) % 2 else Abandoned

        self.patch(handlers, "read_plane", read)
        where = {"name": "scene", "at": "0,0,0", "rows": "1,0,50,10", "columns": "2,0,70,10"}
        gc.disable()
        self.addCleanup(gc.enable)
        for _ in range(2):
            self.ask("plane", **where)
        assert len(found) == 2
        end = time.monotonic() + 10  # the thread that answered may still be leaving its frames
        while any(each() is not None for each in found) and time.monotonic() < end:
            time.sleep(0.01)
        assert [each() is None for each in found] == [True, True]

    def test_no_more_is_read_than_the_page_shows(self):
        """A request for all elements of a large plane gets some."""
        where = {"rows": "1,0,50,10", "columns": "2,0,70,10"}
        self.patch(limits, "whole_pages", 1)
        for query in ({}, {"together": 1, "colours": 0, "channels": "0,1"}):
            head, _ = self.numbers("plane", name="scene", at="0,0,0", whole=1, **where, **query)
            assert not head["whole"] and not head["more"]
        head, _ = self.numbers("profile", name="scene", at="0,0,0", axis=2, pixels=10, whole=1)
        assert not head["whole"] and not head["more"]

    def test_the_growth_map_is_laid_out(self):
        """Rectangles cover the cells of a segment, lines part cells, and bounds cut them."""
        head, body = self.numbers(
            "growth", name="scene", chunk="1,0,0", rows="1,0,4,99", columns="2,0,5,99"
        )
        found, at = {}, 0
        for name, code, length in head["blocks"]:
            found[name] = np.frombuffer(body, f"<{code}", length, at)
            at += -(-found[name].nbytes // 8) * 8
        owners = found["owners"].reshape(4, 5)
        covered = np.full((4, 5), -1)
        for top, bottom, left, right in found["rectangles"].reshape(-1, 4):
            assert (covered[top:bottom, left:right] == -1).all()
            covered[top:bottom, left:right] = owners[top, left]
        np.testing.assert_array_equal(covered, owners)
        breaks = np.zeros((5, 6, 2), int)  # above and to the left of each cell
        for name, sign in (("thin", 1), ("heavy", 2)):
            for top, bottom, left, right in found[name].reshape(-1, 4):
                assert (top == bottom) != (left == right)
                breaks[
                    top : max(bottom, top + 1), left : max(right, left + 1), int(left == right)
                ] += sign
        for i, j in np.ndindex(4, 5):
            if i:
                assert breaks[i, j, 0] == 1 + (owners[i, j] != owners[i - 1, j])
            if j:
                assert breaks[i, j, 1] == 1 + (owners[i, j] != owners[i, j - 1])
        info = self.facts("array", name="scene")
        height, width = (info["shape"][j] / info["chunks"][j] for j in (1, 2))
        np.testing.assert_allclose(head["outside"], [[height, 4, 0, 5], [0, height, width, 5]])
        assert len(found["y"]) == 4 and len(found["x"]) == 5
        # An eighth of the last row of chunks, and three eighths of the last column, are inside.
        assert found["inside"].reshape(4, 5).tolist() == [[1, 1, 1, 1, 0]] * 3 + [[0] * 5]
        for told in head["segments"]:
            assert told["text"] == "first segment" or " by " in told["text"]
            red, green, blue = map(int, re.findall(r"\d+", told["colour"]))
            dark = 0.2126 * red + 0.7152 * green + 0.0722 * blue
            assert told["ink"] == ("#000000" if dark > 120 else "#FFFFFF")

    def test_calls_that_make_no_sense(self):
        plane = {"name": "scene", "at": "0,0,0", "rows": "1,0,50,50", "columns": "2,0,70,70"}
        profile = {"name": "scene", "at": "0,0,0", "axis": 0}
        cells = {"rows": "1,0,4,99", "columns": "2,0,5,99"}
        xa.from_array(np.zeros(4, "U3000"), self.folder / "arrays" / "long").close()
        self.patch(handlers, "_MOST_CELLS", 4 * 5 - 1)
        self.patch(limits, "plane_bytes", 1 << 14)
        cases = [
            ("plane", {**plane, "at": "0,0"}, 409),
            ("plane", {**plane, "at": "6,0,0"}, 409),
            ("plane", {**plane, "at": "x,0,0"}, 400),
            ("plane", {**plane, "rows": "2,0,50,50"}, 400),
            ("plane", {**plane, "rows": "1,0,51,50"}, 409),
            ("plane", {**plane, "columns": "7,0,1,1"}, 400),
            ("plane", {**plane, "columns": "2,0,70"}, 400),
            ("plane", {**plane, "columns": "2,0,70,0"}, 400),
            ("plane", {**plane, "columns": f"2,0,70,{10**9}"}, 400),
            ("plane", {**plane, "field": 1}, 400),
            ("plane", {**plane, "name": "waves", "at": "0,0"}, 400),
            ("plane", {**plane, "ms": "soon"}, 400),
            ("profile", {**profile, "axis": 3}, 400),
            ("profile", {**profile, "axis": ""}, 400),
            ("value", {"name": "scene", "at": "0,0,-1"}, 409),
            ("value", {"name": "empty", "at": "0,0"}, 409),
            ("labels", {"name": "scene", "axis": 9, "indices": "0"}, 400),
            ("growth", {"name": "scene", "chunk": "9,0,0", "columns": "2,0,1,1"}, 409),
            ("growth", {"name": "scene", "chunk": "0,0,0", **cells}, 400),
            ("texts", {"name": "scene", "at": "0,0,0", "columns": "2,0,4"}, 400),
            ("texts", {"name": "long", "at": "0", "rows": "0,0,4"}, 400),
            ("array", {"name": "broken"}, 422),
        ]
        for what, query, code in cases:
            answer = self.ask(what, **query)
            assert answer.code == code, (what, query, answer.code, answer.body)
            assert json.loads(answer.body)["error"]
        waves = {"name": "waves", "at": "0,0", "rows": "0,0,2,9", "columns": "1,0,3,9"}
        assert self.ask("plane", part="colour", **waves).code == 400


#: Valid arguments of each call; below, words that make no sense for most arguments.
CALLS = {
    "array": {"name": "scene"},
    "plane": {"name": "scene", "at": "0,0,0", "rows": "1,0,50,50", "columns": "2,0,70,70"}
    | {"ms": "10", "field": "0", "part": "real"},
    "profile": {"name": "scene", "at": "0,0,0", "axis": "0"},
    "value": {"name": "scene", "at": "0,0,0"},
    "labels": {"name": "scene", "axis": "0", "indices": "0,1"},
    "coordinates": {"name": "scene", "axis": "0", "start": "0", "stop": "6", "most": "9"},
    "texts": {"name": "scene", "at": "0,0,0", "rows": "1,0,5", "columns": "2,0,5"},
    "box": {"name": "scene", "at": "0,0,0", "rows": "1,0,5", "columns": "2,0,5", "format": "csv"},
    "growth": {"name": "scene", "chunk": "0,0,0", "rows": "1,0,1,1", "columns": "2,0,1,1"},
}
WORDS = ["", "x", "-1", "9" * 30, "1e9", "nan", "0,0", ",", "1,,2", "0x1", "\u0663", "1.5", "1_0"]
WORDS += [" 1", "\0", "a" * 3000, "null", "[0]", "0,0,0,0,0", "\ud7ff", "%00", "0;1", "true"]
WORDS += ["9" * 999]


class TestWhatIsDrawn(Case):
    """Lines, colours, tables and files of what is shown."""

    def make(self, name, values, **options):
        with xa.from_array(values, self.folder / "arrays" / name, **options):
            pass
        return values

    def test_a_line_goes_through_the_ends_of_each_step(self):
        values = np.random.default_rng(1).standard_normal(1000)
        values[333] = 50
        self.make("line", values)
        head, body = self.numbers(
            "plane", name="line", at="0", columns="0,100,900,80", whole=1, ends=1
        )
        assert (head["steps"], head["start"], head["whole"]) == ([1, 10], [0, 100], True)
        n = head["count"]
        found = head["base"] + head["scale"] * np.frombuffer(body, "<f4", n).astype("f8")
        places = np.frombuffer(body, "<f8", n, -(-4 * n // 8) * 8).astype(int) + 100
        np.testing.assert_allclose(found, values[places], rtol=1e-6)
        assert 333 in places
        for start in range(100, 900, 10):
            run = values[start : start + 10]
            ends = {start + run.argmin(), start + run.argmax()}
            assert ends <= set(places.tolist())

    def test_several_channels_come_together(self):
        values = self.make("cells", np.arange(4 * 6 * 8, dtype="u2").reshape(4, 6, 8) ** 2)
        where = {"at": "1,0,0", "rows": "1,0,6,9", "columns": "2,0,8,9", "colours": 0, "ms": 9999}
        head, body = self.numbers("plane", name="cells", channels="0,3,1", **where)
        assert (head["shape"], head["channels"]) == ([6, 8], [0, 3, 1])
        got = np.frombuffer(body, "<u2").reshape(3, 6, 8)
        np.testing.assert_array_equal(got, values[[0, 3, 1]])
        told = self.facts("value", name="cells", at="2,3,4", colours=0, channels="0,3,1")
        assert told["values"] == [str(v) for v in values[[0, 3, 1], 3, 4]]
        for wrong in ({"colours": 1, "channels": "0"}, {"colours": 0, "channels": ""}):
            assert self.ask("plane", name="cells", **{**where, **wrong}).code == 400
        assert self.ask("plane", name="cells", channels="4", **where).code == 409

    def test_the_elements_of_a_colour_are_from_one_place(self):
        values = np.random.default_rng(2).integers(0, 256, (20, 30, 3), "u1")
        self.make("photo", values)
        assert self.facts("array", name="photo")["colours"] == ["rgb", 2]
        where = {"at": "0,0,0", "rows": "0,0,20,5", "columns": "1,0,30,10", "colours": 2}
        head, body = self.numbers(
            "plane", name="photo", channels="0,1,2", whole=1, together=1, **where
        )
        got = np.frombuffer(body, "u1").reshape(3, *head["shape"])
        for i, j in np.ndindex(5, 10):
            cell = values[4 * i : 4 * i + 4, 3 * j : 3 * j + 3].reshape(-1, 3)
            sums = cell.sum(axis=1, dtype=int)
            assert tuple(got[:, i, j]) in {tuple(pixel) for pixel in cell.tolist()}
            assert got[:, i, j].sum() in (sums.min(), sums.max())

    def test_coordinates_for_ticks(self):
        head, body = self.numbers("coordinates", name="scene", axis=1, start=0, stop=50, most=100)
        assert head["step"] == 1
        np.testing.assert_array_equal(np.frombuffer(body, "<f4"), np.arange(50) / 4)
        head, body = self.numbers("coordinates", name="scene", axis=1, start=10, stop=50, most=10)
        places = [*range(10, 50, 4), 49]
        assert head["step"] == 4
        np.testing.assert_array_equal(np.frombuffer(body, "<f4"), np.array(places) / 4)
        head, body = self.numbers("coordinates", name="scene", axis=0, start=0, stop=6)
        assert (head["kind"], head["unit"]) == ("datetime", "1 D")
        first = np.datetime64("2024-05-01").astype(int)
        np.testing.assert_array_equal(
            int(head["exact"]) + np.frombuffer(body, "<f4"), first + np.arange(6)
        )
        head, body = self.numbers("coordinates", name="scene", axis=2, start=0, stop=6)
        assert body == b""

    def test_texts_of_a_table(self):
        words = self.make("words", np.array([["one", "two"], ["it's", "ένα"]]))
        told = self.facts("texts", name="words", at="0,0", rows="0,0,2", columns="1,0,2")
        assert told["texts"] == words.tolist()
        told = self.facts("texts", name="words", at="0,0", rows="1,1,2", columns="0,0,2")
        assert told["texts"] == [["two", "ένα"]]
        self.make("days", np.array(["2024-05-01", "NaT"], "M8[D]"))
        told = self.facts("texts", name="days", at="0", rows="0,0,2")
        assert told["texts"] == [["2024-05-01"], ["NaT"]]
        query = {"name": "none", "at": "0,0", "rows": "0,0,300", "columns": "1,0,400"}
        assert self.ask("texts", **query).code == 400

    def test_files_of_what_is_shown(self):
        def box(name, kind="npy", **query):
            answer = self.ask("box", name=name, format=kind, **query)
            assert answer.code == 200, answer.body
            return np.load(io.BytesIO(answer.body)) if kind == "npy" else answer.body.decode()

        query = {"at": "2,0,0", "rows": "2,10,60", "columns": "1,3,9"}
        np.testing.assert_array_equal(box("scene", **query), self.data[2, 3:9, 10:60].T)
        text = box("scene", "csv", **{**query, "rows": "1,3,9", "columns": "2,10,60"})
        lines = [line.split(",") for line in text.splitlines()]
        assert lines[0] == ["y", *map(str, range(10, 60))]
        assert [line[0] for line in lines[1:]] == [str(y) for y in np.arange(3, 9) / 4]
        got = np.array([line[1:] for line in lines[1:]], "f4")
        np.testing.assert_array_equal(got, self.data[2, 3:9, 10:60])
        assert box("scene", "csv", at="0,3,4", columns="0,0,2").splitlines()[:2] == [
            "time,value",
            f"2024-05-01,{self.data[0, 3, 4]!s}",
        ]
        large = box("sub/large", at="0,0", rows="0,0,3", columns="1,0,4")
        np.testing.assert_array_equal(large, np.arange(12).reshape(3, 4) + 2**60)
        cells = self.make("cells", np.arange(24).reshape(2, 3, 4))
        query = {"at": "0,0,0", "rows": "1,0,3", "columns": "2,1,4", "colours": 0}
        got = box("cells", channels="1,0", **query)
        np.testing.assert_array_equal(got, np.moveaxis(cells[::-1, :, 1:], 0, -1))
        assert box("cells", "csv", channels="1,0", **query).splitlines()[:2] == [
            "axis 1,axis 2,axis 0 1,axis 0 0",
            "0,1,13,1",
        ]
        # Rounded coordinates would be those of other elements, and a text would lose its end.
        east = 4_649_776.25 + np.arange(2) / 2
        codes = np.array([b"word", b"x" * 500])
        coords = {"east": {"dims": ["east"], "data": east.tolist()}}
        self.make("codes", codes, dims=("east",), attrs={"coords": coords})
        text = box("codes", "csv", at="0", columns="0,0,2")
        assert text.splitlines()[1:] == ["4649776.25,word", f"4649776.75,{'x' * 500}"]
        told = self.facts("labels", name="codes", axis=0, indices="0,1")
        assert told["labels"] == ["4649776.25", "4649776.75"]

    def test_a_file_that_is_too_large_is_refused(self):
        where = {"name": "none", "at": "0,0", "rows": "0,0,300", "columns": "1,0,400"}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(limits, "saved_elements", 100_000)
            answer = self.ask("box", format="csv", **where)
            assert answer.code == 400
            assert (
                "300 × 400 elements are on show; the page saves up to 100,000 as CSV"
                in (json.loads(answer.body)["error"])
            )
            assert self.ask("box", format="npy", **where).code == 200
            patch.setattr(limits, "saved_bytes", 900_000)
            answer = self.ask("box", format="npy", **where)
            assert answer.code == 400
            assert "zoom in, or read them in Python" in json.loads(answer.body)["error"]
        assert self.ask("box", format="xls", **where).code == 400


class TestWords(Case):
    def words_in(self, call):
        """Ask with a word in the place of each thing in turn, and without it; and twice."""
        for key in CALLS[call]:
            others = {name: value for name, value in CALLS[call].items() if name != key}
            yield others
            for word in WORDS:
                yield {**others, key: word}

    @pytest.mark.slow
    def test_words_that_make_no_sense_are_answered_as_such(self):
        for call in CALLS:
            for query in self.words_in(call):
                answer = self.ask(call, **query)
                assert answer.code in {200, 400, 404, 409, 422}, (call, query, answer.code)
                if answer.code != 200:
                    assert json.loads(answer.body)["error"], (call, query)
        head, values = self.plane("scene", (0, 0, 0), (1, 0, 50, 50), (2, 0, 70, 70))
        assert head["shape"] == [50, 70]
        np.testing.assert_allclose(values, self.data[0], atol=1e-3)

    def test_what_is_given_twice_or_has_no_name(self):
        for tail in (
            "name=scene&name=none",
            "name=scene&&at=0,0,0",
            "=&name=scene",
            "name",
            "?",
            "%",
        ):
            answer = self.fetch(
                f"/api/value?{tail}",
                headers={"Authorization": f"Bearer {TOKEN}"},
                raise_error=False,
            )
            assert answer.code in {200, 400, 404, 409}, (tail, answer.code)

    def test_news_of_words_that_make_no_sense(self):
        for revision in (None, True, 1.5, -1, 10**30, [], {}, "1"):
            follower = self.follower()
            follower.follow("scene", revision)
            heard = follower.hear()
            assert heard is None or "error" in heard or "revision" in heard, revision
        for name in ("", "\0", "a" * 3000, "../scene", "scene\n", "sc\u0435ne"):
            follower = self.follower()
            follower.follow(name, 0)
            assert "error" in (follower.hear() or {"error": ""})


class TestNews(Case):
    def change(self, action, name="scene"):
        with xa.open(self.folder / "arrays" / name, mode="r+") as a:
            action(a)

    def test_news_need_the_token(self):
        refused = [
            {"token": ""},
            {"token": "wrong"},
            {"token": TOKEN[:-1]},
            {"protocols": [TOKEN]},
            {"protocols": ["extarray-view", TOKEN, "x"]},
            {"protocols": [], "Authorization": f"Bearer {TOKEN}"},
            {"Host": "attacker.example"},
            {"Origin": "http://attacker.example"},
            {"Origin": "http://127.0.0.1:1"},
            {"Origin": "http://["},
            {"Origin": "null"},
            {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "websocket"},
        ]
        for options in refused:
            with pytest.raises(HTTPClientError, match="403"):
                Follower(self, **options)
        origin = f"http://127.0.0.1:{self.get_http_port()}"
        follower = self.follower(Origin=origin)
        assert follower.socket.selected_subprotocol == "extarray-view"
        assert TOKEN not in str(follower.socket.headers)

    def test_news_come_by_websockets_only(self):
        protocols = {"Sec-WebSocket-Protocol": f"extarray-view, {TOKEN}"}
        assert self.ask("news", protocols).code == 400
        assert self.ask("news").code == 403

    def test_growth_is_news(self):
        info = self.facts("array", name="scene")
        follower = self.follower()
        follower.follow("scene", info["revision"])
        self.change(lambda a: a.append(self.data[:1]))
        news = follower.hear()
        assert news["revision"] != info["revision"]
        if news["shape"] == info["shape"]:  # a commit before the growth reserved space
            news = follower.hear()
        assert news["shape"] == [7, 50, 70]
        self.change(lambda a: a.shrink(0, 5))
        until(lambda: follower.hear()["shape"] == [2, 50, 70])

    def test_all_that_follow_an_array_are_told(self):
        info = self.facts("array", name="scene")
        followers = [self.follower() for _ in range(7)]
        for follower in followers:
            follower.follow("scene", info["revision"])
        self.change(lambda a: a.attrs.update(sensor="new"))
        for follower in followers:
            assert "sensor: 'new'" in follower.hear()["attrs"]
        assert self.facts("array", name="scene")["attrs"]

    def test_who_knows_another_revision_is_told_at_once(self):
        follower = self.follower()
        follower.follow("scene", 0)
        news = follower.hear()
        assert news == self.facts("array", name="scene")
        # A page that chooses another array follows only that one.
        follower.follow("sub/large", 0)
        assert follower.hear()["name"] == "sub/large"
        self.change(lambda a: a.append(self.data[:1]))
        self.change(lambda a: a.attrs.update(sensor="new"), "sub/large")
        assert follower.hear()["name"] == "sub/large"

    def test_each_opening_of_an_array_has_revisions_of_its_own(self):
        # Otherwise a restarted server would say that nothing is new.
        gallery = Gallery(self.folder / "arrays")
        with contextlib.closing(gallery), gallery.exhibit("scene") as exhibit:
            assert exhibit.revision != self.facts("array", name="scene")["revision"]

    def test_what_is_cut_off_cannot_be_asked_for(self):
        self.facts("array", name="scene")
        self.change(lambda a: a.shrink(1, 40))
        news = self.facts("array", name="scene")
        assert news["shape"] == [6, 10, 70]
        assert self.ask("value", name="scene", at="0,10,0").code == 409

    @needs_replaced_open_files
    def test_files_that_replace_others_are_opened(self):
        info = self.facts("array", name="scene")
        follower = self.follower()
        follower.follow("scene", info["revision"])
        xa.create(self.folder / "arrays" / "scene", (3,), "u2", overwrite=True).close()
        news = follower.hear()
        assert (news["shape"], news["dtype"]) == ([3], "uint16")

    @pytest.mark.slow
    def test_an_array_that_is_missing_for_a_while(self):
        info = self.facts("array", name="waves")
        follower = self.follower()
        follower.follow("waves", info["revision"])
        path = self.folder / "arrays" / "waves"
        for suffix in (".xmd", ".xta"):
            path.with_suffix(suffix).unlink()
        error = follower.hear()["error"]
        assert error.startswith("the array was deleted or moved")
        assert "waves" in error
        xa.create(path, (3,), "u2").close()
        news = follower.hear()
        assert (news["shape"], news["dtype"]) == ([3], "uint16")
        follower.follow("outside", 0)
        assert "no array of this name" in follower.hear()["error"]

    @pytest.mark.slow
    def test_an_error_of_ours_ends_the_connection_and_is_logged(self):
        """The page connects again; else it would wait for news that never come."""
        follower = self.follower()
        revision = self.facts("array", name="scene")["revision"]
        self.patch(Gallery, "exhibit", lambda gallery, name: 1 / 0)
        with ExpectLog("tornado.application", "Uncaught exception"):
            follower.follow("scene", revision)
            assert follower.hear() is None
        assert follower.socket.close_code == 1011

    def test_no_news_of_another_array(self):
        for name in self.others():
            follower = self.follower()
            follower.follow(name, 0)
            assert "no array of this name" in follower.hear()["error"]

    def test_messages_that_make_no_sense(self):
        messages = ["", "[]", "{", '{"arrays": []}', '{"arrays": {}, "tree": "1"}', b"\xff"]
        messages += [
            json.dumps({"arrays": arrays, "tree": 1})
            for arrays in (
                [1], [{"name": "scene"}], [{"name": 1, "revision": 1}],
                [{"name": "scene", "revision": "1"}], 3 * [{"name": "scene", "revision": 1}],
            )
        ]  # fmt: skip
        for message in [*messages, "[" * 5000]:
            follower = self.follower()
            follower.say(message)
            assert follower.hear() is None
            assert follower.socket.close_code == 1008
        follower = self.follower()
        follower.say(json.dumps({"name": "x" * (1 << 15), "revision": 1}))
        assert follower.hear() is None

    def test_a_page_that_gives_no_sign_of_life_is_left(self):
        self._app.settings.update(websocket_ping_interval=0.05, websocket_ping_timeout=0.05)
        address = ("127.0.0.1", self.get_http_port())
        upgrade = (
            "GET /api/news HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\n"
            "Connection: Upgrade\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
            f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: extarray-view, {TOKEN}\r\n\r\n"
        )

        async def hear_frames():
            reader, writer = await asyncio.open_connection(*address)
            writer.write(upgrade.encode())
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101")
            ping = await reader.readexactly(2)
            close = await reader.readexactly(1)
            writer.close()
            await writer.wait_closed()
            return ping + close

        assert self.wait(hear_frames()) == b"\x89\x00\x88"

    def test_a_server_that_ends_says_so(self):
        followers = [self.follower() for _ in range(2)]
        followers[0].follow("scene", self.facts("array", name="scene")["revision"])
        self.site.ends.set()
        for follower in followers:
            assert follower.hear() is None
            assert follower.socket.close_code == 1001


def test_a_folder_without_arrays(tmp_path):
    with pytest.raises(xa.MissingError, match="no array"):
        Gallery(tmp_path)


@pytest.mark.parametrize("suffix", ["", ".xmd", ".xta"])
def test_an_array_alone_has_no_neighbours(tmp_path, suffix):
    xa.zeros((2, 2), path=tmp_path / "a").close()
    xa.zeros((2, 2), path=tmp_path / "b").close()
    gallery = Gallery(f"{tmp_path / 'a'}{suffix}")
    with contextlib.closing(gallery):
        assert gallery.names() == ["a"]
        with gallery.exhibit("a") as exhibit:
            assert exhibit.array.shape == (2, 2)
        with pytest.raises(xa.MissingError), gallery.exhibit("b"):
            pass

"""Objects of a web server: read through obstore and through fsspec, whatever goes wrong."""

from __future__ import annotations

import itertools
import logging
import pickle
import ssl
import subprocess
import threading
from concurrent.futures import CancelledError
from pathlib import Path

import numpy as np
import pytest
from web_server import WebServer

import extarray as xa
import extarray.errors as errors
from extarray.common.limits import limits
from extarray.remote.objects import Location, RemoteObject

pytest.importorskip("obstore")

DATA = np.random.default_rng(7).bytes(300_000)


@pytest.fixture
def web():
    with WebServer({"folder/scene.xap": DATA}) as server:
        yield server


@pytest.fixture(autouse=True)
def _no_long_pauses(monkeypatch):
    monkeypatch.setattr(limits, "remote_pause", 0.001)
    monkeypatch.setattr(limits, "remote_pause_if_busy", 0.002)


def through_obstore(web, name="folder/scene.xap", **options):
    return Location.of(web.url(name), options)


def through_fsspec(web, name="folder/scene.xap", **options):
    fsspec = pytest.importorskip("fsspec")
    pytest.importorskip("aiohttp")
    fs = fsspec.filesystem("http", skip_instance_cache=True)
    return Location.of((fs, web.url(name)), options)


@pytest.fixture(params=[through_obstore, through_fsspec], ids=["obstore", "fsspec"])
def locate(request):
    return request.param


def opened(location, size=100):
    return RemoteObject.read_tail(location, size)[0]


def test_one_request_opens(web, locate):
    found, tail = RemoteObject.read_tail(locate(web), 1000)
    assert tail == DATA[-1000:]
    assert (found.size, found.tag) == (len(DATA), web.tag("folder/scene.xap"))
    (request,) = web.requests
    assert (request.method, request.range) == ("GET", "bytes=-1000")


def test_a_small_object_is_read_whole_when_it_is_opened(web, locate):
    web.objects["small"] = b"0123456789"
    found, tail = RemoteObject.read_tail(locate(web, "small"), 1 << 20)
    assert tail == b"0123456789" and found.size == 10
    assert found.read(2, 3) == b"234"
    assert len(web.requests) == 1


def test_an_empty_object(web, locate):
    web.objects["empty"] = b""
    found, tail = RemoteObject.read_tail(locate(web, "empty"), 100)
    assert (found.size, tail) == (0, b"")
    assert found.read(0, 0) == b""


def test_every_read_has_the_condition_that_the_object_is_the_same(web, locate):
    found = opened(locate(web))
    web.forget()
    assert found.read(1000, 50) == DATA[1000:1050]
    (request,) = web.requests
    assert request.headers["if-match"] == found.tag
    assert request.range == "bytes=1000-1049"


def test_ranges_come_in_their_order(web, locate):
    found = opened(locate(web, coalesce=80))
    offsets, sizes = [200_000, 10, 100, 0, 299_990, 60_000], [100, 20, 10, 20, 10, 0]
    ranges = found.read_ranges(offsets, sizes, waste=10)
    assert ranges == [DATA[o : o + s] for o, s in zip(offsets, sizes, strict=True)]
    assert [r.range for r in web.requests[1:]] in (
        ["bytes=0-109", "bytes=200000-200099"],
        ["bytes=200000-200099", "bytes=0-109"],
    )


def test_requests_are_made_at_the_same_time_up_to_the_bound(web, locate):
    found = opened(locate(web, coalesce=0, concurrency=3))
    web.latency = 0.05
    web.forget()
    offsets = list(range(0, 90_000, 10_000))
    assert found.read_ranges(offsets, [10] * 9) == [DATA[o : o + 10] for o in offsets]
    assert web.most_at_once == 3 and len(web.requests) == 9


def test_ranges_come_one_by_one(web, locate):
    found = opened(locate(web, concurrency=1, coalesce=0))
    web.latency = 0.05
    reading = found.start([5000, 0, 10_000], [10, 10, 0])
    assert list(reading.arrivals([2, 1])) == [[(2, b"")], [(1, DATA[:10])]]
    assert list(reading.arrivals([0])) == [[(0, DATA[5000:5010])]]
    with pytest.raises(CancelledError, match="taken already"):
        list(reading.arrivals([0]))


def test_threads_wait_for_ranges_of_their_own(web, locate):
    found = opened(locate(web, concurrency=2, coalesce=0))
    web.latency = 0.01
    reading = found.start([i * 5000 for i in range(40)], [1000] * 40)
    got: dict[int, bytes] = {}

    def work(first):
        for ranges in reading.arrivals(range(first, 40, 4)):
            got.update((number, bytes(data)) for number, data in ranges)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == {i: DATA[i * 5000 :][:1000] for i in range(40)}


def test_requests_wait_for_memory(web, locate):
    found = opened(locate(web, concurrency=9, coalesce=0))
    web.forget()
    web.latency = 0.01
    with xa.config.set(max_memory=2000):
        found.read_ranges([i * 5000 for i in range(9)], [1000] * 9)
    assert web.most_at_once <= 4  # the server may count one that has just been answered


def test_a_range_in_several_requests_is_joined(web, locate, monkeypatch):
    monkeypatch.setattr("extarray.remote.ranges.plan.__defaults__", (1000,))
    found = opened(locate(web))
    assert found.read(100, 5500) == DATA[100:5600]
    assert len(web.requests) == 7
    assert found.read_ranges([100, 3], [5500, 5]) == [DATA[100:5600], DATA[3:8]]


def test_reading_ahead(web, locate):
    found = opened(locate(web))
    web.latency = 0.05
    reading = found.start([0, 100_000], [10, 10])
    assert reading.result() == [DATA[:10], DATA[100_000:100_010]]
    found.start([0], [10]).cancel()


def test_outside_of_the_object(web, locate):
    found = opened(locate(web))
    for offset, size in [(len(DATA), 1), (-1, 1), (0, len(DATA) + 1), (5, -1)]:
        with pytest.raises(errors.BoundsError, match="scene.xap"):
            found.read(offset, size)
    assert len(web.requests) == 1


def test_requests_and_bytes_are_counted(web, locate, caplog):
    with caplog.at_level(logging.DEBUG, logger="extarray.remote"):
        found = opened(locate(web))
        web.fail("status", 503)
        found.read_ranges([0, 100], [50, 50], waste=2)
    counts = found.counts
    assert (counts.requests, counts.retries, counts.bytes) == (3, 1, 100 + 150)
    assert len(web.requests) == 3
    assert "503" in caplog.text and "150 bytes from 0" in caplog.text


# -- other versions ------------------------------------------------------------------------------


def test_is_anything_new(web, locate):
    found = opened(locate(web))
    web.forget()
    assert found.refreshed() is None
    assert [r.status for r in web.requests] == [304]
    web.objects["folder/scene.xap"] = DATA + b"more"
    newer = found.refreshed()
    assert newer.size == len(DATA) + 4 and newer.tail == (DATA + b"more")[-100:]
    assert newer.refreshed() is None
    assert newer.read(0, 10) == DATA[:10]
    assert len(web.requests) == 4
    assert newer.counts is found.counts


@pytest.mark.parametrize("change", ["replaced", "longer", "removed"])
def test_an_object_that_was_replaced(web, locate, change):
    found = opened(locate(web))
    if change == "removed":
        del web.objects["folder/scene.xap"]
    else:
        web.objects["folder/scene.xap"] = DATA[::-1] if change == "replaced" else DATA + b"x"
    with pytest.raises(errors.ReplacedError, match="scene.xap.*open it again"):
        found.read(0, 10)
    with pytest.raises(errors.ReplacedError):
        list(found.start([0, 290_000], [5, 5]).arrivals([1]))


def test_a_server_without_tags_shows_another_size(web, locate):
    web.has_tags = False
    found = opened(locate(web))
    assert found.tag is None
    assert found.read(0, 10) == DATA[:10]
    assert found.refreshed() is None
    web.objects["folder/scene.xap"] = DATA + b"x"
    with pytest.raises(errors.ReplacedError):
        found.read(0, 10)
    assert found.refreshed().size == len(DATA) + 1


def test_a_server_with_dates_alone(web, locate):
    web.has_tags, web.has_dates = False, True
    found = opened(locate(web))
    assert "2026" in found.tag
    assert found.read(0, 10) == DATA[:10]
    assert "if-match" not in web.requests[-1].headers
    assert found.refreshed() is None


def test_weak_tags_never_match_and_are_compared(web, locate, monkeypatch):
    tags = iter(['W/"1"', 'W/"1"', 'W/"2"'])
    monkeypatch.setattr(web, "tag", lambda name: next(tags))
    found = opened(locate(web))
    assert found.read(0, 10) == DATA[:10]
    assert "if-match" not in web.requests[-1].headers
    with pytest.raises(errors.ReplacedError):
        found.read(0, 10)


def test_a_pickle_reads_the_same_object(web):
    found = opened(through_obstore(web))
    again = pickle.loads(pickle.dumps(found))
    assert (again.size, again.tag, again.tail) == (found.size, found.tag, found.tail)
    assert again.read(0, 10) == DATA[:10]
    web.objects["folder/scene.xap"] = DATA[::-1]
    with pytest.raises(errors.ReplacedError):
        again.read(0, 10)


# -- faults --------------------------------------------------------------------------------------

PASSING = {
    "500": ("status", 500),
    "502": ("status", 502),
    "503": ("status", 503),
    "408": ("status", 408),
    "429": ("status", 429),
    "416": ("status", 416),
    "reset": ("reset", None),
    "cut off": ("short", 3),
    "short body": ("short_body", None),
    "long body": ("long_body", None),
    "short chunked body": ("chunked", -5),
    "long chunked body": ("chunked", 5),
    "endless body": ("endless", None),
    "giant length": ("giant", None),
    "whole object": ("whole", None),
    "another range": ("shift", 1),
    "range is no range": ("content_range", "bytes none"),
    "size below the range": ("content_range", "bytes 5000-5099/17"),
    "compressed": ("encoded", None),
    "garbage": ("garbage", None),
    "endless head": ("head_bomb", None),
}


@pytest.mark.parametrize("fault", PASSING)
def test_a_fault_that_passes_is_survived(web, locate, fault):
    found = opened(locate(web))
    web.fail(*PASSING[fault], times=2)
    assert found.read(5000, 100) == DATA[5000:5100]
    if (locate, fault) != (through_fsspec, "reset"):  # aiohttp makes one attempt of its own
        assert len(web.requests) == 4
        assert found.counts.retries == 2


@pytest.mark.parametrize("fault", PASSING)
def test_a_fault_that_stays_is_an_error_that_names_url_and_range(web, locate, fault):
    found = opened(locate(web, retries=1))
    web.fail(*PASSING[fault], times=10)
    with pytest.raises(errors.RemoteError, match="bytes 5000 to 5099.*scene.xap.*2 times") as e:
        found.read(5000, 100)
    assert isinstance(e.value, (errors.ExtArrayError, ConnectionError))
    assert (e.value.start, e.value.stop) == (5000, 5100)
    assert e.value.filename == web.url("folder/scene.xap")
    assert len(web.requests) == (5 if (locate, fault) == (through_fsspec, "reset") else 3)


@pytest.mark.parametrize("fault", ["500", "reset", "cut off", "whole object", "compressed"])
def test_faults_when_it_is_opened(web, locate, fault):
    web.fail(*PASSING[fault])
    assert opened(locate(web)).size == len(DATA)


def test_a_server_that_waits_is_asked_again(web, locate):
    found = opened(locate(web, timeout=0.2))
    web.fail("slow", 30)
    assert found.read(5000, 100) == DATA[5000:5100]


def test_a_server_that_sends_drop_by_drop_is_asked_again(web, locate):
    found = opened(locate(web, timeout=0.3))
    web.fail("trickle", 0.05)
    assert found.read(5000, 1000) == DATA[5000:6000]
    assert len(web.requests) == 3


@pytest.mark.slow
def test_a_slow_line_is_no_fault(web, locate):
    """The timeout is for a piece, not for the whole."""
    found = opened(locate(web, timeout=1.0, retries=0))
    web.bandwidth = 200_000
    assert found.read(0, 290_000) == DATA[:290_000]


@pytest.mark.slow
def test_retry_after(web, monkeypatch):
    found = opened(through_fsspec(web))
    web.fail("status", (429, {"Retry-After": "1"}))
    assert found.read(0, 10) == DATA[:10]
    first, second = (request.arrived for request in web.requests[1:])
    assert second - first >= 1


@pytest.mark.slow
def test_each_attempt_waits_longer(web, monkeypatch):
    monkeypatch.setattr(limits, "remote_pause", 0.05)
    monkeypatch.setattr(limits, "remote_pause_if_busy", 0.2)
    found = opened(through_obstore(web))
    for status, pause in [(503, 0.05), (429, 0.2)]:
        web.forget()
        web.fail("status", status, times=3)
        found.read(0, 10)
        times = [request.arrived for request in web.requests]
        waits = [b - a for a, b in itertools.pairwise(times)]
        assert all(wait >= pause * 2**i for i, wait in enumerate(waits)) and len(waits) == 3


@pytest.mark.parametrize("status", [401, 403])
def test_no_access_is_told_at_once(web, locate, status):
    web.fail("status", status)
    with pytest.raises(errors.AccessError, match="scene.xap.*credentials"):
        opened(locate(web))
    assert len(web.requests) == 1


@pytest.mark.parametrize("status", [400, 405, 451])
def test_what_cannot_pass_is_told_at_once(web, locate, status):
    found = opened(locate(web))
    web.fail("status", status)
    with pytest.raises(errors.RemoteError, match=str(status)):
        found.read(0, 10)
    assert len(web.requests) == 2


def test_no_such_object(web, locate):
    with pytest.raises(errors.MissingError, match="folder/other.xap"):
        opened(locate(web, "folder/other.xap"))
    assert len(web.requests) == 1


def test_no_such_host():
    location = Location.of("http://no-such-host.invalid/x", {"retries": 1})
    with pytest.raises(errors.RemoteError, match="no-such-host.invalid/x.*2 times"):
        opened(location)


def test_nobody_listens(web, locate):
    location = locate(web, retries=1)
    web.__exit__()
    with pytest.raises(errors.RemoteError, match="2 times"):
        opened(location)
    web.__enter__()


def test_a_server_without_suffixes_is_asked_in_another_way(web, locate):
    web.has_suffix = False
    found, tail = RemoteObject.read_tail(locate(web), 100)
    assert (found.size, tail) == (len(DATA), DATA[-100:])
    assert [r.range for r in web.requests][1:] == ["bytes=0-0", "bytes=299900-299999"]
    assert web.requests[-1].headers["if-match"] == found.tag
    assert found.refreshed() is None


def test_a_server_without_ranges(web, locate):
    web.fail("whole", times=20)
    with pytest.raises(errors.RemoteError, match="does not send ranges"):
        opened(locate(web, retries=1))


# -- redirections --------------------------------------------------------------------------------


def test_a_redirection_in_the_same_scheme_is_followed(web, locate):
    web.fail("redirect", web.url("folder/scene.xap"))
    assert opened(locate(web, "moved")).size == len(DATA)


@pytest.mark.parametrize("target", ["file:///etc/hostname", "ftp://127.0.0.1/x", "data:,x"])
def test_a_redirection_to_another_scheme_is_not_followed(web, locate, target):
    web.fail("redirect", target, times=20)
    with pytest.raises(errors.RemoteError):
        opened(locate(web, retries=0))


def test_endless_redirections(web, locate):
    web.fail("redirect", web.url("folder/scene.xap"), times=200)
    with pytest.raises(errors.RemoteError):
        opened(locate(web, retries=0))
    assert len(web.requests) < 50


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificate")
    paths = str(folder / "certificate.pem"), str(folder / "key.pem")
    command = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
        " -addext subjectAltName=IP:127.0.0.1 -addext basicConstraints=critical,CA:FALSE"
        f" -out {paths[0]} -keyout {paths[1]}"
    )
    try:
        subprocess.run(command.split(), check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("needs openssl, which makes a certificate")
    return paths


@pytest.fixture
def safe_web(certificate):
    with WebServer({"x": DATA}, certificate=certificate) as server:
        yield server


def test_https(safe_web, certificate):
    root = Path(certificate[0]).read_text()
    trusting = {"client_options": {"root_certificate": root}}
    found = opened(Location.of(safe_web.url("x"), trusting))
    assert found.read(0, 10) == DATA[:10]
    safe_web.forget()
    with pytest.raises(errors.RemoteError, match="certificate is not trusted"):
        opened(Location.of(safe_web.url("x")))
    assert safe_web.requests == []


def test_https_is_not_left_for_http(safe_web, certificate, web):
    root = Path(certificate[0]).read_text()
    location = Location.of(safe_web.url("x"), {"client_options": {"root_certificate": root}})
    safe_web.fail("redirect", web.url("folder/scene.xap"))
    with pytest.raises(errors.RemoteError, match="another scheme"):
        opened(location)
    assert web.requests == []


def test_http_may_be_left_for_https(safe_web, certificate, web):
    root = Path(certificate[0]).read_text()
    trusting = {"client_options": {"root_certificate": root}}
    web.fail("redirect", safe_web.url("x"))
    found = opened(Location.of(web.url("moved"), trusting))
    assert found.size == len(DATA)
    assert len(safe_web.requests) == 1


def test_https_is_not_left_for_http_by_fsspec(safe_web, certificate, web):
    fsspec = pytest.importorskip("fsspec")
    aiohttp = pytest.importorskip("aiohttp")

    async def client(**kwargs):
        context = ssl.create_default_context(cafile=certificate[0])
        return aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context))

    fs = fsspec.filesystem("http", get_client=client, skip_instance_cache=True)
    location = Location.of((fs, safe_web.url("x")))
    assert opened(location).read(0, 10) == DATA[:10]
    safe_web.fail("redirect", web.url("folder/scene.xap"))
    with pytest.raises(errors.RemoteError, match="another scheme"):
        opened(location)
    plain = Location.of((fsspec.filesystem("http"), safe_web.url("x")))
    with pytest.raises(errors.RemoteError, match="certificate is not trusted"):
        opened(plain)


# -- threads -------------------------------------------------------------------------------------


def test_threads_share_an_object(web, locate):
    found = opened(locate(web, coalesce=0))
    wrong = []

    def work(number):
        for i in range(5):
            offsets = [number * 10_000 + i * 100, 200_000 + i]
            if found.read_ranges(offsets, [50, 5]) != [
                DATA[offsets[0] :][:50],
                DATA[offsets[1] :][:5],
            ]:
                wrong.append((number, i))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_reading_while_ranges_come(web, locate):
    found = opened(locate(web, coalesce=0))
    got = {}
    with xa.config.set(max_memory=10):
        for ranges in found.start([i * 1000 for i in range(9)], [10] * 9).arrivals(range(9)):
            for number, data in ranges:
                got[number] = bytes(data), bytes(found.read(number * 7, 5))
    assert got == {i: (DATA[i * 1000 :][:10], DATA[i * 7 :][:5]) for i in range(9)}


def test_an_error_while_ranges_come_ends_the_requests(web, locate):
    found = opened(locate(web, concurrency=1, coalesce=0))
    web.latency = 0.02
    reading = found.start([i * 1000 for i in range(9)], [10] * 9)
    arrivals = reading.arrivals(range(9))
    next(arrivals)
    with pytest.raises(ZeroDivisionError):
        arrivals.throw(ZeroDivisionError())
    with pytest.raises(CancelledError):
        list(reading.arrivals([8]))
    assert len(web.requests) < 9
    assert found.read(0, 10) == DATA[:10]

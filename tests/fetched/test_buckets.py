"""Arrays in a bucket of S3, of which moto gives an imitation."""

from __future__ import annotations

import os
import pickle
import threading

import numpy as np
import pytest
from served import needs_obstore

import extarray as xa
from extarray.errors import AccessError, MissingError, ReplacedError

pytestmark = [needs_obstore, pytest.mark.slow]

X = np.random.default_rng(11).normal(size=(24, 30, 20))


@pytest.fixture(scope="module")
def bucket(tmp_path_factory):
    """Return the options for a bucket, and a function that puts files into it."""
    boto3 = pytest.importorskip("boto3", exc_type=ImportError)
    server = pytest.importorskip("moto.server", exc_type=ImportError)
    moto = server.ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    moto.start()
    host, port = moto.get_host_and_port()
    options = {"endpoint_url": f"http://{host}:{port}", "key": "mykey", "secret": "mysecretkey"}
    client = boto3.client(
        "s3",
        endpoint_url=options["endpoint_url"],
        region_name="us-east-1",
        aws_access_key_id="mykey",
        aws_secret_access_key="mysecretkey",
    )
    client.create_bucket(Bucket="bucket")

    def put(folder, access="private"):
        for where, _, files in os.walk(folder):
            for name in files:
                path = os.path.join(where, name)
                key = os.path.relpath(path, folder)
                client.upload_file(path, "bucket", key, ExtraArgs={"ACL": access})

    yield options | {"region": "us-east-1"}, put
    client.close()
    moto.stop()


def test_arrays_and_groups(bucket, tmp_path):
    options, put = bucket
    with xa.from_array(X, tmp_path / "a", (4, 8, 8), checksum=True) as a:
        xa.pack(a, tmp_path / "a.xap")
    with xa.open_group(tmp_path / "g", "w") as g:
        g["u"] = X
    xa.index_group(tmp_path / "g")
    put(tmp_path)
    for name in ("a", "a.xap", "g/u"):
        with xa.open(f"s3://bucket/{name}", storage_options=options) as a:
            np.testing.assert_array_equal(a[3:9, ::2], X[3:9, ::2])
            np.testing.assert_allclose(a.mean(), X.mean())
            assert "mysecretkey" not in f"{a!r}{a.info()}{pickle.dumps(a)!r}"
    with xa.open_group("s3://bucket/g", storage_options=options) as g:
        np.testing.assert_array_equal(g["u"][0], X[0])
    assert xa.check("s3://bucket/a", data=True, storage_options=options).ok
    with pytest.raises((MissingError, AccessError)):
        xa.open("s3://bucket/nothing", storage_options=options)


@pytest.mark.parametrize("is_public", [False, True])
def test_commands_take_credentials_from_the_environment(
    bucket, tmp_path, monkeypatch, capsys, is_public
):
    pytest.importorskip("click")
    pytest.importorskip("h5py")
    from extarray import cli

    options, put = bucket
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ENDPOINT_URL", options["endpoint_url"])
    monkeypatch.setenv("AWS_REGION", options["region"])
    if is_public:
        monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    else:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", options["key"])
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", options["secret"])
    prefix = f"public{is_public}"
    folder = tmp_path / "upload" / prefix
    folder.mkdir(parents=True)
    with xa.from_array(X, folder / "a", (4, 8, 8), checksum=True) as a:
        xa.pack(a, folder / "a.xap", order="hilbert")
    with xa.open_group(folder / "g", "w") as g:
        g["below/u"] = X
        xa.pack(g, folder / "g.xap")
    xa.index_group(folder / "g")
    put(tmp_path / "upload", "public-read" if is_public else "private")

    def done(*words):
        assert cli.main(list(map(str, words))) == 0
        captured = capsys.readouterr()
        assert options["secret"] not in captured.out + captured.err
        return captured.out

    for number, name in enumerate(["a", "a.xap", "g/below/u", "g.xap/below/u"]):
        url = f"s3://bucket/{prefix}/{name}"
        assert "(24, 30, 20)" in done("info", url)
        assert float(done("show", url, "[3, 4, 5]")) == pytest.approx(X[3, 4, 5])
        assert "float64" in done("ls", url)
        assert "ok" in done("check", url, "--data") or "g" in name
        done("copy", url, tmp_path / f"copy{number}")
        done("export", url, tmp_path / f"{number}.npy")
        np.testing.assert_array_equal(np.load(tmp_path / f"{number}.npy"), X)
        with xa.open(tmp_path / f"copy{number}") as a:
            np.testing.assert_array_equal(a[...], X)
    for name in ("g", "g.xap"):
        url = f"s3://bucket/{prefix}/{name}"
        assert "below" in done("ls", url)
        done("export", url, tmp_path / f"{name}.h5")


def test_a_pair_that_grows(bucket, tmp_path):
    options, put = bucket
    with xa.create(tmp_path / "live", (0, 30, 20), chunks=(4, 8, 8)) as writer:
        writer.append(X[:5])
        writer.flush()
        put(tmp_path)
        with xa.open("s3://bucket/live", storage_options=options) as a:
            np.testing.assert_array_equal(a[...], X[:5])
            writer.append(X[5:11])
            writer.flush()
            put(tmp_path)
            assert a.refresh()
            np.testing.assert_array_equal(a[...], X[:11])
    xa.from_array(X + 1, tmp_path / "live", (4, 8, 8), overwrite=True).close()
    with xa.open("s3://bucket/live", storage_options=options) as a:
        put(tmp_path)
        with pytest.raises(ReplacedError):
            a[...]


def test_the_command_that_publishes(bucket, tmp_path, monkeypatch):
    testing = pytest.importorskip("click.testing")
    from extarray.cli import command_line

    options, _ = bucket
    monkeypatch.setenv("AWS_ENDPOINT_URL", options["endpoint_url"])
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", options["key"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", options["secret"])
    monkeypatch.setenv("AWS_REGION", options["region"])
    url = "s3://bucket/published"

    def run(*words):
        found = testing.CliRunner().invoke(
            command_line(), ["publish", str(tmp_path / "a"), url, *words]
        )
        return found.exit_code, found.output

    with xa.from_array(X, tmp_path / "a", (4, 8, 8)) as a:
        status, text = run()
        assert (status, text[:14]) == (0, "(24, 30, 20): ")
        a.append(X[:3], axis=0)
        a[0] = 5
        a.flush()
        status, text = run("--compare", "--clean", "--older-than", "0")
        assert status == 0 and " removed" in text
        with xa.open(url, storage_options=options) as b:
            np.testing.assert_array_equal(b[...], a[...])
            thread = threading.Timer(0.3, lambda: a.append(X[3:6], axis=0))
            thread.start()
            status, text = run("--follow", "--every", "0.05", "--timeout", "2")
            thread.join()
            assert status == 0 and "(30, 30, 20): " in text
            assert b.refresh()
            np.testing.assert_array_equal(b[...], a[...])
    assert run("--timeout", "1")[0] == 2
    with xa.open_group(tmp_path / "g", "w") as g:
        g["a"], g["b/c"] = X, X[0]
    url = "s3://bucket/group"
    found = testing.CliRunner().invoke(command_line(), ["publish", str(tmp_path / "g"), url])
    assert (found.exit_code, found.output[:10]) == (0, "2 arrays: ")
    found = testing.CliRunner().invoke(command_line(), ["tree", url])
    assert "c  30, 20" in found.output
    assert testing.CliRunner().invoke(command_line(), ["check", url]).exit_code == 0

"""Arrays in a bucket of S3, of which moto gives an imitation."""

from __future__ import annotations

import os
import pickle

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

    def put(folder):
        for where, _, files in os.walk(folder):
            for name in files:
                path = os.path.join(where, name)
                client.upload_file(path, "bucket", os.path.relpath(path, folder))

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

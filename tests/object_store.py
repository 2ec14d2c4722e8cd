"""A server of the S3 protocol in a process of its own."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

from pyarrow import fs

from processes import PATIENCE, running

BUCKET = "bucket"


@contextmanager
def object_store() -> Iterator[str]:
    """The address of a server with an empty bucket."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    line = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", address.rpartition(":")[2]]
    with running(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
        _wait_for(address)
        system_at(address).create_dir(BUCKET)
        yield address


def system_at(address: str) -> fs.S3FileSystem:
    return fs.S3FileSystem(
        access_key="a",
        secret_key="b",
        endpoint_override=address,
        scheme="http",
        region="us-east-1",
        allow_bucket_creation=True,
    )


def uri_at(address: str, path: str) -> str:
    """The URI of an object or of a folder in the bucket."""
    options = f"endpoint_override={address}&scheme=http&region=us-east-1"
    return f"s3://a:b@{BUCKET}/{path}?{options}"


def _wait_for(address: str) -> None:
    begin = time.monotonic()
    while time.monotonic() - begin < PATIENCE:
        try:
            urllib.request.urlopen(f"http://{address}/moto-api/", timeout=5).close()
            return
        except OSError:
            time.sleep(0.1)
    raise TimeoutError(address)

"""A store of buckets on this machine, which fails where a test says so."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.request import Request, urlopen

import pyarrow.fs as pafs

Environ = dict[str, Any]
Fault = Callable[[Environ], str | None]
BUCKET = "clinic"


@dataclass
class Buckets:
    """A server of buckets: `fault` sees each request, and names the status to answer with, or none."""

    app: Any
    fault: Fault | None = None

    def __call__(self, environ: Environ, start: Callable[..., Any]) -> Iterable[bytes]:
        status = self.fault(environ) if self.fault is not None else None
        if status is None:
            return self.app(environ, start)
        if status == "":
            environ["werkzeug.socket"].shutdown(2)
            return []
        environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        start(status, [("Content-Length", "0")])
        return [b""]

    def there(self) -> dict[str, int]:
        """Return what is visible in the bucket, with its sizes."""
        system, root = pafs.FileSystem.from_uri(f"s3://{BUCKET}")
        found = system.get_file_info(pafs.FileSelector(root, recursive=True))
        return {f.path.partition("/")[2]: f.size for f in found if f.is_file}


@contextmanager
def serving() -> Iterator[Buckets]:
    """Serve buckets on the loopback, which everything in this process and its children then uses."""
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    buckets = Buckets(DomainDispatcherApplication(create_backend_app))
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = make_server("127.0.0.1", 0, buckets, threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    endpoint = f"http://127.0.0.1:{server.port}"
    before = dict(os.environ)
    os.environ |= {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "owner",
        "AWS_SECRET_ACCESS_KEY": "a-secret-of-the-owner",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_REGION": "us-east-1",
    }
    try:
        urlopen(Request(f"{endpoint}/{BUCKET}", method="PUT")).close()
        yield buckets
    finally:
        os.environ.clear()
        os.environ.update(before)
        server.shutdown()
        thread.join()

"""`python -m flambeau.launch.apps.serve.serve`: give a model archive to a server's management API.

The archive is fetched to this machine and offered over HTTP for as long as the server takes to register it.
"""

from __future__ import annotations

import argparse
import secrets
import shutil
import socket
import sys
import tempfile
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlencode, urlsplit
from urllib.request import Request, urlopen

import fsspec

__all__ = ["TORCHSERVE_PARAMS", "get_routable_ip_to", "main", "parse_args", "rand_id"]

TORCHSERVE_PARAMS = (
    *("model_name", "handler", "runtime", "batch_size", "max_batch_delay", "initial_workers", "synchronous"),
    *("response_timeout",),
)


def parse_args(argv: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Register a model archive with a server.")
    parser.add_argument("--model_path", required=True, help="the archive, which fsspec reads")
    parser.add_argument("--management_api", required=True, help="address, such as http://host:8081")
    parser.add_argument("--timeout", type=float, default=60, help="seconds to wait for it (default: %(default)s)")
    parser.add_argument("--dryrun", action="store_true", help="print what would be asked for")
    parser.add_argument("--port", type=int, default=8222, help="where the archive is offered (default: %(default)s)")
    for name in TORCHSERVE_PARAMS:
        parser.add_argument(f"--{name}", help="of the registration, see the server's management API")
    return parser.parse_args(argv)


def get_routable_ip_to(addr: str) -> str:
    """The address of this machine by which a host can reach it.

    Args:
        addr: address of a page of that host, such as http://host:8081.
    """
    parts = urlsplit(addr)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:  # connecting it sends nothing
        probe.connect((parts.hostname, parts.port or 80))
        own: str = probe.getsockname()[0]
        return own


def rand_id() -> str:
    """A name that nobody guesses, for the archive while it is offered."""
    return secrets.token_hex(16)


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def list_directory(self, path: object) -> None:
        """Show nobody what there is."""
        self.send_error(404)


def main(argv: list[str]) -> None:
    """Fetch, offer, register.

    Raises:
        SystemExit: the server refuses; its answer is printed.
    """
    arguments = parse_args(argv)
    given = {name: getattr(arguments, name) for name in TORCHSERVE_PARAMS if getattr(arguments, name) is not None}
    name = f"{rand_id()}.mar"
    with tempfile.TemporaryDirectory(prefix="flambeau_serve_") as folder:
        with fsspec.open(arguments.model_path, "rb") as source, (Path(folder) / name).open("wb") as target:
            shutil.copyfileobj(source, target, 1 << 20)
        host = get_routable_ip_to(arguments.management_api)
        server = ThreadingHTTPServer(("", 0 if arguments.dryrun else arguments.port), partial(_Quiet, directory=folder))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            query = urlencode({"url": f"http://{host}:{server.server_port}/{name}", **given})
            url = f"{arguments.management_api.rstrip('/')}/models?{query}"
            print(f"POST {url}" if arguments.dryrun else _post(url, arguments.timeout))  # noqa: T201
        finally:
            server.shutdown()
            server.server_close()


def _post(url: str, timeout_s: float) -> str:
    try:
        with urlopen(Request(url, method="POST"), timeout=timeout_s) as answer:
            text: str = answer.read().decode(errors="replace")
            return text
    except HTTPError as error:
        raise SystemExit(
            f"the server refuses the model: {error.code} {error.read().decode(errors='replace')}"
        ) from None
    except OSError as error:
        raise SystemExit(f"{url.partition('?')[0]} cannot be reached: {error}") from None


if __name__ == "__main__":
    main(sys.argv[1:])

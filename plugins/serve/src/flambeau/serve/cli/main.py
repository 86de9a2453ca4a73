"""`flambeau serve NAME...`: serve registered weights until a signal.

::

    flambeau serve vision/resnet50:DEFAULT
    flambeau serve digits=vision/digit_cnn:DEFAULT --port 9000 --workers 2 --batch-size 8
"""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path

from flambeau.core.errors import CommandError

__all__ = ["configure", "run"]

DTYPES = ("float32", "float16", "bfloat16", "float64")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add what to serve, and how."""
    parser.add_argument(
        "models",
        metavar="NAME",
        nargs="+",
        help="weights, as for `flambeau predict --weights`; alias=NAME renames",
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=_port, default=8080, help="of predictions; 0 for a free one (default: 8080)")
    parser.add_argument("--management-port", type=_port, metavar="P", help="of the management API (default: none)")
    parser.add_argument(
        "--enable-model-api", action="store_true", help="let the management API register and remove models"
    )
    parser.add_argument("--workers", type=_workers, default=1, metavar="N", help="of each model, or auto (default: 1)")
    parser.add_argument("--device", default="cpu", help="where to compute (default: %(default)s)")
    parser.add_argument("--dtype", choices=DTYPES, help="compute in this type (default: the model's own)")
    parser.add_argument("--batch-size", type=_count, default=8, metavar="N", help="most in a batch (default: 8)")
    parser.add_argument(
        "--max-batch-delay", type=_milliseconds, default=0.0, metavar="MS",
        help="how long a batch waits to be full while a worker is free (default: 0)",
    )  # fmt: skip
    parser.add_argument("--queue-size", type=_count, default=100, metavar="N", help="most requests that wait")
    parser.add_argument("--drain-timeout", type=float, default=30.0, metavar="S", help="seconds to answer at the end")
    parser.add_argument("--insecure", action="store_true", help="listen beyond loopback although there are no tokens")
    parser.add_argument("--model-store", type=Path, metavar="DIR", help="folder of archives")
    parser.add_argument("--quiet", action="store_true", help="log warnings only")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Serve until a signal."""
    from flambeau.serve.engine.settings import VersionSettings
    from flambeau.serve.errors import StartError
    from flambeau.serve.server import ServeOptions, Server

    logging.basicConfig(
        level=logging.WARNING if arguments.quiet else logging.INFO,
        stream=sys.stderr,
        format="%(asctime)s %(levelname)s %(message)s",
    )
    for noisy in ("uvicorn", "uvicorn.error"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    settings = VersionSettings(
        batch_size=arguments.batch_size,
        max_batch_delay_ms=arguments.max_batch_delay,
        queue_size=arguments.queue_size,
        min_workers=arguments.workers,
        max_workers=arguments.workers,
    )
    options = ServeOptions(
        host=arguments.host,
        port=arguments.port,
        management_port=arguments.management_port,
        workers=arguments.workers,
        device=arguments.device,
        dtype=arguments.dtype,
        settings=settings,
        drain_timeout=arguments.drain_timeout,
        insecure=arguments.insecure,
        may_change=arguments.enable_model_api,
        store=arguments.model_store,
    )
    try:
        server = Server(arguments.models, options)
        return server.run()
    except StartError as error:
        raise CommandError(str(error)) from error


def _port(text: str) -> int:
    return _within(text, 0, 65535)


def _count(text: str) -> int:
    return _within(text, 1, 10**6)


def _workers(text: str) -> int:
    if text == "auto":
        import os

        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return _within(text, 1, 1024)


def _milliseconds(text: str) -> float:
    return float(_within(text, 0, 10**6))


def _within(text: str, least: int, most: int) -> int:
    if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a whole number from {least} to {most}")
    return int(text)

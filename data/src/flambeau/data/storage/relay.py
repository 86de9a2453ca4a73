"""Object stores in forked processes.

The threads of obstore's runtime do not survive a fork: in a child of a process that has used it, for example a worker
of DataLoader, a request would wait for ever. Such a child starts one fresh interpreter, `python -m
flambeau.data.storage.relay`, which makes the requests for it and ends with it.
"""

from __future__ import annotations

import itertools
import os
import queue
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import Any

from flambeau.data.storage.engine import Engine, Entry, Piece
from flambeau.data.storage.errors import StorageError
from flambeau.data.storage.locations import StoreSpec

_MOST_REQUESTS = 16


class RelayEngine:
    """The interface of `Engine`, served by another process."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        with theirs:
            command = [sys.executable, "-m", "flambeau.data.storage.relay", str(theirs.fileno())]
            self._server = subprocess.Popen(
                command, pass_fds=[theirs.fileno()], env=environment, stdin=subprocess.DEVNULL
            )
        self._connection = Connection(ours.detach())
        self._sending = threading.Lock()
        self._numbers = itertools.count()
        self._answers: dict[int, queue.SimpleQueue[tuple[str, Any]]] = {}
        self._ended = False
        threading.Thread(target=self._receive, name="flambeau-storage", daemon=True).start()

    def get(self, spec: StoreSpec, key: str, start: int, stop: int | None, tag: str | None = None) -> Piece:
        """As `Engine.get`."""
        answers = self._ask("get", spec, key, start, stop, tag)
        content = memoryview(next(answers))
        size, e_tag = next(answers)
        return Piece(content, size, e_tag)

    def size(self, spec: StoreSpec, key: str) -> int:
        """As `Engine.size`."""
        return int(next(self._ask("size", spec, key)))

    def pages(self, spec: StoreSpec, folder: str, offset: str | None) -> Iterator[list[Entry]]:
        """As `Engine.pages`."""
        return self._ask("pages", spec, folder, offset)

    def _ask(self, *request: Any) -> Iterator[Any]:
        number = next(self._numbers)
        answers: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        with self._sending:
            if self._ended:
                raise _gone()
            self._answers[number] = answers
            self._connection.send((number, *request))
        try:
            while True:
                kind, content = answers.get()
                if kind == "error":
                    raise content
                if kind == "done":
                    return
                yield content
        finally:
            self._answers.pop(number, None)

    def _receive(self) -> None:
        try:
            while True:
                number, kind, content = self._connection.recv()
                if kind == "bytes":  # too large to be worth pickling: they follow as they are
                    content = self._connection.recv_bytes()
                if (answers := self._answers.get(number)) is not None:
                    answers.put((kind, content))
        except (EOFError, OSError):
            with self._sending:
                self._ended = True
            for answers in list(self._answers.values()):
                answers.put(("error", _gone()))


def _gone() -> StorageError:
    return StorageError("The process that talks to object stores for this one has ended; start the work again.")


def serve(connection: Connection) -> None:
    """Answer requests until the other side closes."""
    engine, sending = Engine(), threading.Lock()

    def send(number: int, kind: str, content: Any) -> None:
        with sending:
            if kind == "bytes":
                connection.send((number, kind, None))
                connection.send_bytes(content)
            else:
                connection.send((number, kind, content))

    def answer(number: int, name: str, *arguments: Any) -> None:
        try:
            if name == "get":
                piece = engine.get(*arguments)
                send(number, "bytes", piece.content)
                send(number, "item", (piece.size, piece.e_tag))
            elif name == "size":
                send(number, "item", engine.size(*arguments))
            else:
                for page in engine.pages(*arguments):
                    send(number, "item", page)
            send(number, "done", None)
        except StorageError as error:
            send(number, "error", error)

    with ThreadPoolExecutor(_MOST_REQUESTS) as pool:
        while True:
            try:
                request = connection.recv()
            except (EOFError, ConnectionResetError):
                os._exit(0)  # nobody is left to wait for requests that are under way
            pool.submit(answer, *request)


if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])))

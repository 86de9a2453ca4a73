"""What threads and processes of a pool of environments do until they are told to end."""

from __future__ import annotations

import os
import pickle
import queue
import threading
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

import torch
from torch import Size

from flambeau.rl._comm.makers import dumps
from flambeau.rl.envs._batched.exchange import Exchange
from flambeau.rl.envs.common import EnvBase
from flambeau.rl.errors import EnvWorkerError


def facts_of(env: EnvBase) -> tuple[Size, Any, Any]:
    """Batch size, device and specs of an environment."""
    return env.batch_size, env.device, env.specs


def _done(env: EnvBase, what: str, data: Any) -> Any:
    """What an environment answers when it is told to do something."""
    if what == "step":
        return env.step(data)
    if what == "step_and_maybe_reset":
        return env.step_and_maybe_reset(data)
    if what == "set_seed":
        return env.set_seed(data[0], static_seed=data[1])
    if what == "call":
        return data[0](env, *data[1:])
    return env.reset(data)


def _failure(at: int, error: BaseException) -> EnvWorkerError:
    text = "".join(traceback.format_exception(error))
    return EnvWorkerError(f"Environment {at} of the pool raised {type(error).__name__}: {error}\n\n{text}")


def serve_thread(at: int, env: EnvBase, tasks: Any, answers: Any) -> None:
    """What a thread does until it is told to end."""
    while (task := tasks.get()) is not None:
        what, data = task
        try:
            answer = _done(env, what, data)
        except Exception as error:  # whatever it is, it is raised where the answer is received
            answer = _failure(at, error)
        answers.put((at, what, answer))
    with suppress(Exception):
        env.close(raise_if_closed=False)


def serve_process(
    line: Connection, makers: list[Callable[[], EnvBase]], cpus: Sequence[int] | None, others: list[Connection]
) -> None:
    """What a process does until it is told to end, or nobody is there to tell it."""
    for other in others:
        other.close()
    if cpus is not None:
        os.sched_setaffinity(0, cpus)
    torch.set_num_threads(1)
    envs = []
    for local, maker in enumerate(makers):
        fine, env = _tried(maker)
        line.send_bytes(dumps((local, fine, (facts_of(env), env.fake_tensordict()) if fine else env)))
        if not fine:
            return
        envs.append(env)
    with suppress(EOFError, ConnectionError):
        rows = pickle.loads(line.recv_bytes())
        if rows is not None and len(envs) == 1:
            while (task := pickle.loads(line.recv_bytes())) is not None:
                line.send_bytes(_message(envs, rows, *task))
        elif rows is not None:
            _serve_several(line, envs, rows)
    for env in envs:
        with suppress(Exception):
            env.close(raise_if_closed=False)


def _serve_several(line: Connection, envs: list[EnvBase], rows: Any) -> None:
    """Several environments of one process, each in a thread; answers go out one after another."""
    turn = threading.Lock()

    def serve(tasks: Any) -> None:
        while (task := tasks.get()) is not None:
            message = _message(envs, rows, *task)
            with turn, suppress(OSError):
                line.send_bytes(message)

    queues: list[Any] = [queue.SimpleQueue() for _ in envs]
    for tasks in queues:
        threading.Thread(target=serve, args=(tasks,), daemon=True).start()
    while (task := pickle.loads(line.recv_bytes())) is not None:
        queues[task[0]].put(task)
    for tasks in queues:
        tasks.put(None)


def _message(envs: list[EnvBase], rows: tuple[Exchange | None, int], local: int, what: str, data: Any) -> bytes:
    exchange, first = rows

    def done() -> Any:
        if exchange is None:
            return _done(envs[local], what, data)
        answer = _done(envs[local], what, exchange.asked_of(first + local, data))
        return exchange.answer(first + local, what, answer)

    return dumps((local, *_tried(done)))


def _tried(function: Callable[[], Any]) -> tuple[bool, Any]:
    """Whether a function returned, and what; or what it raised, as text."""
    try:
        return True, function()
    except Exception as error:  # whatever it is, it is raised where the answer is received
        return False, f"{type(error).__name__}: {error}\n\n{traceback.format_exc()}"

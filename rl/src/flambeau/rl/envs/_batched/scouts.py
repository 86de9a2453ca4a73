"""Finding out about an environment in another process."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import torch.multiprocessing as mp

from flambeau.rl._comm.makers import Maker, dumps
from flambeau.rl.envs._batched.worker import timeout_s
from flambeau.rl.errors import EnvWorkerError


def metadata_from_process(function: Callable[..., Any], kwargs: dict[str, Any], method: str) -> Any:
    """What there is to know of an environment, which is made in another process for that.

    Args:
        function: makes it.
        kwargs: its arguments.
        method: how processes start.

    Raises:
        EnvWorkerError: it could not be made.
    """
    context: Any = mp.get_context(method)
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_scout, args=(theirs, Maker(function, kwargs)))
    process.start()
    theirs.close()
    try:
        if not ours.poll(timeout_s()):
            raise EnvWorkerError(f"The environment was not made within {timeout_s():g} s.")
        good, value = pickle.loads(ours.recv_bytes())
    except EOFError as error:
        process.join(5)
        raise EnvWorkerError(f"The process that makes the environment ended with code {process.exitcode}.") from error
    finally:
        if process.is_alive():
            process.join(1)
        if process.is_alive():
            process.kill()
        process.join()
        ours.close()
    if not good:
        raise EnvWorkerError(f"The environment could not be made. In its process:\n{value}")
    return value


def _scout(line: Connection, maker: Maker) -> None:
    import traceback

    from flambeau.rl.envs.env_creator import get_env_metadata

    try:
        found: Any = (True, get_env_metadata(maker))
    except BaseException as error:
        found = (False, "".join(traceback.format_exception(error)))
    line.send_bytes(dumps(found))

"""Which collector a user asks `Collector` for: one in this process, or one of several processes or machines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

BACKENDS = ("direct", "process", "ray", "rpc", "distributed", "submitit")
_OPTIONS = ("backend", "backend_options", "num_collectors", "sync")


def check_writing(reset_when_done: bool, replay_buffer: Any, extend_buffer: bool, *, whole: bool) -> None:
    """Compare what a collector is to do with its batches.

    Args:
        reset_when_done: episodes that ended begin anew.
        replay_buffer: where batches go; None for nowhere.
        extend_buffer: as whole ones.
        whole: something else needs whole ones.

    Raises:
        ValueError: episodes are not to begin anew.
        TypeError: steps go to a buffer one by one, and whole batches are needed.
    """
    if not reset_when_done:
        raise ValueError("reset_when_done=False is not possible: episodes that ended begin anew.")
    if replay_buffer is not None and not extend_buffer and whole:
        raise TypeError("postproc and split_trajs take whole batches; leave extend_buffer=True with them.")


def refuse_processes(name: str, kwargs: dict[str, Any]) -> None:
    """Subclasses of `Collector` are collectors in this process.

    Args:
        name: of the subclass.
        kwargs: its arguments.

    Raises:
        TypeError: they ask for others.
    """
    if any(kwargs.get(option) is not None for option in _OPTIONS):
        raise TypeError(f"{', '.join(_OPTIONS)} are for Collector, not for {name}.")


def in_processes(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A collector elsewhere, by the arguments of `Collector`; None for one in this process.

    Raises:
        TypeError: the number of processes is no number, or an argument is for collectors in this process.
        ValueError: arguments do not go together.
    """
    given = {name: kwargs[name] for name in kwargs if name not in _OPTIONS}
    count, sync = kwargs.get("num_collectors"), kwargs.get("sync")
    options = dict(kwargs.get("backend_options") or {})
    if count is not None and (isinstance(count, bool) or not isinstance(count, int)):
        raise TypeError(f"num_collectors must be a number of processes; got {count!r}.")
    if count is not None and count < 1:
        raise ValueError(f"num_collectors must be 1 or more; got {count}.")
    backend = kwargs.get("backend")
    chosen = backend or ("direct" if count is None else "process")
    if chosen not in BACKENDS:
        raise ValueError(f"backend must be one of {', '.join(BACKENDS)}; got {backend!r}.")
    if chosen == "direct":
        _check_direct(count, sync, options)
        return None
    clashes = sorted(set(options) & set(given))
    if clashes:
        raise ValueError(f"{clashes} are given twice: as arguments, and in backend_options.")
    create_env_fn, *rest = args if args else (given.pop("create_env_fn"),)
    makers = _makers(create_env_fn, count)
    for name in ("return_same_td", "interruptor", "track_traj_ids", "traj_pool"):
        if given.pop(name, None) not in (None, False, True):
            raise TypeError(f"{name} is for collectors in this process; leave it out with backend={chosen!r}.")
    return _ELSEWHERE[chosen](makers, rest, given | options, bool(sync), chosen)


def _check_direct(count: int | None, sync: bool | None, options: dict[str, Any]) -> None:
    if count not in (None, 1):
        raise ValueError("backend='direct' is one collector in this process; use backend='process' for several.")
    if sync is not None:
        raise ValueError("sync is for several processes; leave it out with backend='direct'.")
    if options:
        raise ValueError(f"backend_options are for other backends than 'direct'; got {sorted(options)}.")


def _makers(create_env_fn: Any, count: int | None) -> list[Any]:
    if isinstance(create_env_fn, Sequence):
        if count not in (None, len(create_env_fn)):
            raise ValueError(f"There are {len(create_env_fn)} functions that make environments, for {count} processes.")
        return list(create_env_fn)
    return [create_env_fn] * (count or 1)


def _process(makers: list[Any], rest: list[Any], given: dict[str, Any], sync: bool, _: str) -> Any:
    from flambeau.rl.collectors._multi_async import MultiAsyncCollector
    from flambeau.rl.collectors._multi_sync import MultiSyncCollector

    kwargs = given.pop("create_env_kwargs", None)
    if kwargs is not None:
        given["create_env_kwargs"] = [kwargs] * len(makers)
    return (MultiSyncCollector if sync else MultiAsyncCollector)(makers, *rest, **given)


def _distributed(makers: list[Any], rest: list[Any], given: dict[str, Any], sync: bool, backend: str) -> Any:
    from flambeau.rl.collectors.distributed import DistributedCollector

    given.setdefault("launcher", "submitit" if backend == "submitit" else "mp")
    return DistributedCollector(makers, *rest, sync=sync, **given)


def _rpc(makers: list[Any], rest: list[Any], given: dict[str, Any], sync: bool, _: str) -> Any:
    from flambeau.rl.collectors.distributed import RPCCollector

    given.setdefault("launcher", "mp")
    return RPCCollector(makers, *rest, sync=sync, **given)


def _ray(makers: list[Any], rest: list[Any], given: dict[str, Any], sync: bool, _: str) -> Any:
    from flambeau.rl.collectors.distributed import RayCollector

    return RayCollector(makers, *rest, sync=sync, **given)


_ELSEWHERE: dict[str, Callable[[list[Any], list[Any], dict[str, Any], bool, str], Any]] = {
    "process": _process, "distributed": _distributed, "submitit": _distributed, "rpc": _rpc, "ray": _ray
}  # fmt: skip

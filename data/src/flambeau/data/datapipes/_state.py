"""The state of a whole pipeline, gathered from its pipes and given back to them.

Each pipe has one record, in the order of `upstream`. A record is one of

- `{"state": {...}}`: the pipe's own values between two samples; it goes on from there.
- `{"replay": n}`: the pipe cannot tell its state (a class that declares none, or a buffer with open files in it). Its
  sources begin anew with the seeds of this pass, and it leaves out its first n samples.
- `{"fresh": true}`: not begun in this pass; with what the next `reset()` needs, such as a seed.

All values are plain, `_version` says how to read them.
"""

from __future__ import annotations

from typing import Any

from flambeau.data.datapipes._graph import is_pipe, sources, upstream
from flambeau.data.datapipes._methods import Methods
from flambeau.data.datapipes._serialization import Unstorable, freeze, thaw

VERSION = 1
# Where our pipes, and those that follow upstream's habits, keep what they read.
_SOURCE_NAMES = ("datapipe", "main_datapipe", "source_datapipe", "source_dp")


def gather(root: Any) -> dict[str, Any]:
    """The state of `root` and all pipes behind it; to be called between two samples."""
    if root._saved is not None:
        return root._saved
    pipes = upstream(root)
    # Readers first: a thread that waits for another one's samples can only be stopped while that one runs.
    held = [pipe for pipe in pipes if _ours(pipe)]
    for pipe in held:
        pipe.hold()
    try:
        return _gathered(root, pipes)
    finally:
        for pipe in held:
            pipe.release()


def _gathered(root: Any, pipes: list[Any]) -> dict[str, Any]:
    fresh = _fresh(pipes)
    try:
        records = _records(pipes, fresh)
    except _SharedReplay:
        records = [_origin(pipe, begun=id(pipe) not in fresh) for pipe in pipes]
        records[0] = _replay(root, root._yielded)
    named = [{"pipe": type(pipe).__name__, **record} for pipe, record in zip(pipes, records, strict=True)]
    return {"_version": VERSION, "pipes": named}


def apply(root: Any, saved: dict[str, Any]) -> None:
    """Give a state to `root` and all pipes behind it; their next iterators go on from there."""
    pipes = upstream(root)
    check(pipes, saved)
    for pipe, record in zip(pipes, saved["pipes"], strict=True):
        if not _ours(pipe):
            continue
        pipe._touched, pipe._begun = True, 0
        pipe._resuming = "state" in record or "replay" in record
        pipe._skip = 0
        if "origin" in record:
            pipe.load_origin(thaw(record["origin"]))
        if "state" in record:
            pipe._yielded = record["yielded"]
            pipe.set_state(thaw(record["state"]))
        elif "replay" in record:
            pipe._yielded = pipe._skip = record["replay"]
            pipe.reset()


def check(pipes: list[Any], saved: Any) -> None:
    """Make sure that a state belongs to a pipeline like this one.

    Raises:
        ValueError: it is no state, of a newer version, or of other pipes.
    """
    if not isinstance(saved, dict) or "pipes" not in saved:
        raise ValueError(f"expected the state of a pipeline, a dict with 'pipes'; got {str(saved)[:80]}.")
    if saved.get("_version") != VERSION:
        raise ValueError(f"the state has version {saved.get('_version')}, this release reads {VERSION}; upgrade it.")
    theirs, ours = [record["pipe"] for record in saved["pipes"]], [type(pipe).__name__ for pipe in pipes]
    if theirs != ours:
        raise ValueError(
            f"the state is of another pipeline: it has {' <- '.join(theirs)}, this is {' <- '.join(ours)}. Build the "
            "pipeline as it was when the state was taken."
        )


class _SharedReplay(Exception):
    """A pipe that has to begin anew also feeds one that does not: then everything begins anew."""


def _ours(pipe: Any) -> bool:
    return isinstance(pipe, Methods) and hasattr(pipe, "_resuming")


def _fresh(pipes: list[Any]) -> set[int]:
    """Pipes that were not begun since those that read from them were."""
    readers: dict[int, list[Any]] = {}
    for pipe in pipes:
        for source in sources(pipe):
            readers.setdefault(id(source), []).append(pipe)
    fresh: set[int] = set()
    for pipe in _readers_first(pipes, readers):
        active = [reader for reader in readers.get(id(pipe), []) if id(reader) not in fresh]
        unread = pipe is not pipes[0] and not active
        if not _ours(pipe) or unread or not pipe._has_begun(active):
            fresh.add(id(pipe))
    return fresh


def _readers_first(pipes: list[Any], readers: dict[int, list[Any]]) -> list[Any]:
    done: dict[int, Any] = {}
    for pipe in pipes:
        _after_readers(pipe, readers, done)
    return list(done.values())


def _after_readers(pipe: Any, readers: dict[int, list[Any]], done: dict[int, Any]) -> None:
    if id(pipe) not in done:
        for reader in readers.get(id(pipe), []):
            _after_readers(reader, readers, done)
        done[id(pipe)] = pipe


def _records(pipes: list[Any], fresh: set[int]) -> list[dict[str, Any]]:
    records: dict[int, dict[str, Any]] = {}
    renewed: set[int] = set()  # behind a pipe that is replayed
    replayed: set[int] = set()
    for pipe in pipes:
        if id(pipe) in renewed or id(pipe) in fresh:
            records[id(pipe)] = _origin(pipe, begun=id(pipe) not in fresh)
            continue
        records[id(pipe)] = record = _record(pipe)
        if "replay" in record:
            replayed.add(id(pipe))
            renewed |= {id(behind) for behind in upstream(pipe)} - {id(pipe)}
    for pipe in pipes:
        if id(pipe) not in renewed | replayed | fresh and any(id(source) in renewed for source in sources(pipe)):
            raise _SharedReplay
    for number in renewed & records.keys():
        if "fresh" not in records[number]:  # recorded before a later branch turned out to be replayed
            raise _SharedReplay
    return [records[id(pipe)] for pipe in pipes]


def _record(pipe: Any) -> dict[str, Any]:
    if pipe._skip:  # what is to be replayed was not asked for yet
        return _replay(pipe, pipe._skip)
    state = None if _reads_foreign(pipe) else pipe.get_state()
    if state is not None:
        try:
            return {"state": freeze(state), "yielded": pipe._yielded}
        except Unstorable:
            pass  # replayed instead
    return _replay(pipe, pipe._yielded)


def _reads_foreign(pipe: Any) -> bool:
    """Whether a source keeps no position for us: a pipe of torch's, or any iterable in the place of a pipe."""
    if any(not _ours(source) and hasattr(source, "__iter__") for source in sources(pipe)):
        return True
    return any(name in pipe.__dict__ and not is_pipe(pipe.__dict__[name]) for name in _SOURCE_NAMES)


def _replay(pipe: Any, count: int) -> dict[str, Any]:
    if not pipe._replayable:
        raise _SharedReplay
    record = _origin(pipe, begun=True)
    del record["fresh"]
    return {"replay": count, **record}


def _origin(pipe: Any, *, begun: bool) -> dict[str, Any]:
    origin = pipe.get_origin(begun) if _ours(pipe) else None
    return {"fresh": True} if not origin else {"fresh": True, "origin": freeze(origin)}

"""Looking at pipelines and changing them: finding, replacing and removing pipes, giving them seeds."""

from __future__ import annotations

import copy
import itertools
import pickle
from collections.abc import Iterable
from typing import Any

from flambeau.data.dataloader2.random import SeedGenerator
from flambeau.data.datapipes._graph import is_pipe, sources, traverse_dps, upstream
from flambeau.data.datapipes.datapipe import IterDataPipe, MapDataPipe
from flambeau.data.datapipes.iter.sharding import is_sharding

DataPipe = IterDataPipe[Any] | MapDataPipe[Any]
DataPipeGraph = dict[int, tuple[Any, dict[int, Any]]]

__all__ = [
    "DataPipe",
    "DataPipeGraph",
    "clone",
    "deserialize_datapipe",
    "find_dps",
    "list_dps",
    "remove_dp",
    "replace_dp",
    "serialize_datapipe",
    "set_datapipes_seed",
    "set_graph_random_seed",
    "traverse_dps",
]


def find_dps(graph: DataPipeGraph, dp_type: type) -> list[Any]:
    """The pipes of exactly this class, each once."""
    return [pipe for pipe in list_dps(graph) if type(pipe) is dp_type]


def list_dps(graph: DataPipeGraph, exclude_dps: Any | Iterable[Any] | None = None) -> list[Any]:
    """The pipes of a graph, each once, breadth first from its end.

    Args:
        graph: from `traverse_dps`.
        exclude_dps: a pipe, or several, to leave out together with everything behind them.
    """
    excluded = [] if exclude_dps is None else [exclude_dps] if is_pipe(exclude_dps) else list(exclude_dps)
    left_out = {id(behind) for pipe in excluded for behind in upstream(pipe)}
    found: dict[int, Any] = {}
    level = [graph]
    while level:
        following = []
        for number, (pipe, behind) in itertools.chain.from_iterable(one.items() for one in level):
            if number not in left_out and number not in found:
                found[number] = pipe
                following.append(behind)
        level = following
    return list(found.values())


def replace_dp(graph: DataPipeGraph, old_datapipe: Any, new_datapipe: Any) -> DataPipeGraph:
    """Put a pipe in another one's place wherever that is read; returns the new graph.

    Pipes are changed in place. When the last pipe is replaced, the graph of the new one is returned.
    """
    ends = [pipe for pipe, _ in graph.values()]
    skipped = {id(pipe) for pipe in upstream(new_datapipe)}  # the new pipe may itself read from the old one
    for pipe in list_dps(graph):
        if id(pipe) not in skipped:
            _exchange(pipe, old_datapipe, new_datapipe)
    return _graph_of(new_datapipe if pipe is old_datapipe else pipe for pipe in ends)


def remove_dp(graph: DataPipeGraph, datapipe: Any) -> DataPipeGraph:
    """Take a pipe with one source out, so that its readers read from that; returns the new graph.

    Raises:
        RuntimeError: it has no source, or several.
    """
    behind = sources(datapipe)
    if len(behind) != 1:
        raise RuntimeError(f"{datapipe!r} has {len(behind)} sources; only a pipe with one source can be taken out.")
    return replace_dp(graph, datapipe, behind[0])


def _graph_of(ends: Iterable[Any]) -> DataPipeGraph:
    graph: DataPipeGraph = {}
    for end in ends:
        graph |= traverse_dps(end)
    return graph


def _exchange(holder: Any, old: Any, new: Any) -> None:
    for name, value in list(holder.__dict__.items()):
        changed = _exchanged(value, old, new)
        if changed is not value:
            holder.__dict__[name] = changed


def _exchanged(value: Any, old: Any, new: Any) -> Any:
    if value is old:
        return new
    if isinstance(value, (list, tuple, set, frozenset)) and any(is_pipe(item) or _nested(item) for item in value):
        items = [_exchanged(item, old, new) for item in value]
        return value if all(a is b for a, b in zip(items, value, strict=True)) else type(value)(items)
    if isinstance(value, dict):
        pairs = [(_exchanged(key, old, new), _exchanged(item, old, new)) for key, item in value.items()]
        same = all(a is c and b is d for (a, b), (c, d) in zip(pairs, value.items(), strict=True))
        return value if same else dict(pairs)
    return value


def _nested(value: Any) -> bool:
    return isinstance(value, (list, tuple, dict, set, frozenset))


def is_random(pipe: Any) -> bool:
    """Whether a pipe takes a seed."""
    return callable(getattr(type(pipe), "set_seed", None))


def set_datapipes_seed(datapipes: list[Any], seed_generator: SeedGenerator, distributed_shared: bool) -> None:
    """Give the random pipes among these a seed each, in this order.

    Args:
        datapipes: the pipes.
        seed_generator: where the seeds come from.
        distributed_shared: seeds that are the same in all processes.
    """
    draw = seed_generator.generate_shared_seed if distributed_shared else seed_generator.generate_seed
    for pipe in datapipes:
        if is_random(pipe):
            pipe.set_seed(draw())


def set_graph_random_seed(datapipe: Any, seed_generator: SeedGenerator) -> Any:
    """Give every random pipe a seed: before a sharding the shared ones, after it this worker's.

    Args:
        datapipe: the last pipe.
        seed_generator: where the seeds come from.

    Returns:
        The pipe.
    """
    graph = traverse_dps(datapipe)
    shardings = [pipe for pipe in list_dps(graph) if is_sharding(pipe)]
    before = list_dps(_graph_of(shardings))
    set_datapipes_seed(before, seed_generator, distributed_shared=True)
    set_datapipes_seed(list_dps(graph, exclude_dps=shardings), seed_generator, distributed_shared=False)
    return datapipe


def clone(datapipe: Any) -> Any:
    """A copy of a whole pipeline; the pipeline itself where something in it, such as a generator, cannot be copied."""
    try:
        return copy.deepcopy(datapipe)
    except TypeError:
        return datapipe


def serialize_datapipe(datapipe: Any) -> bytes:
    """A pipeline as bytes; with cloudpickle where it is installed and needed, as for lambdas.

    Raises:
        RuntimeError: something in it cannot be pickled.
    """
    try:
        return b"P" + pickle.dumps(datapipe)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        try:
            import cloudpickle
        except ModuleNotFoundError:
            raise RuntimeError(
                f"the pipeline cannot be pickled ({error}); define its functions at the top of a module, "
                "or install cloudpickle."
            ) from error
        try:
            return b"C" + bytes(cloudpickle.dumps(datapipe))
        except (pickle.PicklingError, AttributeError, TypeError) as second:
            raise RuntimeError(f"the pipeline cannot be pickled: {second}") from second


def deserialize_datapipe(serialized_state: bytes) -> Any:
    """The pipeline that `serialize_datapipe` stored; only from a source that you trust, as with any pickle."""
    return pickle.loads(serialized_state[1:])

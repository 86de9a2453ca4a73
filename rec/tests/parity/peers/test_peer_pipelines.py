"""Pipelines lose, trackers tell and replicated models hold what torchrec's do, where those run on the CPU."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
import torch
from distributed_ranks import results
from pipeline_ranks import PROGRAMS

from flambeau.core.testing.differential import Cell, Suite

pytest.importorskip("torchrec", reason="needs torchrec; `nox -s parity -- peers rec` has it")

SUITE = Suite(
    "pipelines",
    ours="flambeau.rec",
    peer="torchrec",
    roots=("flambeau.rec", "torchrec"),
    differences=Path(__file__).with_name("differences.toml"),
)

# ----- programs of one process ----------------------------------------------------------------------------------------

ALONE = [
    "[(one.name, one.value) for one in P.types.PipelinePhase]",
    "[(one.name, one.value) for one in P.types.PipelineState]",
    "[(one.name, one.value) for one in T.types.TrackingMode]",
    "[(one.name, one.value) for one in T.types.UpdateMode]",
    "[(one.name, one.value) for one in T.types.Trackers]",
    "[(one.name, one.value) for one in P.backward_injection.InjectionTargetType]",
    "repr(T.types.DeltaTrackerConfig())",
    "repr(T.types.RawIdTrackerConfig())",
    "repr(T.types.ModelTrackerConfigs())",
    "vars(T.types.IndexedLookup(1, ids(1, 2), None))",
    "vars(T.types.RawIndexedLookup(1, ids(1, 2)))",
    "vars(T.types.UniqueRows(ids(1, 2), None))",
    "vars(P.train_pipelines.TorchCompileConfig())",
    "P.train_pipelines.TorchCompileConfig(compile_on_iter=0, dynamic=True).backend",
    "vars(P.pipeline_context.TrainPipelineContext())",
    "vars(P.pipeline_context.PrefetchTrainPipelineContext(index=3))",
    "vars(P.pipeline_context.EmbeddingTrainPipelineContext(version=1))",
    "vars(P.pipeline_context.CPUEmbeddingTrainPipelineContext())",
    "repr(P.backward_injection.FirstGradTensorFinder())",
    "P.backward_injection.OutputDistTensorFinder().sharding_type.value",
    "vars(P.backward_injection.InjectionSite('a', None))['hook_position']",
    "P.backward_injection.FirstGradTensorFinder()((), {}, [x, y])",
    "P.backward_injection.FirstGradTensorFinder()((), {}, {'a': x, 'b': (y, z)})",
    "P.backward_injection.FirstGradTensorFinder()((), {}, x)",
    "P.backward_injection.FirstGradTensorFinder(use_input=True)((x, y), {}, z)",
    "P.backward_injection.OutputDistTensorFinder()((), {}, y)",
    "P.backward_injection.will_hook_fire(torch.nn.Parameter(x))",
    "hooked('second')",
    "hooked('second', target_type=P.backward_injection.InjectionTargetType.PARAM_GRAD)",
    "hooked('second', target_type=P.backward_injection.InjectionTargetType.PARAM_GRAD, hook_position=0.0)",
    "hooked('third')",
    "hooked('first', finder=P.backward_injection.FirstGradTensorFinder(use_input=True))",
    "L.ARG_SIZE_LIMIT",
    "str(L.LazyStr(lambda: 'a'))",
    "f\"{L.LazyStr(lambda: 'a')}\"",
    "staged([1, 2, 3, 4], 1)",
    "staged([1, 2, 3, 4], 3)",
    "staged([1], 3)",
    "staged([], 2)",
    "staged([1, 2, 3, 4, 5, 6], 2, flush=2)",
    "staged([1, 2, 3], 3, flush=1)",
    "staged([1, 2, 3, 4, 5, 6, 7, 8], 3, flush=4)",
    "P.train_pipelines.StagedTrainPipeline([P.pipeline_stage.PipelineStage('a', abs, stream)] * 3, "
    "compute_stream=stream).num_stages",
    "taken(P.utils.FutureDeque([1, 2, 3]))",
    "taken(P.utils.FutureDeque([later(1), 2, later(3)]))",
    "P.utils.get_h2d_func(x, torch.device('cpu'))",
]
STORES = [
    "",
    "s.append(0, 'a', ids(3, 1, 3), {}); s.append(1, 'a', ids(1, 2), {}); s.append(1, 'b', ids(5), {})",
    "s.append(0, 'a', ids(3, 1, 3), {}); s.append(1, 'a', ids(1, 2), {}); s.compact(0, 2)",
    "s.append(0, 'a', ids(3, 1), {}); s.append(1, 'a', ids(1, 2), {}); s.append(2, 'a', ids(9), {}); s.compact(1, 2)",
    "s.append(0, 'a', ids(3), {}); s.append(1, 'a', ids(1, 2), {}); s.delete(1)",
    "s.append(0, 'a', ids(3), {}); s.append(1, 'b', ids(1, 2), {}); s.delete(1)",
    "s.append(0, 'a', ids(3), {}); s.delete()",
    "s.append(0, 'a', ids(), {}); s.append(1, 'a', ids(1), {})",
    "s.compact(2, 1)",
]


def part(library: Any, path: str) -> Any:
    return importlib.import_module(f"{library.__name__}.distributed.{path}")


class Package:
    """Modules of a package, by attributes."""

    def __init__(self, library: Any, path: str) -> None:
        self._library, self._path = library, path

    def __getattr__(self, name: str) -> Any:
        return part(self._library, f"{self._path}.{name}")


class CpuStream(torch.cpu.Stream):
    """One that says where it is, as those of accelerators do."""

    device = torch.device("cpu")


def ids(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int64)


def names(library: Any) -> dict[str, Any]:
    pipelines = Package(library, "train_pipeline")

    def hooked(fqn: str, finder: Any = None, **options: Any) -> Any:
        torch.manual_seed(0)
        model = torch.nn.Sequential()
        model.add_module("first", torch.nn.Linear(2, 3))
        model.add_module("second", torch.nn.Linear(3, 1))
        injection, seen = pipelines.backward_injection, []
        site = injection.InjectionSite(fqn, finder or injection.FirstGradTensorFinder(), **options)
        handle = injection.register_backward_hook(site, model, lambda gradient: seen.append(gradient.clone()))
        for _ in range(2):
            model(torch.ones(4, 2)).sum().backward()
            handle.remove()
        return seen

    def staged(values: list[int], count: int, flush: int | None = None) -> Any:
        seen: list[Any] = []

        def stage(number: int) -> Any:
            def run(x: Any) -> Any:
                seen.append((number, int(x)))
                return x + 100

            return pipelines.pipeline_stage.PipelineStage(
                f"stage {number}", run, CpuStream(), fill_callback=lambda: seen.append(("filled", number)),
                data_exhausted_callback=lambda: seen.append(("ended", number)),
            )  # fmt: skip

        with pytest.MonkeyPatch.context() as patch:
            if library.__name__ == "torchrec":
                patch.setattr(torch, "get_device_module", lambda device=None: torch.cpu)
                patch.setattr(torch.Tensor, "record_stream", lambda tensor, stream: None)
            pipeline = pipelines.train_pipelines.StagedTrainPipeline(
                [stage(number) for number in range(count)], compute_stream=CpuStream(),
                on_flush_end=lambda: seen.append("flushed"),
            )  # fmt: skip
            source = iter([torch.tensor(value) for value in values])
            found = []
            for step in range(len(values) + 2):
                if step == flush:
                    pipeline.set_flush(True)
                one = pipeline.progress(source)
                seen.append(("given", None if one is None else int(one)))
                found.append(one)
        return found, seen

    def later(value: int) -> Any:
        from concurrent.futures import Future

        future: Any = Future()
        future.set_result(value)
        return future

    def taken(queue: Any) -> Any:
        return queue[0], queue.pop(), queue.popleft(), len(queue)

    return {
        "P": pipelines, "T": Package(library, "model_tracker"), "L": part(library, "logger"), "torch": torch,
        "ids": ids, "x": torch.ones(2), "y": torch.ones(3, requires_grad=True), "z": torch.zeros(1, requires_grad=True),
        "hooked": hooked, "staged": staged, "later": later, "taken": taken, "stream": CpuStream(),
    }  # fmt: skip


def evaluated(library: Any, text: str) -> Any:
    return eval(text, names(library))


def stored(library: Any, text: str, mode: str, kind: str) -> Any:
    tracker = Package(library, "model_tracker")
    store = getattr(tracker.delta_store, kind)(tracker.types.UpdateMode(mode))
    for at, line in enumerate(one for one in text.split("; ") if one):
        states = "" if mode == "none" else f", torch.arange(float(len(given))) + {10 * at}"
        if ".append" in line:
            batch, name, rest = line.partition(".append(")[2].split(", ", 2)
            given = eval(rest.rpartition(", {}")[0], {"ids": ids})
            eval(f"s.append({batch}, {name}, given{states})", {"s": store, "given": given, "torch": torch})
        else:
            eval(line, {"s": store})
    found = {
        f"from {begin}": {fqn: (rows.ids, rows.states) for fqn, rows in store.get_unique(begin).items()}
        for begin in (0, 1)
    }
    lookups = store.get_indexed_lookups(0, 2)
    found["lookups"] = {fqn: [(one.batch_idx, one.ids) for one in parts] for fqn, parts in lookups.items()}
    return found


for _text in ALONE:
    SUITE.add(
        Cell(f"alone/{_text}", "alone", lambda library, given, text=_text: evaluated(library, text), lambda library: {})
    )
for _text in STORES:
    for _mode in ("none", "first", "last"):
        SUITE.add(
            Cell(
                f"stores/{_mode}/{_text}",
                "stores",
                lambda library, given, text=_text, mode=_mode: stored(library, text, mode, "DeltaStoreTrec"),
                lambda library: {},
            )
        )

# ----- programs of two processes --------------------------------------------------------------------------------------


def on_two(library: Any, name: str) -> Any:
    found = results(library.__name__, "pipeline_ranks")[name]
    for one in found:
        if isinstance(one, Exception):
            raise one
    return found


for _name in PROGRAMS:
    SUITE.add(
        Cell(
            f"two/{_name}",
            _name.partition("/")[0],
            lambda library, given, name=_name: on_two(library, name),
            lambda library: {},
        )
    )


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)


def test_every_intended_difference_is_one():
    SUITE.check_differences()

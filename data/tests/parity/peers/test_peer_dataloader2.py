"""DataLoader2 gives the samples, orders and errors of TorchData 0.7.1 with each reading service and number of workers."""

# ruff: noqa: E501  # a program is easier to read on one line

from __future__ import annotations

import multiprocessing
from functools import partial
from typing import Any

import pytest
from torchdata_peers import DIFFERENCES, FUNCTIONS, ROOTS, import_peers, pipes_of

from flambeau.core.testing.differential import Cell, Suite, program

import_peers()

SUITE = Suite(
    "dataloader2", ours=pipes_of("flambeau.data"), peer=pipes_of("torchdata"), roots=ROOTS, differences=DIFFERENCES
)
N = "IterableWrapper(range(12))"
DISPATCH = "sharding_round_robin_dispatch(SHARDING_PRIORITIES.MULTIPROCESSING)"
PIPES = {
    "sharded": f"{N}.sharding_filter()",
    "sharded-map": f"{N}.sharding_filter().map(double)",
    "not-sharded": f"{N}.map(double)",
    "batched-behind": f"{N}.sharding_filter().batch(2)",
    "batched-before": f"{N}.batch(2).sharding_filter()",
    "shuffled-before": f"{N}.shuffle().sharding_filter()",
    "shuffled-behind": f"{N}.sharding_filter().shuffle()",
    "shuffled-both": f"{N}.shuffle().sharding_filter().shuffle(buffer_size=3)",
    "shuffled-twice-before": f"{N}.shuffle().map(double).shuffle(buffer_size=3).sharding_filter()",
    "in-batch-shuffled": f"{N}.batch(4).in_batch_shuffle().sharding_filter()",
    "uneven": "IterableWrapper(range(7)).sharding_filter()",
    "fewer-than-workers": "IterableWrapper(range(1)).sharding_filter()",
    "empty": "IterableWrapper([]).sharding_filter()",
    "forked": f"a, b = {N}.sharding_filter().fork(2); p = a.zip(b)",
    "zipped": f"{N}.sharding_filter().zip({N}.map(negative).sharding_filter())",
    "fails": f"{N}.sharding_filter().map(fail_at_7)",
    "tensors": f"{N}.sharding_filter().map(torch.tensor)",
    "map-pipe": "map_pipes.SequenceWrapper(range(6))",
    "map-pipe-sharded": "map_pipes.SequenceWrapper(range(6)).shuffle().sharding_filter()",
    "prefetched": f"{N}.sharding_filter().prefetch(2)",
    "dispatched": f"{N}.{DISPATCH}.map(double)",
    "dispatched-shuffled": f"{N}.shuffle().{DISPATCH}.map(double)",
    "dispatched-batched": f"{N}.{DISPATCH}.batch(2)",
    "dispatched-sharded": f"{N}.{DISPATCH}.sharding_filter().map(double)",
    "dispatched-zipped": f"{N}.{DISPATCH}.zip({N}.sharding_filter())",
    "dispatched-two": f"{N}.{DISPATCH}.zip({N}.map(negative).{DISPATCH}).map(add, input_col=[0, 1])",
    "dispatched-last": f"{N}.{DISPATCH}",
}
MAKE = "loader = DataLoader2(p, reading_service={service}); loader.seed({seed}); "
SERVICES = {
    "in-process": "InProcessReadingService()",
    "in-process-prefetch": "InProcessReadingService(prefetch_cnt=3)",
    "workers-0": "MultiProcessingReadingService(num_workers=0)",
    "workers-1": "MultiProcessingReadingService(num_workers=1)",
    "workers-2": "MultiProcessingReadingService(num_workers=2)",
}
VIEWS = {
    "samples": "found = outcomes(iter(loader)); loader.shutdown(); found",
    "begun-anew": "head = outcomes(iter(loader), 3); found = outcomes(iter(loader)); loader.shutdown(); [head, len(found)]",
}
LOADER = {
    "length": f"len(DataLoader2({N}))",
    "length-unknown": f"len(DataLoader2({N}.filter(is_even)))",
    "length-of-workers": f"len(DataLoader2({N}.sharding_filter(), reading_service=MultiProcessingReadingService(num_workers=2)))",
    "no-pipe": "iter(DataLoader2(None))",
    "seed-negative": f"DataLoader2({N}).seed(-1)",
    "seed-too-large": f"DataLoader2({N}).seed(2 ** 64)",
    "after-shutdown": f"loader = DataLoader2({N}); loader.shutdown(); iter(loader)",
    "shutdown-twice": f"loader = DataLoader2({N}); loader.shutdown(); loader.shutdown()",
    "context": f"with DataLoader2({N}) as loader:\n    found = list(loader)\nfound",
    "older-iterator": f"loader = DataLoader2({N}); old = iter(loader); next(old); new = iter(loader); next(old)",
    "limit": f"i = iter(DataLoader2({N})); i.limit(3); [outcomes(i, 4), i.resume(), outcomes(i, 4)]",
    "limit-workers": f"loader = DataLoader2({N}.sharding_filter(), reading_service=MultiProcessingReadingService(num_workers=2)); i = iter(loader); i.limit(3); found = [outcomes(i, 4), i.resume(), outcomes(i, 4)]; loader.shutdown(); found",
    "limit-none": f"i = iter(DataLoader2({N})); i.limit(3); outcomes(i, 3); i.limit(None); outcomes(i)",
    "original-kept": f"p = {N}.shuffle(); loader = DataLoader2(p, Shuffle(False)); list(loader); sorted(p)",
    "adapter-shuffle": f"list(DataLoader2({N}.shuffle(), Shuffle(False)))",
    "adapter-shuffle-on": f"list(DataLoader2({N}.shuffle().set_shuffle(False), Shuffle(True)))",
    "adapter-shuffle-adds": f"list(DataLoader2({N}, Shuffle(True)))",
    "adapter-shuffle-none": f"list(DataLoader2({N}.shuffle().set_shuffle(False), [Shuffle(None)]))",
    "adapter-many": f"list(DataLoader2({N}.shuffle(), [Shuffle(True), Shuffle(False)]))",
    "adapter-function": f"list(DataLoader2({N}, lambda p: p.map(double)))",
    "adapter-timeout-negative": "CacheTimeout(-1)",
    "worker-init": f"list(DataLoader2({N}.sharding_filter(), reading_service=MultiProcessingReadingService(num_workers=2, worker_init_fn=mapped_in_worker)))",
    "worker-reset": f"list(DataLoader2({N}.sharding_filter(), reading_service=MultiProcessingReadingService(num_workers=2, worker_reset_fn=reset_in_worker)))",
    "workers-negative": "MultiProcessingReadingService(num_workers=-1)",
    "workers-context": "MultiProcessingReadingService(num_workers=1, multiprocessing_context='thread')",
    "workers-no-prefetch": f"list(DataLoader2({N}.sharding_filter(), reading_service=MultiProcessingReadingService(num_workers=2, worker_prefetch_cnt=0, main_prefetch_cnt=0)))",
    "services-in-order": f"list(DataLoader2({N}, reading_service=SequentialReadingService(InProcessReadingService(), InProcessReadingService())))",
    "distributed-alone": f"list(DataLoader2({N}, reading_service=DistributedReadingService()))",
    "state-resumed": f"loader = DataLoader2({N}); state = loader.state_dict(); list(DataLoader2.from_state(state, None))",
    "state-keys": f"sorted(set(DataLoader2({N}).state_dict()) & {{'serialized_datapipe', 'reading_service_state', 'randomness_state'}})",
    "state-loaded-late": f"loader = DataLoader2({N}); state = loader.state_dict(); next(iter(loader)); loader.load_state_dict(state)",
    "state-of-seeds": f"loader = DataLoader2({N}.shuffle(), reading_service=InProcessReadingService()); loader.seed(5); state = loader.state_dict(); a = list(loader); again = DataLoader2.from_state(state, InProcessReadingService()); a == list(again)",
}
TORCH = {
    "sharded": f"{N}.sharding_filter()",
    "shuffled": f"{N}.shuffle().sharding_filter()",
    "batched": f"{N}.shuffle(buffer_size=4).batch(3).sharding_filter()",
    "not-sharded": f"{N}.map(double)",
    "forked": f"a, b = {N}.sharding_filter().fork(2); p = a.zip(b)",
    "fails": f"{N}.sharding_filter().map(fail_at_7)",
    "map-pipe": "map_pipes.SequenceWrapper(range(6)).map(double)",
}


def mapped_in_worker(pipe: Any, info: Any) -> Any:
    """Adds the worker's number."""
    return pipe.map(partial(pair, info.worker_id, info.num_workers))


def pair(*values: Any) -> tuple[Any, ...]:
    """Its arguments."""
    return values


def reset_in_worker(pipe: Any, info: Any, seeds: Any) -> Any:
    """Changes nothing."""
    return pipe


NAMES = FUNCTIONS | {"mapped_in_worker": mapped_in_worker, "reset_in_worker": reset_in_worker}


def built(pipe: str) -> str:
    return f"{pipe}; " if "p = " in pipe else f"p = {pipe}; "


def cells(area: str, programs: dict[str, str]) -> list[Cell]:
    return [Cell(f"{area}/{name}", area, program(text, NAMES)) for name, text in programs.items()]


def with_services() -> dict[str, str]:
    return {
        f"{name}/{service}/{view}": built(pipe) + MAKE.format(service=call, seed=7) + text
        for name, pipe in PIPES.items()
        for service, call in SERVICES.items()
        for view, text in VIEWS.items()
        # Upstream waits for ever when a pass of dispatched samples is left.
        if not (view == "begun-anew" and ("dispatched" in name or name == "fails"))
    }


def with_torch() -> dict[str, str]:
    load = "loader = torch.utils.data.DataLoader(p, batch_size=None, num_workers={}, shuffle={}); [outcomes(iter(loader)), outcomes(iter(loader))]"
    return {
        f"{name}/workers-{workers}/shuffle-{shuffle}": built(pipe) + load.format(workers, shuffle)
        for name, pipe in TORCH.items()
        for workers in (0, 1, 2)
        for shuffle in ((None,) if name == "map-pipe" else (None, True, False))
    }


SUITE.add(*cells("services", with_services()), *cells("loader", LOADER), *cells("torch-loader", with_torch()))


@pytest.fixture(autouse=True)
def end_processes_left_behind():
    """TorchData's dispatching process outlives `shutdown` and never sleeps: together they would take the whole machine."""
    yield
    for process in multiprocessing.active_children():
        process.kill()
        process.join()


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_give_the_same(cell):
    SUITE.check(cell)


def test_every_intended_difference_is_one():
    SUITE.check_differences()

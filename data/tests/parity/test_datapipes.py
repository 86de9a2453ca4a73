"""Golden values of TorchData 0.7.1: every case gives what the peer gave, or raises what it raised."""

import io
import warnings

import pytest
import torch
from torch.utils.data import DataLoader

import flambeau.data.datapipes.iter as pipes
from flambeau.core.testing.golden import golden_values
from flambeau.data.datapipes.map import SequenceWrapper


def recorded() -> dict:
    return golden_values("datapipes", __file__)


def plain(value):
    """The form in which results are recorded."""
    if isinstance(value, tuple):
        return {"tuple": [plain(item) for item in value]}
    if isinstance(value, torch.Tensor):
        return {"tensor": value.tolist()}
    if isinstance(value, bytes):
        return {"bytes": value.decode()}
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


def run(code: str):
    from flambeau.data.dataloader2 import DataLoader2, InProcessReadingService

    names = {name: getattr(pipes, name) for name in pipes.__all__} | {
        "SequenceWrapper": SequenceWrapper,
        "DataLoader2": DataLoader2,
        "InProcessReadingService": InProcessReadingService,
        "DataLoader": DataLoader,
        "torch": torch,
        "io": io,
    }
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="two samples have the key")
        result = eval(code, names)
        return plain(result if isinstance(result, (int, str, list)) else list(result))


@pytest.mark.parametrize("case", recorded()["cases"], ids=lambda case: f"{case['pipe']}: {case['code'][:60]}")
def test_a_pipe_gives_what_the_peer_gave(case):
    if "raises" in case:
        with pytest.raises(getattr(__import__("builtins"), case["raises"])):
            run(case["code"])
    elif "compare as a set" in case.get("note", ""):
        assert sorted(run(case["code"])) == sorted(case["expected"])
    else:
        assert run(case["code"]) == case["expected"]


def test_there_are_cases():
    assert len(golden_values("datapipes", __file__)["cases"]) == 114


def test_the_philox_engine_gives_the_recorded_numbers():
    from flambeau.data.dataloader2.random import PhiloxEngine

    for seed, values in golden_values("datapipes", __file__)["philox"].items():
        engine = PhiloxEngine(int(seed))
        assert [str(engine.generate()) for _ in range(4)] == values["generate"]
        assert [str(engine.spawn(0).generate())] == values["spawn0_generate"]
        assert [str(engine.spawn(3).generate())] == values["spawn3_generate"]


def test_the_seed_generator_gives_the_recorded_seeds():
    from flambeau.data.dataloader2.random import SeedGenerator

    expected = golden_values("datapipes", __file__)["seed_generator_123"]
    generator = SeedGenerator(123)
    assert [str(generator.spawn(1).generate_seed())] == expected["spawn1_worker"]
    assert [str(generator.generate_shared_seed()) for _ in range(3)] == expected["shared"]
    assert [str(generator.generate_seed()) for _ in range(3)] == expected["worker"]


def epochs(loader, count: int) -> list:
    loader.seed(123)
    with loader:
        return [list(loader) for _ in range(count)]


def pipeline():
    return pipes.IterableWrapper(range(12)).shuffle().sharding_filter()


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_workers_give_the_recorded_order_at_first_and_another_one_afterwards(workers):
    from flambeau.data.dataloader2 import DataLoader2, InProcessReadingService, MultiProcessingReadingService

    values = golden_values("datapipes", __file__)["multiprocessing"]
    recorded_orders = next(value for key, value in values.items() if key.startswith("DataLoader2"))
    found = epochs(DataLoader2(pipeline(), reading_service=MultiProcessingReadingService(workers)), 3)
    alone = epochs(DataLoader2(pipeline(), reading_service=InProcessReadingService()), 3)
    assert found[0] == recorded_orders[str(workers)][0]
    assert found == alone  # the peer repeats the first order
    assert len({tuple(order) for order in found}) == 3


def test_a_dispatching_process_gives_the_recorded_order():
    from flambeau.data.dataloader2 import DataLoader2, MultiProcessingReadingService

    values = golden_values("datapipes", __file__)["multiprocessing"]
    expected = next(value for key, value in values.items() if key.startswith("DataLoader2"))["dispatch_2"]
    source = pipes.IterableWrapper(range(12)).shuffle()
    dispatched = source.sharding_round_robin_dispatch(pipes.SHARDING_PRIORITIES.MULTIPROCESSING)
    found = epochs(DataLoader2(dispatched.map(abs), reading_service=MultiProcessingReadingService(2)), 2)
    assert found[0] == expected[0]
    assert found[1] != found[0]


@pytest.mark.parametrize("workers", [0, 2])
def test_the_loader_of_torch_gives_the_recorded_batches(workers):
    values = golden_values("datapipes", __file__)["multiprocessing"]
    expected = next(value for key, value in values.items() if key.startswith("DataLoader("))
    torch.manual_seed(0)
    loader = DataLoader(pipeline(), batch_size=4, num_workers=workers, shuffle=True)
    assert [batch.tolist() for batch in loader] == expected[str(workers)]

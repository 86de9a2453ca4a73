"""Runs the checks of checkpoints: on two processes, and on two hosts of two; and checkpoints of one process alone."""

from __future__ import annotations

import pytest
import torch
from models import ranker
from processes import names_of, outcomes

from flambeau.rec import checkpoint

MODULES = ["checks_checkpoints"]


@pytest.fixture(scope="module", params=[2, pytest.param(4, marks=pytest.mark.slow)])
def found(request):
    return outcomes(MODULES, size=request.param, local_size=2)


@pytest.mark.parametrize("name", names_of(MODULES))
def test_all_processes_pass(found, name):
    for rank, error in enumerate(found[name]):
        assert error is None, f"process {rank}: {error}"


def test_one_process_saves_and_loads_without_a_process_group(tmp_path):
    given, taken = ranker(seed=1), ranker(seed=2)
    checkpoint.save(given, tmp_path / "alone", extra={"epoch": 3})
    assert checkpoint.load(taken, tmp_path / "alone") == {"epoch": 3}
    for name, tensor in given.state_dict().items():
        assert torch.equal(tensor, taken.state_dict()[name])


def test_a_checkpoint_is_replaced_by_the_next_one(tmp_path):
    for seed in (1, 2, 3):
        checkpoint.save(ranker(seed=seed), tmp_path)
        assert len(list(tmp_path.iterdir())) == 2
    taken = ranker()
    checkpoint.load(taken, tmp_path)
    assert torch.equal(taken.over.weight, ranker(seed=3).over.weight)


def test_folders_of_torch_are_loaded_as_well(tmp_path):
    import torch.distributed.checkpoint as dcp

    with pytest.warns(UserWarning, match="single process"):
        dcp.save({"model": ranker(seed=4).state_dict()}, checkpoint_id=tmp_path / "torch", no_dist=True)
    taken = ranker()
    checkpoint.load(taken, tmp_path / "torch")
    assert torch.equal(taken.over.weight, ranker(seed=4).over.weight)

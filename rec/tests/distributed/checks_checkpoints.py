"""Checks that checkpoints are loaded by models of other plans, and stay whole."""

from __future__ import annotations

import os
import shutil
from unittest import mock

import torch
import torch.distributed as dist
from checks_training import CPU, MIXED, STATE_TOLERANCE, Alone, Trained, assert_same_state, env, local, whole
from models import POOLED_KINDS, bag_tables, plan, ranker
from processes import World

from flambeau.rec import checkpoint
from flambeau.rec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from flambeau.rec.distributed.model_parallel import DistributedModelParallel
from flambeau.rec.distributed.types import ShardingPlan
from flambeau.rec.errors import OptionError

EXACT = {"rtol": 0, "atol": 0}


def gathered(trained: Trained) -> dict[str, torch.Tensor]:
    """The whole of each tensor of a model."""
    state = {}
    for name, tensor in trained.model.state_dict().items():
        sum_of_parts = torch.zeros(tensor.size())
        seen = torch.zeros(tensor.size())
        for offsets, part in whole(tensor):
            place = tuple(slice(at, at + n) for at, n in zip(offsets, part.shape, strict=True))
            sum_of_parts[place] += part.detach()
            seen[place] += 1
        dist.all_reduce(sum_of_parts)
        dist.all_reduce(seen)
        state[name] = sum_of_parts / seen
    return state


def trained_for(world: World, kinds: list[str], steps: int = 2) -> Trained:
    made = Trained(kinds, world)
    for step in range(steps):
        made.step(world.rank, step)
    return made


def check_each_plan_is_loaded_by_each_other(world: World):
    for at, kind in enumerate(POOLED_KINDS):
        given = trained_for(world, [kind])
        wanted, folder = gathered(given), world.folder / f"each{at}"
        checkpoint.save(given.model, folder)
        for other in POOLED_KINDS:
            taken = Trained([other], world, seed=5, turn=1)
            checkpoint.load(taken.model, folder)
            assert_same_state(taken.model.state_dict(), wanted, f"{kind} to {other}", **EXACT)


def check_training_goes_on_from_tables_to_rows_to_copies_to_one_process(world: World):
    alone, given = Alone(world), Trained(["table_wise"], world)
    for step in range(2):
        alone.step(step)
        given.step(world.rank, step)
    for at, kinds in enumerate((["row_wise"], ["grid_shard", "column_wise"], ["table_row_wise"])):
        folder = world.folder / f"chain{at}"
        checkpoint.save(given.model, folder, given.optimizer, extra={"step": at, "name": "chain"})
        given = Trained(kinds, world, seed=3 + at, turn=1)
        assert checkpoint.load(given.model, folder, given.optimizer) == {"step": at, "name": "chain"}
        alone.step(2 + at)
        given.step(world.rank, 2 + at)
        assert_same_state(given.model.state_dict(), alone.model.state_dict(), str(kinds), **STATE_TOLERANCE)
    folder = world.folder / "chain"
    checkpoint.save(given.model, folder)
    copies = Trained(["data_parallel"], world, seed=9)
    checkpoint.load(copies.model, folder)
    assert_same_state(copies.model.state_dict(), gathered(given), "copies", **EXACT)
    plain = ranker(seed=8)
    checkpoint.load(plain, folder)
    assert_same_state(plain.state_dict(), gathered(given), "a model without a plan", **EXACT)


def check_the_first_process_reads_for_all(world: World):
    given = trained_for(world, MIXED)
    wanted, folder = gathered(given), world.folder / "first"
    checkpoint.save(given.model, folder, given.optimizer, extra={"step": 2})
    dist.barrier()
    others = ["row_wise", "column_wise", "grid_shard", "data_parallel"]
    for piece_bytes in (1, 100, 1 << 20):
        taken = Trained(others, world, seed=5)
        # The others see no files.
        place = folder if world.rank == 0 else world.folder / "nowhere"
        found = checkpoint.load(taken.model, place, taken.optimizer, through_first=True, piece_bytes=piece_bytes)
        assert found == {"step": 2}
        assert_same_state(taken.model.state_dict(), wanted, f"pieces of {piece_bytes} bytes", **EXACT)
    again = Trained(others, world, seed=6)
    checkpoint.load(again.model, folder, again.optimizer)
    for step in range(2, 4):
        assert taken.step(world.rank, step) == again.step(world.rank, step)


def check_states_of_unspread_models_are_loaded_from_a_file(world: World):
    given, file = ranker(seed=7), world.folder / "pretrained.pt"
    if world.rank == 0:
        torch.save(given.state_dict(), file)
    dist.barrier()
    taken = Trained(MIXED, world)
    checkpoint.load(taken.model, file)
    assert_same_state(taken.model.state_dict(), given.state_dict(), "a file", **EXACT)


def check_a_save_that_is_killed_leaves_the_old_checkpoint(world: World):
    given, folder = trained_for(world, MIXED), world.folder / "killed"
    wanted = gathered(given)
    checkpoint.save(given.model, folder)
    given.step(world.rank, 7)

    class Killed(BaseException):
        pass

    def killed(*args, **kwargs):
        raise Killed

    # Before a part is written, and before the new checkpoint counts.
    for name in ("torch.distributed.checkpoint.state_dict_saver.save", "flambeau.rec.checkpoint._together"):
        calls = []

        def then_killed(*args, calls=calls, **kwargs):
            calls.append(args)
            if len(calls) > 1:
                raise Killed
            dist.barrier()

        try:
            with mock.patch(name, killed if name.startswith("torch") else then_killed):
                if not name.startswith("torch"):
                    with mock.patch("flambeau.rec.checkpoint.write_atomic", killed):
                        checkpoint.save(given.model, folder)
                else:
                    checkpoint.save(given.model, folder)
            raise AssertionError("the save went on")
        except Killed:
            dist.barrier()
        taken = Trained(["row_wise"], world, seed=4)
        checkpoint.load(taken.model, folder)
        assert_same_state(taken.model.state_dict(), wanted, name, **EXACT)
    checkpoint.save(given.model, folder)
    assert len(os.listdir(folder)) == 2, "remains of saves that were killed are removed by the next one"
    checkpoint.load(taken.model, folder)
    assert_same_state(taken.model.state_dict(), gathered(given), "the next one", **EXACT)


def check_what_does_not_fit_is_named(world: World):
    given, folder = Trained(["table_wise"], world), world.folder / "unfit"
    checkpoint.save(given.model, folder)
    placing = plan(["table_wise"], bag_tables(), world.size, local(world))
    larger = ranker()
    larger.over = torch.nn.Linear(larger.over.in_features, 3)
    model = DistributedModelParallel(
        larger, env(), CPU, ShardingPlan({"bags": placing}), [EmbeddingBagCollectionSharder()]
    )
    for options, fragment in (({}, "over.weight is (1, 32) in the checkpoint, and (3, 32)"),):
        try:
            checkpoint.load(model, folder, **options)
            raise AssertionError("it was loaded")
        except OptionError as error:
            assert fragment in str(error), error
    larger = ranker()
    larger.added = torch.nn.Linear(1, 1)
    try:
        checkpoint.load(larger, folder)
        raise AssertionError("it was loaded")
    except OptionError as error:
        assert "model.added.weight" in str(error)
    checkpoint.load(larger, folder, strict=False)
    try:
        checkpoint.save(given.model, folder, torch.optim.SGD(given.model.parameters(), lr=0.1))
        raise AssertionError("it was saved")
    except OptionError as error:
        assert "KeyedOptimizerWrapper" in str(error)
    # What one process cannot do keeps none of them waiting.
    unnamed = torch.optim.SGD(given.model.parameters(), lr=0.1) if world.rank == 1 else given.optimizer
    try:
        checkpoint.save(given.model, folder, unnamed)
        raise AssertionError("it was saved")
    except OptionError as error:
        assert "KeyedOptimizerWrapper" in str(error)
        assert ("process 1 of the group cannot go on" in str(error)) == (world.rank != 1), error
    try:
        checkpoint.load(given.model, folder if world.rank != 1 else world.folder / "nowhere")
        raise AssertionError("it was loaded")
    except (OptionError, FileNotFoundError) as error:
        assert "nowhere is no checkpoint" in str(error)
        assert isinstance(error, FileNotFoundError if world.rank == 1 else OptionError)
    dist.barrier()
    if world.rank == 0:
        shutil.rmtree(folder)
    dist.barrier()
    try:
        checkpoint.load(given.model, folder)
        raise AssertionError("it was loaded")
    except FileNotFoundError as error:
        assert "is no checkpoint" in str(error)

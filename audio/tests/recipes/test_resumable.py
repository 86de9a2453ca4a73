"""Training that goes on where it was interrupted."""

import io
import math
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from resumable import Data, Trainer, TrainingError, by_seconds, read_checkpoint, shuffled
from torch import nn

from flambeau.core.errors import CheckpointError

TARGETS = torch.linspace(-1, 1, 12)


class Points:
    """Items that depend on their number and, a little, on what is drawn for them."""

    def __getitem__(self, key):
        number, seed = key
        noise = torch.rand((), generator=torch.Generator().manual_seed(seed))
        return torch.tensor([TARGETS[number], 1 + 0.01 * noise]), TARGETS[number]


def collate(items):
    inputs, targets = zip(*items, strict=True)
    return torch.stack(inputs), torch.stack(targets)


def made(folder, **options):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Dropout(0.2), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    options = {"settings": {"lr": 0.05}, "clip": 1.0, "seed": 3, **options}
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.99)
    return Trainer(model, optimizer, folder=folder, schedule=schedule, **options)


def fitted(trainer, *, size=3, workers=0, **options):
    def loss(batch):
        inputs, targets = batch
        return (trainer.model(inputs)[:, 0] - targets).square().sum(), len(targets)

    data = Data(Points(), lambda epoch: shuffled(12, size, 3, epoch), collate, workers)
    trainer.fit(data, loss, **{"steps": 30, **options})
    return trainer


def weights(trainer):
    return torch.cat([one.detach().flatten() for one in trainer.model.parameters()])


def test_a_run_that_was_resumed_twice_equals_one_that_went_through(tmp_path):
    whole = fitted(made(tmp_path / "whole"))
    fitted(made(tmp_path / "cut"), stop_after=7)
    fitted(made(tmp_path / "cut"), stop_after=5)
    resumed = fitted(made(tmp_path / "cut"))
    assert (resumed.resumed_at, resumed.step) == (12, 30)
    assert torch.equal(weights(resumed), weights(whole))
    assert resumed.last_loss == whole.last_loss


def test_readers_in_other_processes_change_nothing(tmp_path):
    alone, helped = fitted(made(None), steps=8), fitted(made(None), steps=8, workers=2)
    assert torch.equal(weights(alone), weights(helped))


def test_the_loss_falls(tmp_path):
    first = fitted(made(None), steps=1).last_loss
    assert fitted(made(None), steps=120).last_loss < first / 3


def test_accumulated_batches_make_the_step_of_one_large_batch():
    def without_chance(trainer):
        trainer.model[2].p = 0.0
        return trainer

    large = fitted(without_chance(made(None)), size=12, steps=1)
    pieces = fitted(without_chance(made(None, accumulate=4)), size=3, steps=1)
    torch.testing.assert_close(weights(pieces), weights(large))


def test_measurements_after_epochs_are_kept(tmp_path):
    counter = iter(range(100))
    first = made(tmp_path)
    fitted(first, after_epoch=lambda: {"count": float(next(counter))}, stop_after=9)
    assert first.history == [{"count": 0.0}, {"count": 1.0}]
    assert made(tmp_path).history == first.history


def test_a_checkpoint_of_other_settings_is_refused(tmp_path):
    fitted(made(tmp_path), steps=2)
    with pytest.raises(CheckpointError, match=r"lr was 0\.05 and is 0\.1"):
        made(tmp_path, settings={"lr": 0.1})


def test_a_damaged_checkpoint_is_named(tmp_path):
    (tmp_path / "checkpoint.pt").write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(CheckpointError, match=r"checkpoint\.pt"):
        read_checkpoint(tmp_path / "checkpoint.pt")


def test_a_file_that_is_no_checkpoint_of_a_recipe_is_refused(tmp_path):
    content = io.BytesIO()
    torch.save({"weight": torch.zeros(2)}, content)
    (tmp_path / "other.pt").write_bytes(content.getvalue())
    with pytest.raises(CheckpointError, match="not a checkpoint of these recipes"):
        read_checkpoint(tmp_path / "other.pt")


def test_a_loss_that_is_not_finite_ends_training_before_it_harms_the_model(tmp_path):
    trainer = fitted(made(tmp_path), steps=2)
    before = weights(trainer)
    data = Data(Points(), lambda epoch: [[0, 1]] * 4, collate)
    with pytest.raises(TrainingError, match="step 3: the loss is nan"):
        trainer.fit(data, lambda batch: (trainer.model(batch[0]).sum() * math.nan, 2), steps=5)
    assert torch.equal(weights(trainer), before)
    assert read_checkpoint(tmp_path / "checkpoint.pt")["position"]["step"] == 2


def test_data_that_shrank_since_the_run_began_is_noticed(tmp_path):
    trainer = fitted(made(tmp_path), steps=3)
    with pytest.raises(TrainingError, match="2 steps, but 3 are done"):
        fitted(trainer, size=6)


def test_an_epoch_with_fewer_batches_than_a_step_takes_is_refused():
    with pytest.raises(TrainingError, match="lower --accumulate"):
        fitted(made(None, accumulate=5))


@pytest.mark.slow
def test_processes_that_share_batches_take_the_step_of_one(tmp_path):
    script = tmp_path / "shared.py"
    script.write_text(
        "import sys; sys.path[:0] = sys.argv[1:3]\n"
        "import torch, resumable, test_resumable as t\n"
        "resumable.device_of('cpu')\n"
        "trainer = t.made(None)\n"
        "trainer.model[2].p = 0.0\n"
        "t.fitted(trainer, size=6, steps=2)\n"
        "if trainer.rank == 0: torch.save(t.weights(trainer), sys.argv[3])\n"
        "torch.distributed.destroy_process_group()\n"
    )
    here = Path(__file__).parent
    command = [sys.executable, str(script), str(here.parents[1] / "recipes"), str(here), str(tmp_path / "weights.pt")]
    common = {
        **os.environ,
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(_free_port()),
        "OMP_NUM_THREADS": "1",
    }
    running = [subprocess.Popen(command, env={**common, "RANK": rank, "LOCAL_RANK": rank}) for rank in "01"]
    assert [process.wait() for process in running] == [0, 0]
    alone = made(None, accumulate=2)
    alone.model[2].p = 0.0
    fitted(alone, size=6, steps=2)
    torch.testing.assert_close(torch.load(tmp_path / "weights.pt"), weights(alone))


def _free_port():
    import socket

    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@given(lengths=st.lists(st.floats(0.1, 20.0), max_size=60), epoch=st.integers(0, 5))
def test_batches_by_seconds_hold_every_item_once_and_no_more_than_allowed(lengths, epoch):
    batches = by_seconds(lengths, 40.0, 1, epoch)
    assert sorted(item for batch in batches for item in batch) == list(range(len(lengths)))
    assert all(len(batch) * max(lengths[item] for item in batch) <= 40.0 for batch in batches)


def test_batches_by_seconds_gather_items_of_about_one_length():
    lengths = torch.rand(400, generator=torch.Generator().manual_seed(0)).mul(19).add(1).tolist()
    batches = by_seconds(lengths, 100.0, 0, 0)
    padded = sum(len(batch) * max(lengths[item] for item in batch) for batch in batches)
    assert padded < 1.15 * sum(lengths)
    assert by_seconds(lengths, 100.0, 0, 1) != batches
    assert by_seconds(lengths, 100.0, 0, 0) == batches


def test_an_item_that_is_too_long_for_any_batch_is_refused():
    with pytest.raises(ValueError, match=r"an item is 41\.0 s long"):
        by_seconds([1.0, 41.0], 40.0, 0, 0)


def test_the_last_small_batch_is_left_out_unless_it_is_the_only_one():
    assert [len(batch) for batch in shuffled(10, 4, 0, 0)] == [4, 4]
    assert [len(batch) for batch in shuffled(3, 4, 0, 0)] == [3]
    assert all(one != two for one, two in pairwise(shuffled(64, 64, 0, epoch)[0] for epoch in range(3)))

"""Checks that pipelines give the losses of the plain loop, batch for batch."""

from __future__ import annotations

import torch
from checks_training import CPU, Trained
from models import batch, ranker
from processes import World
from torch import nn

from flambeau.rec.distributed.train_pipeline import (
    EvalPipelineSparseDist,
    GradientAccumulationConfig,
    GradientAccumulationWrapper,
    PrefetchTrainPipelineSparseDist,
    TrainPipelineBase,
    TrainPipelineSparseDist,
    TrainPipelineSparseDistLite,
)
from flambeau.rec.distributed.train_pipeline.train_pipelines import ModelDetachedException

KINDS = ["row_wise", "table_wise", "column_wise", "data_parallel"]
BATCHES = 6


class Examples:
    """A batch as loaders give it."""

    def __init__(self, features) -> None:
        self.features = {"sparse": features}

    def to(self, device, non_blocking=False):
        return self


class Reversed(nn.Module):
    """Gives features in another order, on its way to tables."""

    def forward(self, features):
        return features.permute([3, 2, 1, 0])


class Task(nn.Module):
    def __init__(self, inside, before=None) -> None:
        super().__init__()
        self.inside, self.before = inside, before

    def forward(self, examples):
        features = examples.features["sparse"]
        if self.before is not None:
            features = self.before(features)
        loss = self.inside(features)
        return loss.unsqueeze(0), loss.detach()


def made(world: World, before=None) -> tuple[nn.Module, object]:
    trained = Trained(KINDS, world)
    wrapped = trained.model
    wrapped._dmp_wrapped_module.module = Task(wrapped.module, before)
    return wrapped, trained.optimizer


def given(world: World):
    return (Examples(batch(world.rank, step)) for step in range(BATCHES))


def plain(world: World, before=None) -> list[float]:
    model, optimizer = made(world, before)
    losses = []
    for examples in given(world):
        optimizer.zero_grad()
        loss, output = model(examples)
        loss.sum().backward()
        optimizer.step()
        losses.append(output.item())
    return losses


def drained(pipeline, batches) -> list[float]:
    losses = []
    while True:
        try:
            losses.append(pipeline.progress(batches).item())
        except StopIteration:
            return losses


def check_pipelines_lose_what_the_plain_loop_loses(world: World):
    wanted = plain(world)
    for kind in (
        TrainPipelineBase,
        TrainPipelineSparseDist,
        TrainPipelineSparseDistLite,
        PrefetchTrainPipelineSparseDist,
    ):
        model, optimizer = made(world)
        pipeline = kind(model, optimizer, CPU)
        assert drained(pipeline, given(world)) == wanted, kind
        if kind is not TrainPipelineBase:
            assert [forward.name for forward in pipeline._forwards] == ["inside.bags"], kind


def check_modules_between_a_batch_and_tables_are_computed_ahead(world: World):
    wanted = plain(world, Reversed())
    for ahead in (False, True):
        model, optimizer = made(world, Reversed())
        pipeline = TrainPipelineSparseDist(model, optimizer, CPU, pipeline_postproc=ahead)
        assert drained(pipeline, given(world)) == wanted
        assert len(pipeline._forwards) == ahead


def check_a_model_given_back_is_as_it_was_and_can_be_taken_again(world: World):
    wanted = plain(world)
    model, optimizer = made(world)
    pipeline = TrainPipelineSparseDist(model, optimizer, CPU)
    batches = given(world)
    losses = [pipeline.progress(batches).item() for _ in range(2)]
    back = pipeline.detach()
    with torch.no_grad():
        back(Examples(batch(world.rank, 0)))
    try:
        pipeline.progress(batches)
        raise AssertionError("a pipeline without a model went on")
    except ModelDetachedException:
        pipeline.attach()
    assert losses + drained(pipeline, batches) == wanted


def check_evaluation_changes_nothing(world: World):
    model, optimizer = made(world)
    before = [model(examples)[1].item() for examples in given(world)]
    pipeline = EvalPipelineSparseDist(model, optimizer, CPU)
    assert drained(pipeline, given(world)) == before
    pipeline.detach()
    assert [model(examples)[1].item() for examples in given(world)] == before


def check_batches_left_over_are_computed_unless_asked_otherwise(world: World):
    model, optimizer = made(world)
    pipeline = TrainPipelineSparseDist(model, optimizer, CPU, execute_all_batches=False)
    assert len(drained(pipeline, given(world))) < BATCHES


def check_an_optimizer_steps_after_several_batches(world: World):
    model = Task(ranker())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    config = GradientAccumulationConfig(is_enabled=True, num_steps=3, num_warmup_steps=0)
    pipeline = GradientAccumulationWrapper(TrainPipelineBase(model, optimizer, CPU), optimizer, model, config)
    alone = Task(ranker())
    plain_optimizer = torch.optim.SGD(alone.parameters(), lr=0.1)
    batches = given(world)
    for step, examples in enumerate(given(world)):
        if step % 3 == 0:
            plain_optimizer.zero_grad()
        alone(examples)[0].sum().backward()
        if step % 3 == 2:
            plain_optimizer.step()
        pipeline.progress(batches)
        for mine, wanted in zip(model.parameters(), alone.parameters(), strict=True):
            torch.testing.assert_close(mine, wanted)

"""Checks that pipelines give the losses of the plain loop, batch for batch."""

from __future__ import annotations

from functools import partial
from unittest import mock

import torch
from checks_training import CPU, Trained
from models import batch, ranker
from processes import World
from torch import nn

from flambeau.rec.distributed.model_parallel import get_unwrapped_module
from flambeau.rec.distributed.train_pipeline import GradientAccumulationConfig, GradientAccumulationWrapper
from flambeau.rec.distributed.train_pipeline import experimental_pipelines as experimental
from flambeau.rec.distributed.train_pipeline.pipeline_stage import PipelineStage, SparseDataDistUtil
from flambeau.rec.distributed.train_pipeline.train_pipelines import (
    EvalPipelineFusedSparseDist,
    EvalPipelineSparseDist,
    ModelDetachedException,
    PrefetchTrainPipelineSparseDist,
    StagedTrainPipeline,
    TrainPipelineBase,
    TrainPipelineFusedSparseDist,
    TrainPipelinePT2,
    TrainPipelineSemiSync,
    TrainPipelineSparseDist,
    TrainPipelineSparseDistLite,
)
from flambeau.rec.distributed.train_pipeline.utils import get_h2d_func
from flambeau.rec.distributed.types import ShardingType
from flambeau.rec.sparse.jagged_tensor import KeyedTensor

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


def made(world: World, before=None, kinds=KINDS, averaged: bool = True) -> tuple[nn.Module, object]:
    trained = Trained(kinds, world)
    wrapped = trained.model
    if averaged:
        wrapped._dmp_wrapped_module.module = Task(wrapped.module, before)
    else:
        wrapped._dmp_wrapped_module = Task(wrapped.module, before)
    return wrapped, trained.optimizer


def given(world: World):
    return (Examples(batch(world.rank, step)) for step in range(BATCHES))


def plain(world: World, before=None, kinds=KINDS) -> list[float]:
    return looped(*made(world, before, kinds), world)


def looped(model: nn.Module, optimizer, world: World) -> list[float]:
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


SITE = "inside.bags"
PIPELINES = [
    (TrainPipelineBase, {}),
    (TrainPipelineSparseDist, {}),
    (TrainPipelineSparseDist, {"enqueue_batch_after_forward": True}),
    (TrainPipelineSparseDistLite, {}),
    (PrefetchTrainPipelineSparseDist, {}),
    (TrainPipelineFusedSparseDist, {"strict": True}),
    (TrainPipelineFusedSparseDist, {"emb_lookup_stream": "new", "embedding_lookup_after_data_dist": True}),
    (TrainPipelineSemiSync, {"strict": True}),
    (TrainPipelinePT2, {}),
    (experimental.TrainPipelineSparseDistT, {}),
    (experimental.TrainEvalHybridPipelineBase, {}),
    (experimental.TrainPipelineSparseDistBwdOpt, {"site_fqn": SITE}),
    (experimental.TrainPipelineSparseDistOptStash, {"site_fqn": SITE}),
    (experimental.TrainPipelineSparseDistEmbStash, {"site_fqn": "inside.over"}),
    (
        experimental.TrainPipelineSparseDistEmbStash,
        {"site_fqn": "inside.over", "delay_stash": True, "stash_site_fqn": "inside.over"},
    ),
    (experimental.TrainPipelinePrefetchEMS, {"site_fqn": "inside.over"}),
]


def check_pipelines_lose_what_the_plain_loop_loses(world: World):
    wanted = plain(world)
    for kind, options in PIPELINES:
        model, optimizer = made(world)
        pipeline = kind(model, optimizer, CPU, **options)
        # The iterator of another epoch goes on where the first one ended.
        batches = given(world)
        first = drained(pipeline, (next(batches) for _ in range(4)))
        assert first + drained(pipeline, batches) == wanted, f"{kind}, {options}"
        if kind not in (TrainPipelineBase, TrainPipelinePT2):
            assert [forward.name for forward in pipeline._forwards] == [SITE], kind


def check_without_data_parallel_tables_optimizers_step_in_the_backward_pass(world: World):
    for kind in ("table_wise", "row_wise"):
        model, optimizer = made(world, kinds=[kind], averaged=False)
        wanted = looped(*made(world, kinds=[kind], averaged=False), world)
        pipeline = experimental.TrainPipelineSparseDistBwdOpt(model, optimizer, CPU, SITE, ShardingType(kind))
        steps: list[int] = []
        with mock.patch.object(optimizer, "step", side_effect=partial(_step_noting, optimizer.step, steps)):
            assert drained(pipeline, given(world)) == wanted
        assert len(steps) == BATCHES
        assert min(steps) >= 0, "each was made within a backward pass"


def _step_noting(step, steps: list[int]) -> None:
    steps.append(torch._C._current_graph_task_id())
    step()


def looked_up_late(world: World, start: int, kinds: list[str], stashed: bool) -> list[float]:
    """Losses where batches after `start` are looked up before tables learned from the one before."""
    model, optimizer = made(world, kinds=kinds)
    inside = get_unwrapped_module(model)
    bags, losses = inside.inside.bags, []
    batches = [examples.features["sparse"] for examples in given(world)]
    ahead = bags(batches[0]).wait()
    kept: dict = {}
    for at in range(BATCHES):
        early = at >= start
        now = ahead
        if early and at + 1 < BATCHES:
            ahead = bags(batches[at + 1]).wait()
        values = now.values().detach().requires_grad_()
        replaced = KeyedTensor(now.keys(), now.length_per_key(), values)
        optimizer.zero_grad()
        bags.forward = lambda *_, replaced=replaced: replaced
        loss, output = model(Examples(batches[at]))
        del bags.forward
        loss.sum().backward()
        now.values().backward(values.grad)
        if stashed and early:
            params = list(inside.inside.over.parameters())
            mine = {param: param.grad.clone() for param in params}
            for param in params:
                param.grad = kept.get(param)
            kept = mine
        optimizer.step()
        losses.append(output.item())
        if not early and at + 1 < BATCHES:
            ahead = bags(batches[at + 1]).wait()
    return losses


def check_semi_synchronous_training_is_one_step_late(world: World):
    for kinds in (["table_wise"], ["row_wise", "column_wise"]):
        for start in (0, 2, 900):
            for stashed in (False, True):
                model, optimizer = made(world, kinds=kinds)
                pipeline = TrainPipelineSemiSync(model, optimizer, CPU, start_batch=start, stash_gradients=stashed)
                what = f"{kinds} from {start}, stashed {stashed}"
                assert drained(pipeline, given(world)) == looked_up_late(world, start, kinds, stashed), what
    assert looked_up_late(world, 0, ["table_wise"], False) != plain(world, kinds=["table_wise"])


def check_stages_that_send_and_look_up_give_the_plain_losses(world: World):
    for kinds in (KINDS, ["table_wise"]):
        wanted = plain(world, kinds=kinds)
        for prefetch in (False, True):
            model, optimizer = made(world, kinds=kinds)
            stream = torch.cpu.Stream() if prefetch else None
            sending = SparseDataDistUtil(model, None, prefetch_stream=stream)
            stages = [
                PipelineStage("copy", partial(get_h2d_func, device=CPU), None),
                sending.start_sparse_data_dist_stage(),
            ]
            if prefetch:
                stages.append(PipelineStage("prefetch", sending.prefetch, None, sending.load_prefetch))
            ended: list[bool] = []
            stages[0].data_exhausted_callback = partial(ended.append, True)
            pipeline = StagedTrainPipeline(stages)
            assert pipeline.num_stages == 2 + prefetch
            batches, losses = given(world), []
            while (examples := pipeline.progress(batches)) is not None:
                if len(losses) == 2:
                    # Given back in between, the model is as it was.
                    back = sending.detach()
                    with torch.no_grad():
                        back(Examples(batch(world.rank, 0)))
                    sending._attached()
                optimizer.zero_grad()
                loss, output = model(examples)
                loss.sum().backward()
                optimizer.step()
                losses.append(output.item())
            assert losses == wanted
            assert ended


def check_a_stage_that_looks_up_is_one_step_late(world: World):
    kinds = ["table_wise"]
    model, optimizer = made(world, kinds=kinds)
    sending = SparseDataDistUtil(model, None, embedding_lookup_stream=torch.cpu.Stream())
    stages = [sending.start_sparse_data_dist_stage(), sending.start_embedding_lookup_stage()]
    pipeline, batches, losses = StagedTrainPipeline(stages), given(world), []
    while (examples := pipeline.progress(batches)) is not None:
        optimizer.zero_grad()
        loss, output = model(examples)
        loss.sum().backward()
        optimizer.step()
        losses.append(output.item())
    assert losses == looked_up_late(world, 0, kinds, False)


def check_a_flush_gives_all_batches_that_were_taken_before_others(world: World):
    told, taken = [], []

    def batches():
        for number in range(7):
            taken.append(number)
            yield torch.tensor(number)

    stages = [PipelineStage("one", lambda x: x + 10, None), PipelineStage("two", lambda x: x * 2, None)]
    pipeline = StagedTrainPipeline(stages, on_flush_end=lambda: told.append(len(taken)))
    source, found = batches(), []
    for _ in range(2):
        found.append(pipeline.progress(source))
    pipeline.set_flush(True)
    before = len(taken)
    while len(found) < before:
        found.append(pipeline.progress(source))
    assert told == []
    found.append(pipeline.progress(source))
    assert told == [before]
    found += [pipeline.progress(source) for _ in range(7 - len(found))]
    assert [one.item() for one in found] == [2 * (number + 10) for number in range(7)]
    assert pipeline.progress(source) is None


def check_features_of_the_next_batch_travel_while_one_is_computed(world: World):
    model, optimizer = made(world)
    pipeline = TrainPipelineSparseDist(model, optimizer, CPU)
    batches = given(world)
    pipeline.progress(batches)
    with torch.profiler.profile() as profile:
        pipeline.progress(batches)
    order = [
        (event.name, event.time_range)
        for event in sorted(profile.events(), key=lambda event: event.time_range.start)
        if event.name in MARKS
    ]
    assert [name for name, _ in order] == list(MARKS)
    spans = dict(order)
    # What the next batch's features wait for begins before the forward pass and ends after it ...
    sent, awaited = spans["## start_sparse_data_dist ##"], spans["## wait_sparse_data_dist ##"]
    assert sent.end <= spans["## forward ##"].start
    assert spans["## forward ##"].end <= awaited.start
    # ... and features themselves travel through the backward pass: nothing waits for them before the next batch.
    waits = [
        event
        for event in profile.events()
        if "KJTListAwaitable wait()" in event.name and event.time_range.start >= awaited.end
    ]
    assert waits == []
    # The exchange of sizes is begun by another thread than waits for it.
    assert any("all_to_all" in event.name for event in profile.events())


MARKS = (
    "## start_sparse_data_dist ##",
    "## forward ##",
    "## wait_sparse_data_dist ##",
    "## backward ##",
    "## optimizer ##",
)


def check_outputs_of_evaluation_pipelines_are_the_models(world: World):
    model, optimizer = made(world)
    before = [model(examples)[1].item() for examples in given(world)]
    for kind, options in (
        (EvalPipelineFusedSparseDist, {}),
        (EvalPipelineFusedSparseDist, {"enable_embedding_lookup_prefetch": True, "emb_lookup_stream": "new"}),
        (experimental.EvalPipelineCPUSparse, {}),
        (experimental.EvalPipelineCPUSparse, {"multi_thread": True, "pipeline_depth": 3}),
    ):
        pipeline = kind(model, optimizer, CPU, **options)
        assert drained(pipeline, given(world)) == before, f"{kind}, {options}"
        pipeline.detach()
    model.eval()
    pipeline = experimental.TrainEvalHybridPipelineBase(model, optimizer, CPU)
    assert drained(pipeline, given(world)) == before
    assert drained(pipeline, given(world)) == before, "another iterator begins anew"


def check_modules_between_a_batch_and_tables_are_computed_ahead(world: World):
    wanted = plain(world, Reversed())
    for ahead in (False, True):
        model, optimizer = made(world, Reversed())
        pipeline = TrainPipelineSparseDist(model, optimizer, CPU, pipeline_postproc=ahead)
        assert drained(pipeline, given(world)) == wanted
        assert len(pipeline._forwards) == ahead


class Shifted(Reversed):
    """The same, with a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("shift", torch.zeros(1))


def check_modules_before_tables_keep_their_names_and_come_back(world: World):
    model, optimizer = made(world, Shifted())
    names, before = set(model.state_dict()), get_unwrapped_module(model).before
    pipeline = TrainPipelineSparseDist(model, optimizer, CPU, pipeline_postproc=True)
    batches = given(world)
    pipeline.progress(batches)
    assert set(model.state_dict()) == names
    assert "before.shift" in names
    state = {**model.state_dict(), "before.shift": torch.ones(1)}
    model.load_state_dict(state)
    assert before.shift.item() == 1
    pipeline.detach()
    assert get_unwrapped_module(model).before is before
    pipeline.attach()
    assert get_unwrapped_module(model).before is not before
    assert len(drained(pipeline, batches)) == BATCHES - 1


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

"""Parts of pipelines that need no other process."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from flambeau.rec.distributed.logger import LazyStr
from flambeau.rec.distributed.train_pipeline import PipelineStage, StagedTrainPipeline, TorchCompileConfig
from flambeau.rec.distributed.train_pipeline._host_stash import HostStash
from flambeau.rec.distributed.train_pipeline.backward_injection import (
    FirstGradTensorFinder,
    InjectionSite,
    InjectionTargetType,
    OutputDistTensorFinder,
    register_backward_hook,
)
from flambeau.rec.distributed.train_pipeline.train_pipelines import (
    TrainPipelinePT2,
    TrainPipelineSparseDistCompAutograd,
)
from flambeau.rec.errors import OptionError
from flambeau.rec.sparse.jagged_tensor import JaggedTensor

CPU = torch.device("cpu")


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(3, 4), nn.Linear(4, 1)

    def forward(self, x):
        loss = self.second(torch.relu(self.first(x))).square().mean()
        return loss.unsqueeze(0), loss.detach()


def batches():
    return (torch.full((2, 3), float(number)) for number in range(6))


def drained(pipeline, source):
    found = []
    while True:
        try:
            found.append(pipeline.progress(source).item())
        except StopIteration:
            return found


def plain():
    model, losses = Model(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x in batches():
        optimizer.zero_grad()
        loss, output = model(x)
        loss.sum().backward()
        optimizer.step()
        losses.append(output.item())
    return losses


def test_a_model_is_compiled_after_some_batches():
    model, told = Model(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    config = TorchCompileConfig(fullgraph=True, backend="eager", compile_on_iter=2)
    pipeline = TrainPipelinePT2(
        model,
        optimizer,
        CPU,
        config,
        pre_compile_fn=lambda one: told.append(one._compiled_call_impl is None),
        post_compile_fn=lambda one: told.append(one._compiled_call_impl is not None),
        input_transformer=lambda x: x.clone(),
    )
    source = batches()
    losses = [pipeline.progress(source).item() for _ in range(2)]
    assert told == []
    losses += drained(pipeline, source)
    assert told == [True, True]
    assert losses == pytest.approx(plain())


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")  # torch's own
def test_backward_passes_are_compiled_from_the_second_batch_on():
    model = Model()
    model._compiled_autograd_options = {"backend": "eager", "dynamic": True}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    assert drained(TrainPipelineSparseDistCompAutograd(model, optimizer, CPU), batches()) == pytest.approx(plain())


def test_options_that_make_no_sense_are_refused():
    with pytest.raises(OptionError, match="compile_on_iter is -1"):
        TorchCompileConfig(compile_on_iter=-1)
    with pytest.raises(OptionError, match="pipeline_stages is empty"):
        StagedTrainPipeline([])
    model = Model()
    site = InjectionSite("third", FirstGradTensorFinder())
    with pytest.raises(OptionError, match="no module 'third'; it has \\['first', 'second'\\]"):
        register_backward_hook(site, model, print)


def test_every_batch_goes_through_all_stages_and_later_ones_wait_in_those_before():
    seen = []

    def stage(name):
        def run(x):
            seen.append((name, x))
            return x + 1

        return PipelineStage(name, run, None)

    pipeline = StagedTrainPipeline([stage("a"), stage("b"), stage("c")])
    source = iter([0, 10, 20, 30, 40])
    assert pipeline.progress(source) == 3
    assert seen[:6] == [("a", 0), ("b", 1), ("c", 2), ("a", 10), ("b", 11), ("a", 20)]
    assert seen[6:] == [("a", 30), ("b", 21), ("c", 12)]
    assert [pipeline.progress(source) for _ in range(5)] == [13, 23, 33, 43, None]
    assert pipeline.progress(iter([50])) == 53, "another iterator goes on"


@pytest.mark.parametrize(("position", "name"), [(0.0, "weight"), (1.0, "bias")])
def test_work_is_done_when_the_gradient_of_a_parameter_is_there(position, name):
    model, seen = Model(), []
    site = InjectionSite("second", FirstGradTensorFinder(), InjectionTargetType.PARAM_GRAD, position)
    handle = register_backward_hook(site, model, lambda gradient: seen.append(gradient.clone()))
    model(torch.ones(2, 3))[0].sum().backward()
    assert torch.equal(seen[0], getattr(model.second, name).grad)
    handle.remove()
    model(torch.ones(2, 3))[0].sum().backward()
    assert len(seen) == 1


def test_work_is_done_when_the_gradient_of_a_result_is_there():
    model, seen = Model(), []
    register_backward_hook(InjectionSite("first", FirstGradTensorFinder()), model, seen.append)
    with torch.no_grad():
        model(torch.ones(2, 3))
    model(torch.ones(2, 3))[0].sum().backward()
    assert [one.shape for one in seen] == [(2, 4)]
    register_backward_hook(InjectionSite("first", OutputDistTensorFinder()), model, seen.append)
    with pytest.raises(RuntimeError, match="the result is a Tensor, expected one of a sharded collection"):
        model(torch.ones(2, 3))


def test_the_first_tensor_that_takes_gradients_is_found():
    plain, taking = torch.ones(2), torch.ones(2, requires_grad=True)
    jagged = JaggedTensor(torch.tensor([1, 2]), taking, torch.tensor([2]))
    find = FirstGradTensorFinder()
    for given in (taking, [plain, taking], {"a": plain, "b": (taking,)}, jagged):
        assert find((), {}, given) is taking
    assert find((), {}, [plain, None, 3]) is None
    assert FirstGradTensorFinder(use_input=True)((plain,), {"x": taking}, plain) is taking


def test_tensors_that_are_stashed_come_back_with_their_content():
    flat = torch.arange(12.0)
    views, alone = [flat[:4].view(2, 2), flat[4:]], torch.arange(3)
    stash = HostStash()
    stash.stash([*views, alone])
    assert len(stash) == 2
    assert flat.untyped_storage().nbytes() == 0
    stash.restore()
    assert torch.equal(flat, torch.arange(12.0))
    assert torch.equal(views[0], torch.tensor([[0.0, 1.0], [2.0, 3.0]]))
    assert torch.equal(alone, torch.arange(3))
    stash.restore()
    assert len(stash) == 0


def test_a_lazy_text_is_made_when_it_is_asked_for():
    made = []
    text = LazyStr(lambda: made.append(1) or "text")
    assert made == []
    assert f"{text}" == "text"

"""Functions of torch on tensordicts: losses, gradients, and what they say of classes derived from TensorDict."""

import pytest
import torch
import torch.nn.functional as F

from flambeau.data.tensordict import LazyStackedTensorDict, TensorDict, lazy_stack, tensorclass

LOSSES = [F.mse_loss, F.l1_loss, F.smooth_l1_loss]


@tensorclass
class Sample:
    x: torch.Tensor
    label: str = "?"


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_a_loss_is_that_of_every_entry(td, loss, reduction):
    td = td.float()
    target = td * 2 + 1
    result = loss(td, target, reduction=reduction)
    assert result.batch_size == (td.batch_size if reduction == "none" else ())
    for key in td.keys(True, True):
        torch.testing.assert_close(result[key], loss(td[key], target[key], reduction=reduction))


@pytest.mark.filterwarnings("ignore:size_average and reduce:UserWarning")
def test_a_loss_takes_the_options_of_torch(td):
    td = td.float()
    narrow = F.smooth_l1_loss(td, td + 1, beta=0.25)
    assert narrow["a"].item() == pytest.approx(F.smooth_l1_loss(td["a"], td["a"] + 1, beta=0.25).item())
    assert F.mse_loss(td, td + 1, None, None, "sum")["a"] == 12 == F.mse_loss(td, td + 1, size_average=False)["a"]
    weight = torch.arange(12.0).reshape(4, 3)
    weighted = F.mse_loss(td, td * 2, weight=weight)
    wide = weight.unsqueeze(-1).expand(4, 3, 2)
    torch.testing.assert_close(weighted["b", "c"], F.mse_loss(td["b", "c"], td["b", "c"] * 2, weight=wide))
    with pytest.raises(ValueError, match="reduction is 'median'"):
        F.l1_loss(td, td, reduction="median")


def test_a_loss_spreads_a_tensor_over_the_batch(td):
    td = td.float()
    target = torch.rand(4, 3)
    for result in (F.mse_loss(td, target), F.mse_loss(target, td)):
        torch.testing.assert_close(result["b", "c"], F.mse_loss(td["b", "c"], target[..., None].expand(4, 3, 2)))


def test_a_loss_keeps_the_kind_of_its_input():
    lazy = lazy_stack([TensorDict({"x": torch.ones(size)}) for size in (2, 3)])
    apart = F.mse_loss(lazy, lazy * 2, reduction="none")
    assert type(apart) is LazyStackedTensorDict and apart[1]["x"].tolist() == [1, 1, 1]
    one = Sample(torch.ones(3), "k", batch_size=[3])
    assert type(F.l1_loss(one, one * 2)) is Sample and F.l1_loss(one, one * 3).x == 2


def test_maximum_is_the_method(td):
    assert (torch.maximum(td, td + 1) == td + 1).all()
    assert (torch.maximum(td, torch.full((4, 3), 9)) >= 9).all()


def test_gradients_stand_under_the_keys_of_the_inputs():
    inputs = TensorDict({"x": torch.ones(3), "n": {"y": torch.ones(3, 2)}, "s": "kept"}, [3], names=["t"])
    inputs = inputs.requires_grad_().lock_()
    found = torch.autograd.grad(inputs**2, inputs, inputs.detach() * 3)
    assert found["x"].tolist() == [6, 6, 6] and found["n", "y"].shape == (3, 2)
    assert found["s"] == "kept" and found.names == ["t"] and found.is_locked
    summed = torch.autograd.grad((inputs**2).sum(), inputs, create_graph=True)
    assert summed["x"].tolist() == [2, 2, 2] and summed["x"].requires_grad


def test_gradients_of_entries_that_were_not_used_are_absent_or_zero():
    inputs = TensorDict({"x": torch.ones(3), "n": {"y": torch.ones(3)}}, [3]).requires_grad_()
    outputs = TensorDict({"z": inputs["x"].sum()})
    assert list(torch.autograd.grad(outputs, inputs, allow_unused=True, retain_graph=True).keys(True, True)) == ["x"]
    zeros = torch.autograd.grad(outputs, inputs, allow_unused=True, materialize_grads=True, retain_graph=True)
    assert zeros["n", "y"].tolist() == [0, 0, 0]
    with pytest.raises(RuntimeError, match="not have been used"):
        torch.autograd.grad(outputs, inputs, retain_graph=True)
    with pytest.raises(ValueError, match="outputs is a Tensor"):
        torch.autograd.grad(outputs["z"], inputs)


def test_gradients_of_a_lazy_stack_reach_its_tensordicts():
    lazy = lazy_stack([TensorDict({"x": torch.ones(size)}) for size in (2, 3)]).requires_grad_()
    found = torch.autograd.grad(lazy**2, lazy, lazy.detach())
    assert found[1]["x"].tolist() == [2, 2, 2]


# --- classes derived from TensorDict


class Derived(TensorDict):
    def __init__(self, must_not_be_called_by_operations):
        super().__init__({"x": torch.arange(6.0).reshape(3, 2), "n": {"y": torch.ones(3, 2)}}, [3, 2])


@pytest.mark.parametrize(
    "operation",
    [
        lambda td: td[0],
        lambda td: td + 1,
        lambda td: td.clone(),
        lambda td: td.to(torch.float64),
        lambda td: td.select("x"),
        lambda td: td.reshape(-1),
        lambda td: td.unbind(0)[0],
        lambda td: td.apply(torch.neg),
        lambda td: td.sum(0),
        lambda td: td.empty(),
        lambda td: td.flatten_keys("."),
        lambda td: td.where(torch.ones(3, 2).bool(), td),
        lambda td: td.max(dim=0).values,
        lambda td: torch.stack([td, td]),
        lambda td: torch.cat([td, td]),
        lambda td: torch.zeros_like(td),
        lambda td: td.set(("new", "z"), torch.ones(3, 2))["new"],
    ],
)  # fmt: skip
def test_operations_on_a_derived_class_give_that_class(operation):
    assert type(operation(Derived(None))) is Derived


@pytest.mark.parametrize(
    "operation",
    [
        lambda td: td == td,
        lambda td: td < 1,
        lambda td: td.bool().all(dim=0),
        lambda td: td.masked_select(torch.ones(3, 2).bool()),
        lambda td: td.to_tensordict(),
    ],
)  # fmt: skip
def test_what_is_no_longer_of_a_derived_class_is_a_tensordict(operation):
    assert type(operation(Derived(None))) is TensorDict

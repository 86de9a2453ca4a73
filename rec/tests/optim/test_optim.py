"""Optimizers by themselves: recorded learning rates and steps, sparse gradients, machines that agree now and then."""

from __future__ import annotations

import pytest
import torch

from flambeau.core.testing.fill import tensor
from flambeau.core.testing.golden import golden_values
from flambeau.rec.optim import (
    CombinedOptimizer,
    GradientClipping,
    GradientClippingOptimizer,
    KeyedOptimizerWrapper,
    RowWiseAdagrad,
    SemisyncOptimizer,
    WarmupOptimizer,
    WarmupPolicy,
    WarmupStage,
    apply_optimizer_in_backward,
)
from flambeau.rec.optim.optimizers import Adam, in_backward_optimizer_filter

CASES = golden_values("rec_modules", __file__)["cases"]


def keyed(param, make=lambda params: torch.optim.SGD(params, lr=1.0)):
    return KeyedOptimizerWrapper({"weight": param}, make)


POLICIES = ("none", "linear", "constant", "step", "cosine_annealing_warm_restarts")


@pytest.mark.parametrize("policy", POLICIES)
def test_learning_rates_are_the_recorded_ones(policy):
    param = torch.nn.Parameter(torch.zeros(1))
    stages = [WarmupStage(WarmupPolicy(policy), max_iters=5, value=0.1, decay_iters=3, sgdr_period=2)]
    optimizer = WarmupOptimizer(keyed(param), stages, lr=0.1)
    rates = []
    for _ in CASES[f"warmup_{policy}"]:
        param.grad = torch.zeros(1)
        optimizer.step()
        rates.append(optimizer.param_groups[0]["lr"])
    assert rates == pytest.approx(CASES[f"warmup_{policy}"])


def test_steps_of_row_wise_adagrad_go_by_the_mean_square_of_rows():
    param = torch.nn.Parameter(tensor("p", (6, 4)))
    expected, sums = param.detach().clone(), torch.zeros(6, 1)
    optimizer = RowWiseAdagrad([param], lr=0.1, eps=0.01)
    for step in range(3):
        param.grad = tensor(f"g{step}", (6, 4))
        sums += param.grad.square().mean(1, keepdim=True)
        expected -= 0.1 * param.grad / (sums.sqrt() + 0.01)
        optimizer.step()
    torch.testing.assert_close(param.detach(), expected)
    torch.testing.assert_close(optimizer.state[param]["sum"], sums)


def test_sparse_gradients_train_as_dense_ones_do():
    params = [torch.nn.Parameter(tensor("p", (6, 4))) for _ in range(2)]
    for step in range(3):
        gradient = tensor(f"g{step}", (6, 4))
        gradient[::2] = 0
        params[0].grad, params[1].grad = gradient, gradient.to_sparse(1)
        for param in params:
            RowWiseAdagrad([param], lr=0.1).step()
    torch.testing.assert_close(params[0], params[1])


def test_sparse_gradients_and_decaying_weights_are_refused():
    param = torch.nn.Parameter(torch.ones(2, 2))
    param.grad = torch.ones(2, 2).to_sparse(1)
    with pytest.raises(RuntimeError, match=r"weight_decay is 0.1, which takes dense gradients"):
        RowWiseAdagrad([param], weight_decay=0.1).step()


def test_rows_without_gradient_stay_as_they_are_with_optimizers_of_tables():
    param = torch.nn.Parameter(torch.ones(3, 2))
    param.grad = torch.tensor([[0.0, 0.0], [1.0, 2.0], [0.0, 0.0]])
    Adam([param], lr=0.5).step()
    assert torch.equal(param[::2], torch.ones(2, 2))
    torch.testing.assert_close(param[1], torch.full((2,), 0.5))


def test_parameters_trained_in_the_backward_pass_are_left_out_of_the_others():
    layers = torch.nn.ModuleDict({"one": torch.nn.Linear(2, 2), "two": torch.nn.Linear(2, 2)})
    apply_optimizer_in_backward(torch.optim.SGD, layers["one"].parameters(), {"lr": 0.1})
    others = [name for name, _ in in_backward_optimizer_filter(layers.named_parameters())]
    assert others == ["two.weight", "two.bias"]


def test_the_norm_of_all_gradients_is_limited_and_remembered():
    params = {"a": torch.nn.Parameter(torch.zeros(3)), "b": torch.nn.Parameter(torch.zeros(4))}
    inner = KeyedOptimizerWrapper(params, lambda given: torch.optim.SGD(given, lr=1.0))
    optimizer = GradientClippingOptimizer(inner, GradientClipping.NORM, max_gradient=1.0, track_grad_norm=True)
    for param in params.values():
        param.grad = torch.full_like(param, 3.0)
    optimizer.step()
    moved = torch.cat([param.detach() for param in params.values()])
    assert float(moved.norm()) == pytest.approx(1.0, rel=1e-4)
    assert float(optimizer.last_total_grad_norm) == pytest.approx(3 * 7**0.5)


def test_nothing_is_limited_where_there_are_no_gradients():
    optimizer = GradientClippingOptimizer(keyed(torch.nn.Parameter(torch.zeros(3))), GradientClipping.NORM)
    optimizer.step()
    assert float(optimizer.compute_total_grad_norm()[0]) == 0


@pytest.mark.parametrize("offload", [False, True])
def test_a_global_step_takes_what_local_ones_changed_for_a_gradient(offload):
    param = torch.nn.Parameter(torch.zeros(2))
    outer = keyed(param, lambda params: torch.optim.SGD(params, lr=0.5))
    optimizer = SemisyncOptimizer([param], keyed(param), outer, num_local_steps=2, offload_global_model=offload)
    positions = []
    for _ in range(4):
        param.grad = torch.tensor([1.0, 2.0])
        optimizer.step()
        positions.append(param.detach().tolist())
    # Two local steps of -gradient, of which the global one keeps half.
    assert positions == [[-1.0, -2.0], [-1.0, -2.0], [-2.0, -4.0], [-2.0, -4.0]]
    assert torch.equal(param.grad, torch.tensor([1.0, 2.0]))


def test_semi_synchronous_training_goes_on_from_its_state():
    def made():
        param = torch.nn.Parameter(torch.zeros(2))
        local = keyed(param, lambda params: torch.optim.Adam(params, lr=0.1))
        outer = keyed(param, lambda params: torch.optim.SGD(params, lr=0.5, momentum=0.9))
        return param, SemisyncOptimizer([param], local, outer, num_local_steps=2)

    def train(param, optimizer, count):
        for step in range(count):
            param.grad = tensor(f"g{step}", (2,))
            optimizer.step()

    param, optimizer = made()
    train(param, optimizer, 4)
    other, again = made()
    again.init_state()
    again.load_state_dict(optimizer.state_dict())
    with torch.no_grad():
        other.copy_(param)
    train(param, optimizer, 4)
    train(other, again, 4)
    torch.testing.assert_close(other, param)


def test_local_steps_below_one_are_refused():
    param = torch.nn.Parameter(torch.zeros(2))
    with pytest.raises(ValueError, match="num_local_steps is 0, expected 1 or more"):
        SemisyncOptimizer([param], keyed(param), keyed(param), num_local_steps=0)


def test_two_parameters_of_one_name_are_refused():
    one, other = (keyed(torch.nn.Parameter(torch.zeros(1))) for _ in range(2))
    with pytest.raises(ValueError, match="two optimizers have a parameter 'weight'"):
        CombinedOptimizer([one, other])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda state: state["state"].pop("weight"), "has the state of 0 parameters, expected 1"),
        (lambda state: state["state"].update(other=state["state"].pop("weight")), "no state of the parameter 'weight'"),
        (lambda state: state["state"]["weight"].pop("step"), "expected 'step', 'exp_avg'"),
    ],
)
def test_a_state_that_does_not_fit_is_refused(change, message):
    optimizer = keyed(torch.nn.Parameter(torch.zeros(2)), lambda params: torch.optim.Adam(params))
    optimizer.init_state()
    state = {"state": {name: dict(kept) for name, kept in optimizer.state_dict()["state"].items()}}
    change(state)
    with pytest.raises(ValueError, match=message):
        optimizer.load_state_dict(state)


def test_stages_that_end_before_they_begin_are_refused():
    param = torch.nn.Parameter(torch.zeros(1))
    with pytest.raises(ValueError, match=r"stages\[1\] ends at iteration 2, expected more than 3"):
        WarmupOptimizer(keyed(param), [WarmupStage(max_iters=3), WarmupStage(max_iters=2)])

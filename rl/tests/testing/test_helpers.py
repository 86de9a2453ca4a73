"""Helpers and networks to test with."""

from __future__ import annotations

import pickle
import types

import pytest
import torch

from flambeau.data.tensordict import TensorDict
from flambeau.data.tensordict.nn import TensorDictModule
from flambeau.rl.envs import TransformedEnv, check_env_specs
from flambeau.rl.testing import (
    BiasModule,
    CatLinear,
    CountingVecNormV2,
    LSTMNet,
    NonSerializableBiasModule,
    call_value_nets,
    dtype_fixture,  # noqa: F401
    make_tc,
    set_global_var,
)
from flambeau.rl.testing.mocking_classes import (
    CountingEnv,
    EnvWithDynamicSpec,
    EnvWithTensorClass,
    HistoryTransform,
    MockNestedResetEnv,
)


def test_tensors_are_float64_for_a_test(dtype_fixture):  # noqa: F811
    assert torch.zeros(1).dtype is torch.float64


def test_a_variable_comes_back():
    module = types.SimpleNamespace(number=1)
    with pytest.raises(KeyError), set_global_var(module, "number", 2):
        assert module.number == 2
        raise KeyError
    assert module.number == 1


def test_a_tensorclass_has_the_keys_of_its_tensordict():
    made = make_tc(TensorDict({"a": torch.ones(2)}, [2]))(a=torch.arange(2), batch_size=[2])
    assert made[1].a == 1


def test_a_module_that_cannot_be_sent():
    assert BiasModule(2.0)(torch.zeros(2)).tolist() == [2.0, 2.0]
    with pytest.raises(RuntimeError, match="cannot be pickled"):
        pickle.dumps(NonSerializableBiasModule())


def test_sequences_and_steps_of_an_lstm_agree():
    torch.manual_seed(0)
    net = LSTMNet(3, {"input_size": 4, "hidden_size": 4}, {"out_features": 4, "in_features": 2})
    seen = torch.randn(5, 6, 2)
    whole, _, _, last, _ = net(seen)
    states = (None, None)
    for step in range(6):
        out, _, _, *states = net(seen[:, step], *states)
        torch.testing.assert_close(out, whole[:, step])
    torch.testing.assert_close(last[:, -1], states[0])


@pytest.mark.parametrize("single_call", [False, True])
def test_values_of_steps_and_of_what_follows(single_call):
    data = TensorDict({"x": torch.arange(4.0).view(1, 4, 1), "next": {"x": torch.arange(1, 5.0).view(1, 4, 1)}}, [1, 4])
    net = TensorDictModule(torch.nn.Linear(1, 1), in_keys=["x"], out_keys=["value"])
    values, following = call_value_nets(net, data, None, None, single_call, "value", detach_next=True)
    torch.testing.assert_close(values[:, 1:], following[:, :-1])
    assert values.requires_grad
    assert not following.requires_grad


def test_inputs_of_a_layer_lie_behind_one_another():
    layer = CatLinear(3, 1)
    one, other = torch.randn(1), torch.randn(2)
    torch.testing.assert_close(layer(one, other), layer.linear(torch.cat([one, other])))


@pytest.mark.parametrize("env", [EnvWithTensorClass(), MockNestedResetEnv(3, True), MockNestedResetEnv(3, False)])
def test_unusual_environments_keep_to_their_specs(env):
    check_env_specs(env)


def test_observations_that_grow():
    shapes = [step["next", "observation"].shape for step in EnvWithDynamicSpec(max_count=3).rollout(9).unbind(0)]
    assert shapes == [(3, 2, 2), (3, 3, 2), (3, 4, 2)]


def test_what_was_said_grows_with_every_step():
    env = TransformedEnv(CountingEnv(max_steps=9), HistoryTransform())
    said = env.rollout(3, break_when_any_done=False)[-1]["next", "history"]
    assert list(said.content) == ["0", "1", "2", "3", "4"]


def test_steps_and_resets_are_counted():
    transform = CountingVecNormV2(in_keys=["reward"])
    env = TransformedEnv(CountingEnv(max_steps=9), transform)
    before = transform.step_calls
    env.rollout(3)
    assert (transform.step_calls - before, transform.reset_calls) == (4, 1)  # a reset counts as a step as well

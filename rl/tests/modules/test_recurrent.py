"""Recurrent modules: steps, sequences, and episodes that begin within them."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from flambeau.data.tensordict import TensorDict
from flambeau.rl.modules import GRU, LSTM, GRUCell, GRUModule, LSTMCell, LSTMModule, recurrent_mode, set_recurrent_mode

MODULES = {"lstm": LSTMModule, "gru": GRUModule}


def make(kind, **options):
    torch.manual_seed(0)
    return MODULES[kind](3, 4, num_layers=2, in_key="o", out_key="f", **options)


def step_by_step(module, values, begins):
    """What a rollout gives: the states that a step writes are read by the next one."""
    outputs, states = [], {}
    for t in range(values.shape[1]):
        td = TensorDict({"o": values[:, t], "is_init": begins[:, t], **states}, [len(values)])
        td = module(td)
        outputs.append(td["f"])
        states = dict(td["next"].items())
    return torch.stack(outputs, 1)


@pytest.mark.parametrize("kind", MODULES)
@pytest.mark.parametrize("backend", ["pad", "scan", "auto", "triton"])
@pytest.mark.parametrize("python_based", [True, False])
@given(marks=st.lists(st.booleans(), min_size=12, max_size=12))
def test_sequences_give_what_steps_give(kind, backend, python_based, marks):
    module = make(kind, recurrent_backend=backend, python_based=python_based)
    begins = torch.tensor(marks).view(2, 6, 1)
    begins[:, 0] = True
    values = torch.randn(2, 6, 3)
    with set_recurrent_mode(True):
        out = module(TensorDict(o=values, is_init=begins, batch_size=[2, 6]))
    torch.testing.assert_close(out["f"], step_by_step(module, values, begins))


@pytest.mark.parametrize("kind", MODULES)
@pytest.mark.parametrize("backend", ["pad", "scan"])
def test_next_states_are_those_at_the_ends_of_episodes(kind, backend):
    module = make(kind, recurrent_backend=backend)
    begins = torch.tensor([[1, 0, 0, 1, 0]]).bool().unsqueeze(-1)
    with set_recurrent_mode(True):
        out = module(TensorDict(o=torch.randn(1, 5, 3), is_init=begins, batch_size=[1, 5]))
    hidden = out["next"][module.out_keys[1][-1]]
    torch.testing.assert_close(hidden[:, [2, 4], -1], out["f"][:, [2, 4]])
    assert not bool(hidden[:, [0, 1, 3]].any())


@pytest.mark.parametrize("kind", MODULES)
def test_computing_again_saves_nothing_but_memory(kind):
    begins = torch.tensor([[1, 0, 0, 1, 0]]).bool().unsqueeze(-1)
    values, found = torch.randn(1, 5, 3), []
    for options in ({"recurrent_backend": "pad"}, {"recurrent_backend": "scan", "recurrent_recompute": "full"}):
        module = make(kind, **options)
        with set_recurrent_mode(True):
            module(TensorDict(o=values, is_init=begins, batch_size=[1, 5]))["f"].square().sum().backward()
        found.append([parameter.grad for parameter in module.parameters()])
    torch.testing.assert_close(found[0], found[1])


@pytest.mark.parametrize("kind", MODULES)
def test_python_layers_and_torch_s_have_the_same_parameters(kind):
    module = make(kind)
    td = TensorDict(o=torch.randn(2, 3), is_init=torch.ones(2, 1, dtype=torch.bool), batch_size=[2])
    plain, names = module(td.clone())["f"], list(module.state_dict())
    weights = list(module.parameters())
    assert type(getattr(module.make_python_based(), kind)).__module__.startswith("flambeau")
    torch.testing.assert_close(module(td.clone())["f"], plain)
    assert list(module.state_dict()) == names and all(a is b for a, b in zip(module.parameters(), weights, strict=True))
    torch.testing.assert_close(module.make_cudnn_based()(td.clone())["f"], plain)


@pytest.mark.parametrize("ours", [LSTM, GRU])
@pytest.mark.parametrize("bidirectional", [True, False])
def test_python_layers_compute_what_torch_s_compute(ours, bidirectional):
    theirs = getattr(torch.nn, ours.__name__)(3, 4, 2, batch_first=True, bidirectional=bidirectional)
    mine = ours(3, 4, 2, bidirectional=bidirectional)
    mine.load_state_dict(theirs.state_dict())
    x = torch.randn(2, 5, 3)
    torch.testing.assert_close(mine(x), theirs(x))


@pytest.mark.parametrize(("ours", "theirs"), [(LSTMCell, torch.nn.LSTMCell), (GRUCell, torch.nn.GRUCell)])
def test_python_cells_compute_what_torch_s_compute(ours, theirs):
    cell, plain = ours(3, 4), theirs(3, 4)
    cell.load_state_dict(plain.state_dict())
    for x in (torch.randn(2, 3), torch.randn(3)):
        torch.testing.assert_close(cell(x), plain(x))
    with pytest.raises(ValueError, match="expected 1 or 2"):
        cell(torch.randn(1, 2, 3))


@pytest.mark.parametrize("kind", MODULES)
def test_python_layers_can_be_vmapped_over_parameters(kind):
    module = make(kind, python_based=True)
    td = TensorDict(o=torch.randn(2, 3), is_init=torch.ones(2, 1, dtype=torch.bool), batch_size=[2])
    values = TensorDict.from_module(module)

    def run(parameters):
        with parameters.to_module(module):
            return module(td.clone())["f"]

    both = torch.vmap(run)(values.apply(lambda value: torch.stack([value, value + 1])))
    torch.testing.assert_close(both[0], module(td.clone())["f"])


@pytest.mark.parametrize("kind", MODULES)
def test_sequences_compile_without_breaks(kind):
    module = make(kind, recurrent_backend="auto", python_based=True)

    def run(values, begins):
        with set_recurrent_mode(True):
            return module(TensorDict({"o": values, "is_init": begins}, [2, 4]))["f"]

    begins = torch.tensor([[1, 0, 0, 1], [1, 0, 0, 0]]).bool().unsqueeze(-1)
    values = torch.randn(2, 4, 3)
    torch.testing.assert_close(torch.compile(run, backend="eager", fullgraph=True)(values, begins), run(values, begins))


def test_the_mode_is_that_of_the_innermost_context():
    assert recurrent_mode() is None
    with set_recurrent_mode(True):
        with set_recurrent_mode("sequential"):
            assert recurrent_mode() is False
        assert recurrent_mode() is True

    @set_recurrent_mode("recurrent")
    def decorated(depth):
        return recurrent_mode() and (depth == 0 or decorated(depth - 1))

    assert decorated(2) is True and recurrent_mode() is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"in_key": "o"}, "either out_keys or out_key"),
        ({"in_keys": ["o"], "out_key": "f"}, "expected those of the value and of"),
        ({"in_key": "o", "out_key": "f", "recurrent_backend": "magic"}, "expected 'auto', 'pad', 'scan' or 'triton'"),
        ({"in_key": "o", "out_key": "f", "recurrent_recompute": "full"}, "needs recurrent_backend"),
        ({"in_key": "o", "out_key": "f", "batch_first": False}, "batch_first"),
    ],
)
def test_arguments_that_contradict_one_another_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        LSTMModule(3, 4, **options)


def test_marks_of_first_steps_are_asked_for():
    with pytest.raises(KeyError, match="InitTracker"):
        make("lstm")(TensorDict(o=torch.zeros(2, 3), batch_size=[2]))

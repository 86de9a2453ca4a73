"""Dense building blocks have the recorded parameters; what they give stands beside torchrec in `peers`."""

from __future__ import annotations

import pytest
import torch

from flambeau.core.testing.fill import fill_, tensor
from flambeau.core.testing.golden import golden_values
from flambeau.rec.errors import OptionError
from flambeau.rec.modules.activation import SwishLayerNorm
from flambeau.rec.modules.crossnet import CrossNet, LowRankCrossNet, LowRankMixtureCrossNet, VectorCrossNet
from flambeau.rec.modules.deepfm import FactorizationMachine
from flambeau.rec.modules.mlp import MLP

CASES = golden_values("rec_modules", __file__)["cases"]
BUILT = {
    "crossnet": lambda: CrossNet(6, 3),
    "lowrank_crossnet": lambda: LowRankCrossNet(6, 3, 2),
    "vector_crossnet": lambda: VectorCrossNet(6, 3),
    "lowrank_mixture_crossnet": lambda: LowRankMixtureCrossNet(6, 3, 4, 2),
    "mlp": lambda: MLP(6, [5, 4]),
    "mlp_swish": lambda: MLP(6, [5, 4], activation="swish_layernorm"),
    "mlp_sigmoid_no_last": lambda: MLP(6, [5, 4], activation="sigmoid", activation_on_last=False),
    "swish_layernorm": lambda: SwishLayerNorm(6),
}


@pytest.mark.parametrize("name", BUILT)
def test_a_block_has_the_recorded_parameters(name):
    shapes = {key: list(value.shape) for key, value in BUILT[name]().state_dict().items()}
    assert shapes == CASES[name]["state_dict"]


@pytest.mark.parametrize("activation", [torch.nn.Tanh, torch.nn.Tanh(), torch.tanh])
def test_an_activation_may_be_a_class_a_module_or_a_function(activation):
    torch.manual_seed(0)
    block = MLP(3, [2], activation=activation)
    torch.manual_seed(0)
    plain = torch.nn.Linear(3, 2)
    x = torch.randn(4, 3)
    assert torch.equal(block(x), plain(x).tanh())


def test_a_factorization_machine_sums_products_of_pairs():
    x, y = tensor("x", (4, 2)), tensor("y", (4, 1, 2))
    columns = torch.cat([x, y[:, 0]], 1)
    expected = sum(columns[:, i] * columns[:, j] for i in range(4) for j in range(i))
    torch.testing.assert_close(FactorizationMachine()([x, y])[:, 0], expected)


@pytest.mark.parametrize(
    "make",
    [
        lambda: LowRankCrossNet(6, 3, 0),
        lambda: LowRankMixtureCrossNet(6, 3, 2, 0),
        lambda: LowRankMixtureCrossNet(6, 3, 0, 1),
    ],
)
def test_sizes_below_one_are_refused(make):
    with pytest.raises(OptionError, match="expected 1 or more"):
        make()


@pytest.mark.parametrize("name", BUILT)
def test_a_block_compiles_in_one_graph(name):
    block = fill_(BUILT[name]())
    x = tensor("x", (4, 6))
    compiled = torch.compile(block, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), block(x))

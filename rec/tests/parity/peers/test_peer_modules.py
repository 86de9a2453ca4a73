"""Building blocks start from the same random numbers as torchrec's, and give the same outputs and gradients."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from flambeau.core.testing.differential import Cell, Suite
from flambeau.core.testing.fill import fill_, tensor

pytest.importorskip("torchrec", reason="needs torchrec; `nox -s parity -- peers rec` has it")

SUITE = Suite(
    "modules",
    ours="flambeau.rec.modules",
    peer="torchrec.modules",
    roots=("flambeau.rec", "torchrec"),
    differences=Path(__file__).with_name("differences.toml"),
)
BLOCKS = [
    "crossnet.CrossNet(6, 3)",
    "crossnet.CrossNet(6, 0)",
    "crossnet.LowRankCrossNet(6, 3)",
    "crossnet.LowRankCrossNet(6, 3, 2)",
    "crossnet.LowRankCrossNet(6, 3, 0)",
    "crossnet.VectorCrossNet(6, 3)",
    "crossnet.LowRankMixtureCrossNet(6, 3)",
    "crossnet.LowRankMixtureCrossNet(6, 3, 4, 2)",
    "crossnet.LowRankMixtureCrossNet(6, 3, 2, 2, torch.nn.Tanh())",
    "crossnet.LowRankMixtureCrossNet(6, 3, 0)",
    "crossnet.LowRankMixtureCrossNet(6, 3, 2, 0)",
    "mlp.MLP(6, [5, 4])",
    "mlp.MLP(6, [])",
    "mlp.MLP(6, [5, 4], bias=False)",
    "mlp.MLP(6, [5, 4], activation='swish_layernorm')",
    "mlp.MLP(6, [5, 4], activation='sigmoid', activation_on_last=False)",
    "mlp.MLP(6, [5, 4], activation='relu')",
    "mlp.MLP(6, [5, 4], activation=torch.tanh)",
    "mlp.MLP(6, [5, 4], activation=torch.nn.Tanh)",
    "mlp.MLP(6, [5, 4], activation=torch.nn.Tanh())",
    "mlp.MLP(6, [5, 4], activation='unknown')",
    "mlp.Perceptron(6, 4)",
    "mlp.Perceptron(6, 4, bias=False, activation=torch.sigmoid)",
    "mlp.Perceptron(6, 4, dtype=torch.float64)",
    "activation.SwishLayerNorm(6)",
    "activation.SwishLayerNorm([4, 6])",
]
INPUTS = {"plain": (4, 6), "none": (0, 6), "narrow": (4, 5), "two-batch-dims": (2, 4, 6)}


def module(library, text):
    names = {"torch": torch} | {name: getattr(library, name) for name in ("crossnet", "mlp", "activation")}
    return eval(text, names)


def learn(library, given, text, filled):
    block = module(library, text)
    if filled:
        fill_(block)
    x = given["x"].clone().requires_grad_()
    output = block(x)
    output.square().sum().backward()
    return {
        "state": block.state_dict(), "output": output.detach(), "input": x.grad,
        "gradients": {name: value.grad for name, value in block.named_parameters()},
    }  # fmt: skip


for _text in BLOCKS:
    for _name, _shape in INPUTS.items():
        for _filled in (False, True):
            SUITE.add(
                Cell(
                    f"{_text.partition('.')[0]}/{_name}/{'filled' if _filled else 'drawn'}/{_text}",
                    _text.partition(".")[0],
                    lambda library, given, text=_text, filled=_filled: learn(library, given, text, filled),
                    lambda library, shape=_shape: {"x": tensor("x", shape)},
                )
            )
for _shapes in ([(4, 3), (4, 2)], [(4, 3)], [(4, 2, 3), (4, 5)], [(0, 3)]):
    for _kind in ("FactorizationMachine()", "DeepFM(torch.nn.Linear(columns, 2))"):
        SUITE.add(
            Cell(
                f"deepfm/{_shapes}/{_kind}",
                "deepfm",
                lambda library, given, text=_kind: eval(
                    f"library.deepfm.{text}",
                    {
                        "library": library,
                        "torch": torch,
                        "columns": sum(x[0].numel() for x in given["x"] if len(x)) or 3,
                    },
                )(given["x"]),
                lambda library, shapes=_shapes: {"x": [tensor(f"x{at}", one) for at, one in enumerate(shapes)]},
            )
        )


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)


def test_every_intended_difference_is_one():
    SUITE.check_differences()

"""Small networks of every family compile as one graph and export."""

from __future__ import annotations

import pytest
import torch

from flambeau.audio import models
from flambeau.audio.prototype.models import hifigan_vocoder

FULL = torch.tensor([20, 14])
CASES = {
    "conformer": (lambda: models.Conformer(16, 4, 32, 1, 7), lambda: (torch.randn(2, 20, 16), FULL)),
    "conv_tasnet": (lambda: models.ConvTasNet(2, 8, 16, 3, 8, 16, 2, 1), lambda: (torch.randn(2, 1, 90),)),
    "deepspeech": (lambda: models.DeepSpeech(6, 8, 5), lambda: (torch.randn(2, 1, 7, 6),)),
    "squim": (
        lambda: models.squim_objective_model(8, 16, 8, 2, 6, 1, "LSTM", 7),
        lambda: (torch.randn(2, 300),),
    ),
    "wavernn": (
        lambda: models.WaveRNN([2, 3], 16, 6, 1, 12, 12, 5, 4, 8, 8),
        lambda: (torch.randn(2, 1, 30), torch.randn(2, 1, 4, 9)),
    ),
    "hdemucs": (
        lambda: models.HDemucs(["a", "b"], channels=4, nfft=256, depth=4, dconv_attn=3, dconv_lstm=3),
        lambda: (torch.randn(1, 2, 2048),),
    ),
    "hifigan": (
        lambda: hifigan_vocoder(4, (4, 2), 8, (8, 4), (3, 5), ((1, 3), (1, 2)), 2, 0.1),
        lambda: (torch.randn(2, 4, 6),),
    ),
}


def built(name):
    make, inputs = CASES[name]
    torch.manual_seed(0)
    return make().eval(), inputs()


def first(output):
    return output if isinstance(output, torch.Tensor) else output[0]


@pytest.mark.parametrize("name", sorted(CASES))
def test_network_compiles_as_one_graph(name):
    torch.compiler.reset()
    model, inputs = built(name)
    with torch.no_grad():
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")(*inputs)
        torch.testing.assert_close(first(compiled), first(model(*inputs)), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", sorted(CASES))
def test_network_exports(name):
    model, inputs = built(name)
    with torch.no_grad():
        exported = torch.export.export(model, inputs, strict=False).module()(*inputs)
        torch.testing.assert_close(first(exported), first(model(*inputs)), rtol=1e-3, atol=1e-4)

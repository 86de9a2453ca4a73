"""A model runs from a compiled package, without its Python code."""

from __future__ import annotations

import pytest
import torch

from flambeau.text.models import RobertaClassificationHead, RobertaEncoderConf, RobertaModel


@pytest.mark.slow
# The compiler and the packaging of torch call functions that torch itself has deprecated.
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_a_compiled_package_gives_the_models_outputs_for_any_batch(tmp_path):
    torch.manual_seed(0)
    conf = RobertaEncoderConf(50, 16, 32, 1, 20, num_attention_heads=2, num_encoder_layers=1, dropout=0.0)
    model = RobertaModel(conf, RobertaClassificationHead(3, 16, dropout=0.0)).eval()
    tokens = torch.tensor([[0, 5, 6, 2], [0, 7, 2, 1]])
    shapes = {"tokens": {0: torch.export.Dim("batch", max=64), 1: torch.export.Dim("length", max=18)}}
    program = torch.export.export(model, (), {"tokens": tokens}, dynamic_shapes=shapes)
    path = torch._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / "model.pt2"))
    loaded = torch._inductor.aoti_load_package(path)
    for batch in (tokens, torch.tensor([[0, 5, 6, 7, 8, 2], [0, 7, 2, 1, 1, 1], [0, 9, 9, 9, 2, 1]])):
        torch.testing.assert_close(loaded(tokens=batch), model(batch), rtol=1e-4, atol=1e-5)

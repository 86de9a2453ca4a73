"""Models run without their Python code: from a compiled package, and from ONNX files."""

from __future__ import annotations

import pytest
import torch
from torch.utils._pytree import tree_leaves

from flambeau.text.models import RobertaClassificationHead, RobertaEncoderConf, RobertaModel, T5Conf, T5Model

# The compiler, the packaging and the exporters of torch call functions that torch itself has deprecated.
pytestmark = [
    pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
]  # fmt: skip
BATCHES = (
    torch.tensor([[0, 5, 6, 2], [0, 7, 2, 1]]),
    torch.tensor([[0, 5, 6, 7, 8, 2], [0, 7, 2, 1, 1, 1], [0, 9, 9, 9, 2, 1]]),
)
ANY = torch.export.Dim.AUTO


def roberta() -> RobertaModel:
    torch.manual_seed(0)
    conf = RobertaEncoderConf(50, 16, 32, 1, 20, num_attention_heads=2, num_encoder_layers=1, dropout=0.0)
    return RobertaModel(conf, RobertaClassificationHead(3, 16, dropout=0.0)).eval().requires_grad_(False)


def t5() -> T5Model:
    torch.manual_seed(0)
    sizes = {"embedding_dim": 16, "qkv_dim": 4, "num_attention_heads": 2, "ffn_dimension": 24, "vocab_size": 40}
    layers = {"num_encoder_layers": 2, "num_decoder_layers": 2}
    return T5Model(T5Conf(linear_head=True, **sizes, **layers)).eval().requires_grad_(False)


class Encoder(torch.nn.Module):
    """A T5's encoder, for graphs of one output."""

    def __init__(self, model: T5Model) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens):
        return self.model(tokens)["encoder_output"]


class Step(torch.nn.Module):
    """The next token's scores and the longer cache, from one token and a cache."""

    def __init__(self, model: T5Model) -> None:
        super().__init__()
        self.model = model

    def forward(self, token, memory, past):
        outputs = self.model(
            decoder_tokens=token, encoder_outputs={"encoder_output": memory}, past_key_values=past,
            return_past_key_values=True,
        )  # fmt: skip
        return outputs["decoder_output"], [layer[:2] for layer in outputs["past_key_values"]]


def test_a_compiled_package_gives_the_models_outputs_for_any_batch(tmp_path):
    model, tokens = roberta(), BATCHES[0]
    shapes = {"tokens": {0: torch.export.Dim("batch", max=64), 1: torch.export.Dim("length", max=18)}}
    program = torch.export.export(model, (), {"tokens": tokens}, dynamic_shapes=shapes)
    path = torch._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / "model.pt2"))
    loaded = torch._inductor.aoti_load_package(path)
    for batch in BATCHES:
        torch.testing.assert_close(loaded(tokens=batch), model(batch), rtol=1e-4, atol=1e-5)


def assert_runs_from_onnx(model, shapes, *inputs):
    """The file made with the first inputs gives the model's outputs for all of them."""
    pytest.importorskip("onnxscript")
    onnxruntime = pytest.importorskip("onnxruntime")
    program = torch.onnx.export(model, inputs[0], dynamo=True, dynamic_shapes=shapes, verbose=False)
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
    names = [given.name for given in session.get_inputs()]
    for given in inputs:
        arrays = [leaf.numpy() for leaf in tree_leaves(given)]
        found = session.run(None, dict(zip(names, arrays, strict=True)))
        expected = tree_leaves(model(*given))
        for ours, theirs in zip(found, expected, strict=True):
            torch.testing.assert_close(torch.from_numpy(ours), theirs, rtol=1e-4, atol=1e-5)


def test_roberta_with_a_head_runs_from_onnx_for_any_batch():
    assert_runs_from_onnx(roberta(), ({0: ANY, 1: ANY},), *((batch,) for batch in BATCHES))


def test_a_t5s_encoder_runs_from_onnx_for_any_batch():
    assert_runs_from_onnx(Encoder(t5()).eval(), ({0: ANY, 1: ANY},), *((batch,) for batch in BATCHES))


def test_a_t5s_decoder_runs_from_onnx_step_by_step():
    model = t5()
    step, begun = Step(model).eval(), torch.tensor([[0, 4], [0, 5]])
    first = model(BATCHES[0], begun, return_past_key_values=True)
    token, memory, past = torch.tensor([[9], [3]]), first["encoder_output"], first["past_key_values"]
    longer = [(*own, *layer[2:]) for own, layer in zip(step(token, memory, past)[1], past, strict=True)]
    shapes = ({0: ANY}, {0: ANY, 1: ANY}, [({0: ANY, 2: ANY},) * 4] * 2)
    assert_runs_from_onnx(step, shapes, (token, memory, past), (token, memory, longer))

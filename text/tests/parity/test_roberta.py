"""RoBERTa beside what the reference computed: `golden/models.json`."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from flambeau.core.testing import fill
from flambeau.core.testing.golden import golden_values
from flambeau.text.models import RobertaClassificationHead, RobertaEncoderConf, RobertaModel
from flambeau.text.models.roberta import TransformerEncoder


@pytest.fixture(scope="module")
def golden():
    return golden_values("models", __file__)["roberta"]


def tokens_of(name: str, shape: tuple[int, int], lengths: tuple[int, ...], *, high: int, pad: int = 1):
    tokens = fill.integers(name, shape, high) + 3
    tokens[:, 0] = 0 if pad else 2
    for row, length in enumerate(lengths):
        tokens[row, length - 1] = 2
        tokens[row, length:] = pad
    return tokens


def tiny_tokens():
    return tokens_of("roberta_tiny", (3, 12), (12, 7, 4), high=97)


def test_the_features_of_real_tokens_are_the_references(golden):
    for name in ("tiny", "tiny_normalize_before"):
        case = golden[name]
        model = fill.fill_(RobertaModel(RobertaEncoderConf(**case["conf"]))).eval()
        tokens = tiny_tokens()
        with torch.inference_mode():
            features = model(tokens)
        assert len(model.state_dict()) == case["keys"]
        assert fill.matches(features[tokens != 1], case["real"]) is None, name
        assert not features[tokens == 1].any()


def test_masked_positions_alone_and_all_layers(golden):
    case = golden["tiny"]
    model = fill.fill_(RobertaModel(RobertaEncoderConf(**case["conf"]))).eval()
    tokens = tiny_tokens()
    masked = torch.zeros_like(tokens)
    masked[[0, 1], [1, 2]] = 1
    assert fill.matches(model(tokens, masked), case["masked_tokens"]["out"]) is None
    transformer = model.encoder.transformer
    transformer.return_all_layers = True
    layers = transformer(tokens)
    assert len(layers) == case["return_all_layers"]["n"]
    for layer, expected in zip(layers, case["return_all_layers"]["real_of_layer"], strict=True):
        assert fill.matches(layer.transpose(0, 1)[tokens != 1], expected) is None


@pytest.mark.parametrize(
    ("name", "inner", "activation"), [("tiny_head", None, nn.ReLU), ("tiny_head_inner_gelu", 20, nn.GELU)]
)
def test_the_head_answers_as_the_reference(golden, name, inner, activation):
    case = golden[name]
    head = RobertaClassificationHead(3, 32, inner, activation=activation)
    model = RobertaModel(RobertaEncoderConf(**case["conf"]), head)
    assert len(model.state_dict()) == case["keys"]
    fill.fill_(model).eval()
    assert fill.matches(model(tiny_tokens()), case["out"]) is None


def test_the_base_size_gives_the_references_features(golden):
    case = golden["base"]
    model = fill.fill_(RobertaModel(RobertaEncoderConf(**case["conf"]))).eval()
    tokens = tokens_of("roberta_base", (2, 16), (16, 9), high=50262)
    with torch.inference_mode():
        real = model(tokens)[tokens != 1]
    assert real.shape == (25, 768)
    assert fill.matches(real, case["real"], rtol=1e-3, atol=1e-4) is None


def test_older_names_load_into_model_encoder_and_stack(golden):
    case = golden["tiny"]
    names = golden_values("models", __file__)["roberta_old_names"]["map"]
    model = fill.fill_(RobertaModel(RobertaEncoderConf(**case["conf"])))
    old = {}
    for key, value in model.state_dict().items():
        parts = key.split(".layers.layers.")
        if len(parts) == 2:
            number, _, rest = parts[1].partition(".")
            key = f"{parts[0]}.layers.{number}.{names[rest]}"
        old[key] = value
    fresh = RobertaModel(RobertaEncoderConf(**case["conf"]))
    fresh.load_state_dict(dict(old), strict=True)
    assert all(torch.equal(a, b) for a, b in zip(fresh.state_dict().values(), model.state_dict().values(), strict=True))
    below = {key.removeprefix("encoder.transformer."): value for key, value in old.items()}
    conf = dict(case["conf"])
    TransformerEncoder(**conf).load_state_dict(below, strict=True)


def test_a_training_step_has_the_references_loss_and_gradients(golden):
    case, conf = golden["tiny_train_step"], dict(golden["tiny"]["conf"], dropout=0.0)
    model = fill.fill_(RobertaModel(RobertaEncoderConf(**conf), RobertaClassificationHead(3, 32, dropout=0.0))).train()
    loss = nn.functional.cross_entropy(model(tiny_tokens()), torch.arange(3))
    loss.backward()
    assert float(loss.detach()) == pytest.approx(case["loss"], rel=1e-4)
    norms = {name: float(value.grad.norm()) for name, value in model.named_parameters() if name in case["grad_norms"]}
    assert norms == pytest.approx(case["grad_norms"], rel=1e-3)
    assert not model.encoder.transformer.token_embedding.weight.grad[1].any()

"""T5 beside what the reference computed: `golden/models.json`."""

from __future__ import annotations

import pytest
import torch

from flambeau.core.testing import fill
from flambeau.core.testing.golden import golden_values
from flambeau.text.models.t5 import T5Conf, T5Model, T5MultiheadAttention


@pytest.fixture(scope="module")
def golden():
    return golden_values("models", __file__)["t5"]


def build(config) -> T5Model:
    return fill.fill_(T5Model(T5Conf(**config))).eval()


def tokens_of(name, shape, high, lengths):
    tokens = fill.integers(name, shape, high) + 2
    for row, length in enumerate(lengths):
        tokens[row, length - 1] = 1
        tokens[row, length:] = 0
    return tokens


def batch(size="tiny"):
    if size == "tiny":
        encoder = tokens_of("t5_enc", (2, 10), 62, (10, 6))
        decoder = fill.integers("t5_dec", (2, 5), 62) + 2
    else:
        encoder = tokens_of("t5_small_enc", (2, 12), 31998, (12, 7))
        decoder = fill.integers("t5_small_dec", (2, 4), 31000) + 2
    decoder[:, 0] = 0
    return encoder, decoder


@pytest.mark.parametrize("name", ["tiny_encoder", "tiny_long_encoder"])
def test_the_encoder_gives_the_references_states(golden, name):
    case = golden[name]
    model = build(case["config"])
    tokens = batch()[0]
    if name == "tiny_long_encoder":
        tokens = tokens_of("t5_long", (1, 200), 62, (200,))
    outputs = model(tokens)
    assert sorted(key for key in outputs) == sorted(case["output_keys"])
    assert len(model.state_dict()) == case["keys"]
    assert len(outputs["encoder_hidden_states"]) == case["encoder_hidden_states"]
    assert fill.matches(outputs["encoder_output"][tokens != 0], case["encoder_output_real"]) is None
    assert fill.matches(outputs["encoder_position_bias"], case["encoder_position_bias"]) is None
    assert fill.matches(outputs["encoder_sa_scores"][0], case["encoder_sa_scores_0"]) is None


@pytest.mark.parametrize(
    "name", ["tiny_model", "tiny_generation", "tiny_gated_gelu", "tiny_gelu", "tiny_few_buckets", "small_generation"]
)
def test_the_decoder_gives_the_references_output_whole_and_step_by_step(golden, name):
    case = golden[name]
    model = build(case["config"])
    encoder, decoder = batch(name.partition("_")[0])
    with torch.inference_mode():
        outputs = model(encoder, decoder)
        assert (sorted(outputs), len(model.state_dict())) == (sorted(case["output_keys"]), case["keys"])
        assert fill.matches(outputs["encoder_output"][encoder != 0], case["encoder_output_real"]) is None
        assert fill.matches(outputs["decoder_output"], case["decoder_output"]) is None
        assert fill.matches(outputs["decoder_position_bias"], case["decoder_position_bias"]) is None
        assert fill.matches(outputs["decoder_ca_scores"][0], case["decoder_ca_scores_0"]) is None
        assert fill.matches(model(encoder)["decoder_output"], case["default_decoder_tokens"]) is None
        past = model(encoder, decoder[:, :3], return_past_key_values=True)["past_key_values"]
        assert len(past) == case["past_key_values"]["layers"]
        assert [list(part.shape) for part in past[0]] == case["past_key_values"]["shapes"]
        step = model(encoder, decoder[:, 3:4], past_key_values=past, return_past_key_values=True)
        assert fill.matches(step["decoder_output"], case["step_with_past"]) is None
    assert model._shift_right(decoder).tolist() == case["shift_right"]


def test_state_names_and_shapes_are_the_references(golden):
    for name in ("tiny_encoder", "tiny_model", "tiny_generation", "tiny_gated_gelu"):
        model = T5Model(T5Conf(**golden[name]["config"]))
        assert {key: list(value.shape) for key, value in model.state_dict().items()} == golden[name]["keys_list"]
        assert model.encoder.token_embeddings is model.token_embeddings


def test_distances_share_rows_as_the_reference(golden):
    case = golden["relative_position_bucket"]
    distances = torch.tensor(case["relative_positions"])
    for name, bidirectional in (("bidirectional", True), ("causal", False)):
        rows = T5MultiheadAttention._relative_position_bucket(
            distances, bidirectional, case["num_buckets"], case["max_distance"]
        )
        assert rows.tolist() == case[name]


def test_errors_are_of_the_references_types(golden):
    with pytest.raises(ValueError, match="a-b"):
        T5Conf(feed_forward_proj="a-b")
    with pytest.raises(AssertionError, match="silu"):
        T5Model(T5Conf(activation="silu", embedding_dim=8, qkv_dim=2, num_attention_heads=2, vocab_size=9))
    with pytest.raises(AssertionError, match="T5Conf"):
        T5Model({})
    tiny = T5Model(T5Conf(**golden["tiny_model"]["config"]))
    with pytest.raises(AssertionError, match="encoder_tokens"):
        tiny()

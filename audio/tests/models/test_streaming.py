"""Emformer and the transducers: whole utterances, streams, padding, compilation."""

from __future__ import annotations

import pytest
import torch

from flambeau.audio import models
from flambeau.audio.prototype import models as prototype

SIZES = {"input_dim": 16, "num_heads": 4, "ffn_dim": 32, "num_layers": 2, "segment_length": 4}
CONTEXT = {"left_context_length": 6, "right_context_length": 2}
RNNT = {
    "input_dim": 10,
    "encoding_dim": 12,
    "num_symbols": 9,
    "segment_length": 4,
    "right_context_length": 2,
    "time_reduction_input_dim": 8,
    "time_reduction_stride": 2,
    "transformer_num_heads": 4,
    "transformer_ffn_dim": 32,
    "transformer_num_layers": 2,
    "transformer_dropout": 0.0,
    "transformer_activation": "gelu",
    "transformer_left_context_length": 3,
    "transformer_max_memory_size": 0,
    "transformer_weight_init_scale_strategy": "depthwise",
    "transformer_tanh_on_mem": True,
    "symbol_embedding_dim": 12,
    "num_lstm_layers": 2,
    "lstm_layer_norm": True,
    "lstm_layer_norm_epsilon": 1e-3,
    "lstm_dropout": 0.0,
}


def make(kind: str, **changes: object) -> torch.nn.Module:
    torch.manual_seed(0)
    if kind == "conv":
        return prototype.ConvEmformer(**SIZES | CONTEXT | changes, kernel_size=3).eval()
    return models.Emformer(**SIZES | CONTEXT | changes).eval()


@pytest.mark.parametrize("kind", ["plain", "conv"])
def test_segments_of_a_stream_give_what_the_whole_utterance_gives(kind):
    model, frames = make(kind), torch.randn(2, 14, 16)
    whole, _ = model(frames, torch.tensor([12, 12]))
    states, parts = None, []
    for start in (0, 4, 8):
        part, _, states = model.infer(frames[:, start : start + 6], torch.tensor([6, 6]), states)
        parts.append(part)
    torch.testing.assert_close(torch.cat(parts, dim=1), whole, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("memory", [0, 2])
def test_padding_behind_an_utterance_changes_no_whole_segment(memory):
    model, frames = make("plain", max_memory_size=memory), torch.randn(1, 14, 16)
    noisy = frames.clone()
    noisy[:, 8:12] = 7.0
    lengths = torch.tensor([8])
    # The last right context is seen by every batch; frames between it and the utterance's end are not.
    first, second = (model(x, lengths)[0][:, :4] for x in (frames, noisy))
    torch.testing.assert_close(first, second)


def test_a_first_segment_sees_no_more_than_itself():
    model = make("plain", max_memory_size=3)
    frames = torch.randn(1, 6, 16)
    output, _, states = model.infer(frames, torch.tensor([6]), None)
    zeros = [[torch.zeros_like(tensor) for tensor in state] for state in states]
    filled = [[torch.full_like(state[0], 9.0), *state[1:]] for state in zeros]
    torch.testing.assert_close(model.infer(frames, torch.tensor([6]), filled)[0], output)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m(torch.randn(1, 2, 16), torch.tensor([0])), "2 frames, expected more than right_context_length"),
        (lambda m: m.infer(torch.randn(1, 5, 16), torch.tensor([5])), "5 frames, expected 6"),
        (lambda m: make("plain", activation="tanh"), "Unsupported activation 'tanh'"),
        (lambda m: make("plain", weight_init_scale_strategy="wide"), "weight_init_scale_strategy 'wide'"),
        (lambda m: make("plain", num_heads=5), "input_dim is 16, expected a multiple of num_heads, which is 5"),
    ],
)
def test_what_does_not_fit_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call(make("plain"))


def test_streaming_compiles_as_one_graph_for_every_segment():
    torch.compiler.reset()
    model = models.emformer_rnnt_model(**RNNT).eval()
    compiled = torch.compile(model.transcribe_streaming, fullgraph=True, backend="aot_eager")
    state = expected_state = None
    with torch.no_grad():
        _, _, state = compiled(torch.randn(1, 6, 10), torch.tensor([6]), None)
        expected_state = state
        for _ in range(2):
            features = torch.randn(1, 6, 10)
            expected, _, expected_state = model.transcribe_streaming(features, torch.tensor([6]), expected_state)
            output, _, state = compiled(features, torch.tensor([6]), state)
            torch.testing.assert_close(output, expected, rtol=1e-4, atol=1e-5)


def test_transducer_exports():
    model = models.emformer_rnnt_model(**RNNT).eval()
    inputs = (torch.randn(2, 18, 10), torch.tensor([16, 12]), torch.ones(2, 3, dtype=torch.int32), torch.tensor([3, 2]))
    with torch.no_grad():
        exported = torch.export.export(model, inputs, strict=False).module()(*inputs)
        torch.testing.assert_close(exported[0], model(*inputs)[0], rtol=1e-4, atol=1e-5)


def test_predicting_symbol_by_symbol_gives_what_the_sequence_gives():
    model = models.emformer_rnnt_model(**RNNT).eval()
    symbols, one = torch.tensor([[1, 5, 3]]), torch.tensor([1])
    whole, _, _ = model.predict(symbols, torch.tensor([3]), None)
    state, parts = None, []
    for symbol in symbols[0]:
        part, _, state = model.predict(symbol.reshape(1, 1), one, state)
        parts.append(part)
    torch.testing.assert_close(torch.cat(parts, dim=1), whole)


def test_number_of_symbols_or_weights_must_be_given():
    with pytest.raises(TypeError, match="needs `num_symbols`, or `weights`"):
        models.emformer_rnnt_base()


def biased(**changes: object) -> torch.nn.Module:
    settings = {
        "input_dim": 8,
        "encoding_dim": 12,
        "time_reduction_stride": 2,
        "conformer_input_dim": 16,
        "conformer_ffn_dim": 16,
        "conformer_num_layers": 1,
        "conformer_num_heads": 2,
        "conformer_depthwise_conv_kernel_size": 3,
        "conformer_dropout": 0.0,
        "num_symbols": 5,
        "symbol_embedding_dim": 6,
        "num_lstm_layers": 1,
        "lstm_hidden_dim": 7,
        "lstm_layer_norm": True,
        "lstm_layer_norm_epsilon": 1e-5,
        "lstm_dropout": 0.0,
        "joiner_activation": "tanh",
        "attndim": 4,
        "biasing": True,
        "charlist": ["a", "b", "c\u2581", "d\u2581", "<blank>"],
        "deepbiasing": True,
        "tcpsche": 2,
        "DBaverage": False,
    }
    torch.manual_seed(0)
    return prototype.conformer_rnnt_biasing(**settings | changes).eval()


# The words "ac" and "abd".
LEAF = [{}, 0, None]
TREE = [{0: [{2: LEAF, 1: [{3: LEAF}, -1, None]}, -1, None]}, -1, None]
BATCH = (torch.randn(1, 8, 8), torch.tensor([8]), torch.tensor([[4, 0, 1]]), torch.tensor([3]))


def test_pointer_points_at_what_may_follow_and_nowhere_else():
    _, _, _, _, distribution, gate = biased()(*BATCH, TREE, 2)
    possible = (distribution[0, 0] > 1e-6).nonzero().tolist()
    assert possible == [[0, 0], [1, 1], [1, 2], [2, 3]]
    assert gate.shape == (1, 4, 3, 1)


def test_prefix_that_leaves_the_tree_is_not_pointed_from():
    impossible, outside = biased().get_tcpgen_step_masks(torch.tensor([[4, 1, 1, 2, 0]]), TREE)
    assert outside.tolist() == [[0, 1, 1, 0, 0]]
    assert (impossible[0] == 0).nonzero().tolist() == [[0, 0], [3, 0], [4, 1], [4, 2]]


@pytest.mark.parametrize("average", [False, True])
def test_before_its_epoch_the_pointer_changes_nothing_but_gets_gradients(average):
    model = biased(DBaverage=average)
    logits, _, _, _, distribution, gate = model(*BATCH, TREE, 1)
    assert distribution is None
    assert gate is None
    logits.sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_symbols_without_a_blank_are_refused():
    with pytest.raises(ValueError, match="2 symbols without '<blank>'"):
        biased(charlist=["a", "b"])

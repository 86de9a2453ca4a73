"""Beam search of transducers: against a search that keeps nothing, as a stream, and biased."""

import math

import pytest
import torch
from torch import nn

from flambeau.audio.models import RNNTBeamSearch, emformer_rnnt_model
from flambeau.audio.models.rnnt_decoder import Predictions, Prefixes
from flambeau.audio.prototype.models import RNNTBeamSearchBiasing, conformer_rnnt_biasing

SYMBOLS = 6


class Transducer(nn.Module):
    """A transducer whose state is the sum of its symbols' embeddings."""

    def __init__(self, seed=0):
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.embedding = torch.randn(SYMBOLS, 8, generator=generator)
        self.output = torch.randn(8, SYMBOLS, generator=generator)
        self.calls = 0

    def transcribe(self, sources, lengths):
        return sources, lengths

    def transcribe_streaming(self, sources, lengths, state):
        return sources, lengths, [[torch.ones(1)]]

    def predict(self, targets, lengths, state):
        self.calls += 1
        embedded = self.embedding[targets[:, 0]]
        total = embedded if state is None else 0.5 * state[0][0] + embedded
        return total.unsqueeze(1), lengths, [[total], [total * 0, total * 0]]

    def join(self, sources, source_lengths, targets, target_lengths):
        joined = torch.tanh(sources.unsqueeze(2) + targets.unsqueeze(1)) @ self.output
        return joined, source_lengths, target_lengths


def frames(seed, count=4):
    return torch.randn(1, count, 8, generator=torch.Generator().manual_seed(seed))


def plainly(model, sources, blank, beam, most):
    """The same search without anything kept: each sequence is predicted anew from its first token."""

    def log_probabilities(tokens, frame):
        state, output = None, None
        for token in tokens:
            output, _, state = model.predict(torch.tensor([[token]]), torch.ones(1), state)
        joined, _, _ = model.join(frame, None, output, None)
        return joined[0, 0, 0].log_softmax(-1).tolist()

    kept = {(blank,): 0.0}
    for frame in sources.split(1, dim=1):
        active, done = dict(kept), {}
        for emitted in range(most + 1):
            scores = {tokens: log_probabilities(tokens, frame) for tokens in active}
            for tokens, score in active.items():
                total = score + scores[tokens][blank]
                done[tokens] = math.log(math.exp(done.get(tokens, -math.inf)) + math.exp(total))
            if emitted == most:
                break
            least = sorted(done.values())[-beam] if len(done) >= beam else -math.inf
            grown = [
                (score + scores[tokens][symbol], (*tokens, symbol))
                for tokens, score in active.items()
                for symbol in range(SYMBOLS)
                if symbol != blank
            ]
            active = {tokens: score for score, tokens in sorted(grown)[-beam:] if score > least}
        best = sorted(done, key=lambda tokens: done[tokens] / (len(tokens) + 1), reverse=True)
        kept = {tokens: done[tokens] for tokens in best[:beam]}
    return kept


@pytest.mark.parametrize("blank", [SYMBOLS - 1, 0, 2])
@pytest.mark.parametrize("beam", [1, 3, 8])
@pytest.mark.parametrize("seed", [1, 2])
def test_it_finds_what_the_plain_search_finds(seed, beam, blank):
    model = Transducer(seed)
    expected = plainly(model, frames(seed), blank, beam, most=3)
    found = RNNTBeamSearch(model, blank, step_max_tokens=3)(frames(seed), torch.tensor([4]), beam)
    assert [tuple(tokens) for tokens, *_ in found] == list(expected)
    assert [score for *_, score in found] == pytest.approx(list(expected.values()), abs=1e-4)


def test_a_sequence_is_predicted_once_as_long_as_it_is_tried():
    model = Transducer()
    RNNTBeamSearch(model, SYMBOLS - 1, step_max_tokens=2)(frames(3, 1).expand(1, 20, 8), torch.tensor([20]), 1)
    assert model.calls < 3 * 20


def test_a_stream_gives_what_the_whole_gives():
    decoder = RNNTBeamSearch(Transducer(), SYMBOLS - 1, step_max_tokens=3)
    whole = decoder(frames(4, 6), torch.tensor(6), 3)
    state = hypotheses = None
    for piece in frames(4, 6)[0].split(2):
        hypotheses, state = decoder.infer(piece, torch.tensor(2), 3, state, hypotheses)
    assert [tokens for tokens, *_ in hypotheses] == [tokens for tokens, *_ in whole]
    assert [score for *_, score in hypotheses] == pytest.approx([score for *_, score in whole], abs=1e-4)


def test_one_hypothesis_may_be_given_by_itself():
    decoder = RNNTBeamSearch(Transducer(), SYMBOLS - 1, step_max_tokens=3)
    (best, *_), state = decoder.infer(frames(5), torch.tensor([4]), 3)
    alone, _ = decoder.infer(frames(6), torch.tensor([4]), 3, state, best)
    listed, _ = decoder.infer(frames(6), torch.tensor([4]), 3, state, [best])
    assert [tokens for tokens, *_ in alone] == [tokens for tokens, *_ in listed]


def test_hypotheses_are_ranked_by_the_key_that_is_given():
    seen = []

    def shortest(hypothesis):
        tokens, output, state, score = hypothesis
        seen.append((output.shape, state[0][0].shape))
        return -len(tokens) + 1e-3 * score

    decoder = RNNTBeamSearch(Transducer(), SYMBOLS - 1, hypo_sort_key=shortest, step_max_tokens=3)
    found = decoder(frames(7), torch.tensor([4]), 3)
    lengths = [len(tokens) for tokens, *_ in found]
    assert lengths == sorted(lengths)
    assert set(seen) == {((1, 8), (1, 8))}


@pytest.mark.parametrize(
    ("shape", "length", "beam", "words"),
    [
        ((2, 4, 8), [4], 3, r"expected \(T, D\) or \(1, T, D\)"),
        ((4, 8), [4, 4], 3, "length has the shape"),
        ((4, 8), [4], 0, "beam_width is 0"),
    ],
)
def test_what_does_not_fit_is_refused(shape, length, beam, words):
    with pytest.raises(ValueError, match=words):
        RNNTBeamSearch(Transducer(), SYMBOLS - 1)(torch.zeros(shape), torch.tensor(length), beam)


def test_a_real_transducer_goes_on_where_it_stopped():
    torch.manual_seed(0)
    model = emformer_rnnt_model(
        input_dim=10, encoding_dim=12, num_symbols=9, segment_length=4, right_context_length=2,
        time_reduction_input_dim=8, time_reduction_stride=2, transformer_num_heads=4, transformer_ffn_dim=32,
        transformer_num_layers=2, transformer_dropout=0.0, transformer_activation="gelu",
        transformer_left_context_length=3, transformer_max_memory_size=0,
        transformer_weight_init_scale_strategy="depthwise", transformer_tanh_on_mem=True, symbol_embedding_dim=12,
        num_lstm_layers=2, lstm_layer_norm=True, lstm_layer_norm_epsilon=1e-3, lstm_dropout=0.0,
    ).eval()  # fmt: skip
    decoder = RNNTBeamSearch(model, 8, step_max_tokens=2)
    state = hypotheses = None
    lengths = []
    for i in range(3):
        hypotheses, state = decoder.infer(torch.randn(6, 10), torch.tensor(6), 3, state, hypotheses)
        lengths.append(max(len(tokens) for tokens, *_ in hypotheses))
        assert all(tokens[0] == 8 and not output.requires_grad for tokens, output, *_ in hypotheses), i
    assert lengths == sorted(lengths)


def test_equal_sequences_have_one_number():
    prefixes = Prefixes()
    number = prefixes.of([5, 1, 2])
    assert prefixes.longer(prefixes.of([5, 1]), 2) == number != prefixes.of([5, 2, 1])
    assert prefixes.tokens(number) == [5, 1, 2]
    assert (prefixes.length(number), prefixes.last(number)) == (3, 2)


def test_predictions_keep_what_is_wanted_when_they_give_room_back():
    predictions = Predictions()
    rows = torch.arange(200.0).reshape(200, 1, 1)
    predictions.add(range(200), rows, [[rows[:, 0]]])
    predictions.forget_all_but([7, 150])
    predictions.add([300], rows[3:4], [[rows[3:4, 0]]])
    output, state = predictions.take([150, 300, 7])
    assert output.flatten().tolist() == state[0][0].flatten().tolist() == [150.0, 3.0, 7.0]
    assert 8 not in predictions


def biased(**options):
    torch.manual_seed(0)
    symbols = [*(f"{letter}\u2581" if letter in "xyz" else letter for letter in "abcdexyz"), "<blank>"]
    return conformer_rnnt_biasing(
        input_dim=10, encoding_dim=12, time_reduction_stride=2, conformer_input_dim=16, conformer_ffn_dim=32,
        conformer_num_layers=1, conformer_num_heads=4, conformer_depthwise_conv_kernel_size=7, conformer_dropout=0.0,
        num_symbols=9, symbol_embedding_dim=12, num_lstm_layers=1, lstm_hidden_dim=14, lstm_layer_norm=True,
        lstm_layer_norm_epsilon=1e-5, lstm_dropout=0.0, joiner_activation="tanh", attndim=6, biasing=True,
        charlist=symbols, deepbiasing=options.get("deep", True), tcpsche=0, DBaverage=False,
    ).eval()  # fmt: skip


TREE = [{0: [{1: [{5: [{}, 0, None]}, -1, None], 6: [{}, 1, None]}, -1, None]}, -1, None]


def test_biasing_follows_the_tree_and_changes_what_is_found():
    model = biased()
    source, length = torch.randn(12, 10), torch.tensor([12])
    decoder = RNNTBeamSearchBiasing(model, 8, step_max_tokens=2, trie=TREE, biasing=True)
    found = decoder(source, length, 3)
    for tokens, _, _, _, node in found:
        expected = TREE
        for token in tokens:
            expected = model.get_tcpgen_step(token, expected, TREE)
        assert node == expected
    plain = RNNTBeamSearchBiasing(model, 8, step_max_tokens=2, trie=TREE)(source, length, 3)
    assert all(node is TREE for *_, node in plain)
    assert [h[3] for h in found] != pytest.approx([h[3] for h in plain], abs=1e-4)


def test_biased_probabilities_add_up_to_one():
    model = biased()
    decoder = RNNTBeamSearchBiasing(model, 8, trie=TREE, biasing=True)
    encoded, _ = model.transcribe(torch.randn(1, 12, 10), torch.tensor([12]))
    with torch.no_grad():
        search = decoder._begin(encoded, None)
        total = search.log_probabilities(encoded[:, :1], list(search.beam)).exp().sum()
    assert total.item() == pytest.approx(1, abs=1e-5)


def test_biasing_needs_a_tree():
    with pytest.raises(ValueError, match="trie is None"):
        RNNTBeamSearchBiasing(biased(), 8, biasing=True)

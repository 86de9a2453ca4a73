"""The CTC beam search: what it finds, how it may be fed, and what it refuses."""

import pickle
import threading

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from flambeau.audio._native import LIBRARY
from flambeau.audio.models.decoder import CTCDecoderLM, CTCDecoderLMState, ctc_decoder

from .conftest import TOKENS, emissions, plain


def by_python(monkeypatch, *args, **kwargs):
    with monkeypatch.context() as patch:
        patch.setattr(LIBRARY, "load", lambda: None)
        return ctc_decoder(*args, **kwargs)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    frames=st.integers(0, 15),
    beam=st.sampled_from([1, 3, 20, 200]),
    tokens=st.sampled_from([2, 3, None]),
    threshold=st.sampled_from([4.0, 50.0]),
    lm_weight=st.floats(0.1, 3),
    silence=st.floats(-1, 1),
    log_add=st.booleans(),
    unknown=st.sampled_from([float("-inf"), -3.7]),
    spelled=st.booleans(),
)
def test_the_native_search_finds_what_the_one_in_python_finds(
    tmp_path_factory, seed, frames, beam, tokens, threshold, lm_weight, silence, log_add, unknown, spelled
):
    folder = tmp_path_factory.mktemp("lexicon")
    (folder / "lexicon.txt").write_text("ab a b |\nba b a |\ncab c a b |\na a |\nabc a b c |\ncc c c\n")
    lexicon = folder / "lexicon.txt" if spelled else None
    options = {
        "nbest": 3, "beam_size": beam, "beam_size_token": tokens, "beam_threshold": threshold, "lm_weight": lm_weight,
        "word_score": 0.3, "unk_score": unknown, "sil_score": silence, "log_add": log_add,
    }  # fmt: skip
    frames_of = emissions(seed, 1, frames)
    native = ctc_decoder(lexicon, TOKENS, **options)(frames_of)
    with pytest.MonkeyPatch.context() as patch:
        reference = by_python(patch, lexicon, TOKENS, **options)(frames_of)
    assert [h.score for h in native[0]] == pytest.approx([h.score for h in reference[0]], rel=1e-5, abs=1e-5)
    assert plain(native[0][:1]) == plain(reference[0][:1])


def test_without_a_model_a_wide_beam_finds_the_greedy_path():
    frames = emissions(3, 1)
    best = ctc_decoder(None, TOKENS, beam_size=50)(frames)[0][0]
    path = torch.unique_consecutive(frames[0].argmax(-1))
    # The path begins and ends in silence, which repeats where the frames begin or end in it.
    expected = torch.unique_consecutive(torch.cat([torch.tensor([1]), frames[0].argmax(-1), torch.tensor([1])]))
    assert best.tokens.tolist() == [token for token in expected.tolist() if token]
    assert best.score == pytest.approx(frames[0].amax(-1).sum().item(), rel=1e-5)
    assert len(path) > 1


def test_hypotheses_come_best_first_and_say_when_each_token_begins(lexicon):
    found = ctc_decoder(lexicon, TOKENS, nbest=10, beam_size=100)(emissions(1))
    for hypotheses in found:
        scores = [h.score for h in hypotheses]
        assert scores == sorted(scores, reverse=True)
        for h in hypotheses:
            assert h.tokens.dtype == torch.int64
            assert h.timesteps.dtype == torch.int32
            assert h.timesteps.tolist() == sorted(set(h.timesteps.tolist()))
            assert torch.equal(h.frames, h.timesteps - 1)


def test_a_batch_gives_what_its_utterances_give_alone(lexicon, arpa):
    decoder = ctc_decoder(lexicon, TOKENS, arpa, nbest=3)
    batch = emissions(5, 6)
    lengths = torch.tensor([20, 13, 1, 0, 7, 20])
    together = decoder(batch, lengths)
    for row, length, found in zip(batch, lengths.tolist(), together, strict=True):
        assert plain(decoder(row[:length].unsqueeze(0))[0]) == plain(found)


@pytest.mark.parametrize("pieces", [[20], [1] * 20, [0, 7, 13]])
def test_an_utterance_in_pieces_gives_what_it_gives_at_once(lexicon, arpa, pieces):
    decoder = ctc_decoder(lexicon, TOKENS, arpa, nbest=3)
    frames = emissions(7, 1)
    for _ in range(2):  # a decoder takes one utterance after the other
        decoder.decode_begin()
        for piece in frames[0].split(pieces):
            decoder.decode_step(piece.contiguous())
        decoder.decode_end()
        assert plain(decoder.get_final_hypothesis()) == plain(decoder(frames)[0])


def test_hypotheses_can_be_had_before_the_end():
    decoder = ctc_decoder(None, TOKENS)
    decoder.decode_begin()
    assert decoder.get_final_hypothesis() == []
    decoder.decode_step(emissions(2, 1)[0])
    assert len(decoder.get_final_hypothesis()) == 1


def test_calls_out_of_order_say_what_is_missing():
    decoder = ctc_decoder(None, TOKENS)
    for call in (lambda: decoder.decode_step(emissions(0)[0]), decoder.decode_end, decoder.get_final_hypothesis):
        with pytest.raises(RuntimeError, match="decode_begin"):
            call()
    decoder.decode_begin()
    decoder.decode_end()
    with pytest.raises(RuntimeError, match="has ended"):
        decoder.decode_step(emissions(0)[0])


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        (lambda x: x.double(), ValueError, "float32"),
        (lambda x: x[0], RuntimeError, "must be 3D"),
        (lambda x: x.transpose(0, 1), RuntimeError, "contiguous"),
        (lambda x: x.to("meta"), RuntimeError, "CPU"),
        (lambda x: x[..., :1].contiguous(), ValueError, "1 tokens, but blank and silence"),
    ],
)
def test_emissions_that_do_not_fit_are_refused(wrong, error, words):
    with pytest.raises(error, match=words):
        ctc_decoder(None, TOKENS)(wrong(emissions(0)))


def test_tokens_that_a_model_does_not_have_are_never_chosen():
    narrow = emissions(0)[..., :4].contiguous()
    (best, *_), *_ = ctc_decoder(None, TOKENS)(narrow)
    (alone, *_), *_ = ctc_decoder(None, TOKENS[:4])(narrow)
    assert torch.equal(best.tokens, alone.tokens) and best.score == pytest.approx(alone.score)


@pytest.mark.parametrize("lengths", [[21, 3], [-1, 3], [3]])
def test_lengths_that_do_not_fit_are_refused(lengths):
    with pytest.raises(ValueError, match="expected 2 numbers from 0 to 20"):
        ctc_decoder(None, TOKENS)(emissions(0), torch.tensor(lengths))


def test_scores_that_are_not_numbers_give_no_hypothesis():
    assert ctc_decoder(None, TOKENS)(torch.full((1, 3, 5), float("nan"))) == [[]]


def test_there_may_be_more_outputs_than_tokens():
    wider = torch.cat([emissions(4, 1), torch.full((1, 20, 2), -99.0)], dim=2)
    decoder = ctc_decoder(None, TOKENS, beam_size_token=7)
    assert plain(decoder(wider)[0]) == plain(decoder(emissions(4, 1))[0])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"nbest": 0}, "nbest is 0"),
        ({"beam_size": 0}, "beam_size is 0"),
        ({"beam_threshold": -1}, "beam_threshold is -1"),
        ({"lm_weight": float("nan")}, "lm_weight is not a number"),
        ({"tokens": ["-", "|", "a", "a"]}, "Duplicate entry.*'a'"),
        ({"blank_token": "_"}, "Unknown entry in dictionary: '_'"),
        ({"lm_dict": 3}, "lm_dict is a int, expected the path"),
    ],
)
def test_options_that_do_not_fit_are_named(change, words):
    with pytest.raises(ValueError, match=words):
        ctc_decoder(**{"lexicon": None, "tokens": TOKENS, **change})


def test_a_lexicon_with_strange_tokens_or_no_spelling_is_refused(tmp_path):
    path = tmp_path / "lexicon.txt"
    path.write_text("word w o |\n")
    with pytest.raises(ValueError, match="Unknown entry in dictionary: 'w'"):
        ctc_decoder(path, TOKENS)
    path.write_text("ab a b |\n\nword\n")
    with pytest.raises(ValueError, match="line 3: 'word' has no spelling"):
        ctc_decoder(path, TOKENS)
    with pytest.raises(FileNotFoundError):
        ctc_decoder(tmp_path / "absent.txt", TOKENS)


def test_tokens_may_share_a_line_and_hold_any_character_but_blanks(tmp_path):
    path = tmp_path / "tokens.txt"
    path.write_text("- <blank>\n|\na A\n\u00a0x\n", encoding="utf-8")
    decoder = ctc_decoder(None, str(path))
    assert decoder.idxs_to_tokens(torch.tensor([0, 2, 3])) == ["-", "a", "\u00a0x"]
    assert decoder.tokens_dict.get_index("A") == 2


def test_more_than_six_words_may_sound_alike(tmp_path):
    path = tmp_path / "lexicon.txt"
    path.write_text("".join(f"word{i} a b |\n" for i in range(9)))
    found = ctc_decoder(path, TOKENS, nbest=20, beam_size=500)(emissions(11, 1))[0]
    assert {word for h in found for word in h.words} == {f"word{i}" for i in range(9)}


def test_a_decoder_survives_pickling_and_serves_several_threads(lexicon, arpa):
    decoder = ctc_decoder(lexicon, TOKENS, arpa, nbest=2)
    copy = pickle.loads(pickle.dumps(decoder))
    batch = emissions(8, 4, 40)
    expected = [plain(found) for found in decoder(batch)]
    results = {}
    threads = [
        threading.Thread(target=lambda i=i: results.__setitem__(i, [plain(f) for f in copy(batch)])) for i in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [results[i] for i in range(4)] == [expected] * 4


class Bigrams(CTCDecoderLM):
    """Likes tokens to go on by one, and counts its calls."""

    def __init__(self):
        super().__init__()
        self.last = {}
        self.finished = 0

    def start(self, start_with_nothing):
        assert not start_with_nothing
        state = CTCDecoderLMState()
        self.last[state] = 0
        return state

    def score(self, state, usr_token_idx):
        after = state.child(usr_token_idx)
        self.last[after] = usr_token_idx
        return after, -0.3 * abs(usr_token_idx - self.last[state] - 1)

    def finish(self, state):
        self.finished += 1
        return state, -0.2


@pytest.mark.parametrize("spelled", [True, False])
def test_a_language_model_in_python_weighs_in(lexicon, monkeypatch, spelled):
    frames = emissions(9, 2)
    arguments = (lexicon if spelled else None, TOKENS, Bigrams())
    native = ctc_decoder(*arguments, nbest=2, beam_size=10)(frames)
    reference = by_python(monkeypatch, *arguments, nbest=2, beam_size=10)(frames)
    assert [plain(found) for found in native] == [plain(found) for found in reference]
    assert native[0][0].score < ctc_decoder(arguments[0], TOKENS)(frames)[0][0].score
    assert arguments[2].finished > 0


@pytest.mark.parametrize("method", ["start", "score", "finish"])
def test_what_a_language_model_in_python_raises_reaches_the_caller(method):
    class Failing(Bigrams):
        pass

    def fail(self, *args):
        raise ZeroDivisionError("from the model")

    setattr(Failing, method, fail)
    decoder = ctc_decoder(None, TOKENS, Failing())
    with pytest.raises(ZeroDivisionError, match="from the model"):
        decoder(emissions(0))


def test_a_language_model_in_python_has_to_define_its_methods():
    class Nothing(CTCDecoderLM):
        pass

    with pytest.raises(TypeError, match="abstract"):
        Nothing()


def test_states_have_one_child_for_each_unit_and_compare_by_identity():
    state = CTCDecoderLMState()
    child = state.child(3)
    assert state.child(3) is child
    assert state.children == {3: child}
    assert state.compare(state) == 0
    assert state.compare(child) == -child.compare(state) != 0


def test_a_language_model_of_tokens_warns_unless_it_is_told_their_order(tmp_path):
    arpa = tmp_path / "tokens.arpa"
    rows = "".join(f"{-0.5 - 0.1 * i}\t{token}\n" for i, token in enumerate(["<s>", "</s>", "<unk>", *TOKENS]))
    arpa.write_text(f"\\data\\\nngram 1=8\n\n\\1-grams:\n{rows}\n\\end\\\n")
    order = tmp_path / "tokens.txt"
    order.write_text("".join(f"{token}\n" for token in TOKENS))
    with pytest.warns(UserWarning, match="Pass the tokens, one a line, as lm_dict"):
        ctc_decoder(None, TOKENS, arpa)
    decoder = ctc_decoder(None, TOKENS, arpa, str(order), lm_weight=1.0)
    frames = torch.full((1, 2, 5), -20.0)
    frames[0, 0, 0] = frames[0, 1, 3] = 0.0  # a blank, then b
    assert decoder(frames)[0][0].score == pytest.approx(-0.5 - 0.1 * 6 - 0.5 - 0.1, rel=1e-5)


def test_long_utterances_and_wide_beams_stay_in_bounds():
    frames = emissions(12, 1, 400)
    found = ctc_decoder(None, TOKENS, beam_size=1500, nbest=5)(frames)[0]
    assert len(found) == 5
    assert all(np.isfinite(h.score) for h in found)

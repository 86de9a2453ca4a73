"""Text and vocoders of the speaking bundles, VGGish's and HiFi-GAN's features."""

from __future__ import annotations

import pytest
import torch

from flambeau.audio import models, pipelines
from flambeau.audio.pipelines.pronunciation import Pronouncer, read_dictionary, spelled_out
from flambeau.audio.pipelines.tts_text import EnglishPhoneProcessor
from flambeau.audio.pipelines.tts_vocoders import GriffinLimVocoder, WaveRNNVocoder
from flambeau.audio.prototype.pipelines import HIFIGAN_VOCODER_V3_LJSPEECH, VGGISH

DICTIONARY = ";;; comment\nHELLO  HH AH0 L OW1\nHELLO(1)  HH EH0 L OW1\nJOHN  JH AA1 N\n"


@pytest.fixture
def dictionary(tmp_path):
    """A file in the format of the CMU dictionary."""
    (tmp_path / "words").write_text(DICTIONARY, encoding="latin-1")
    return tmp_path / "words"


def test_characters_that_have_no_symbol_are_left_out():
    processor = pipelines.TACOTRON2_WAVERNN_CHAR_LJSPEECH.get_text_processor()
    tokens, lengths = processor(["Ab4!", "c"])
    assert ["".join(processor.tokens[i] for i in row) for row in tokens] == ["ab!", "c__"]
    assert lengths.tolist() == [3, 1]


def test_words_become_phonemes_without_stress(dictionary):
    processor = EnglishPhoneProcessor(Pronouncer(dictionary))
    assert processor.phonemes("Hello, john's!") == ["HH", "AH", "L", "OW", ",", " ", "JH", "AA", "N", "Z", "!"]
    tokens, lengths = processor("hello")
    assert [processor.tokens[i] for i in tokens[0]] == ["HH", "AH", "L", "OW"]
    assert lengths.tolist() == [4]


def test_first_pronunciation_of_a_word_counts(dictionary):
    assert read_dictionary(dictionary)["HELLO"] == ["HH", "AH0", "L", "OW1"]


@pytest.mark.parametrize(
    ("word", "phonemes"),
    [
        ("nation", "N AE SH AH N"),
        ("knight", "N AY T"),
        ("make", "M EY K"),
        ("shipped", "SH IH P T"),
        ("wanted", "W AA N T IH D"),
        ("churches", "CH ER CH IH Z"),
        ("table", "T AE B AH L"),
        ("tts", "T IY T IY EH S"),
        ("", ""),
    ],
)
def test_unknown_words_are_spoken_as_they_are_spelled(word, phonemes):
    assert spelled_out(word) == phonemes.split()


def test_every_letter_has_a_sound_that_the_network_knows():
    symbols = set(EnglishPhoneProcessor(spelled_out).tokens)
    for first in "abcdefghijklmnopqrstuvwxyz":
        for second in "abcdefghijklmnopqrstuvwxyz":
            assert set(spelled_out(first + second + "a")) <= symbols


def test_wavernn_expands_its_levels():
    network = models.WaveRNN([2, 3], 16, 6, 1, 12, 12, 5, 4, 8, 8).eval()
    waveform, lengths = WaveRNNVocoder(network)(torch.randn(2, 4, 5), torch.tensor([5, 3]))
    assert waveform.shape == (2, 30)
    assert lengths.tolist() == [30, 18]
    assert waveform.abs().max() <= 1


def test_griffin_lim_speaks_at_the_rate_of_the_hop():
    waveform, lengths = GriffinLimVocoder()(torch.full((1, 80, 6), -4.0), torch.tensor([6]))
    assert waveform.shape == (1, 5 * 256)
    assert lengths.tolist() == [5 * 256]


def test_mel_features_of_hifigan_have_a_frame_per_hop():
    features = HIFIGAN_VOCODER_V3_LJSPEECH.get_mel_transform()(torch.zeros(2, 2560))
    assert features.shape == (2, 80, 10)


def test_examples_of_vggish_last_a_second_almost():
    examples = VGGISH.get_input_processor()(torch.randn(2 * 15600 + 300))
    assert examples.shape == (2, 1, 96, 64)
    with pytest.raises(ValueError, match="1000 samples, expected at least 15600"):
        VGGISH.get_input_processor()(torch.zeros(1000))


def test_tone_lights_up_the_band_it_lies_in():
    time = torch.arange(15600) / 16000
    low, high = (VGGISH.get_input_processor()(torch.sin(2 * torch.pi * hertz * time)) for hertz in (300, 3000))
    assert int(low.mean((0, 1, 2)).argmax()) < int(high.mean((0, 1, 2)).argmax())

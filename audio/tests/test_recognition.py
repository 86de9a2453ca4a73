"""The embedded recogniser: whole recordings and streams, voices it never heard, and what it refuses."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from flambeau.audio.functional import resample
from flambeau.audio.models.digit_recognizer import LogMelFrames, digit_recognizer
from flambeau.audio.recognition import Recognizer
from flambeau.audio.weights.digit_recognizer import Digit_Recognizer_Weights

sys.path.insert(0, str(Path(__file__).parents[1] / "recipes"))
import spoken_digits

WEIGHTS = Digit_Recognizer_Weights.DEFAULT
needs_espeak = pytest.mark.skipif(shutil.which("espeak-ng") is None, reason="the program espeak-ng is not installed")


@pytest.fixture(scope="module")
def recognizer():
    return Recognizer(digit_recognizer(weights=WEIGHTS), WEIGHTS.transforms(), WEIGHTS.meta["tokens"])


@pytest.fixture(scope="module")
def spoken():
    return spoken_digits.speak([4, 0, 7, 2], "en-gb+f5", speed=150, pitch=50, gap=1).float() / 32768


def test_features_of_a_stream_are_those_of_the_whole():
    features, waveform = LogMelFrames(), torch.randn(5000)
    whole = features(waveform)
    assert len(whole) == (5000 - 400) // 160 + 1
    assert torch.allclose(
        torch.cat([features(waveform[160 * i : 160 * i + 400]) for i in range(len(whole))]), whole, atol=1e-5
    )
    assert features(waveform[:399]).shape == (0, 40)


@needs_espeak
@pytest.mark.parametrize("size", [70, 1600, 4801, 100_000])
def test_a_stream_in_pieces_of_any_size_is_understood_as_the_whole(recognizer, spoken, size):
    whole = recognizer.transcribe(spoken)
    assert whole == ["four", "zero", "seven", "two"]
    with recognizer.stream() as stream:
        heard = [stream.accept(piece) for piece in spoken.split(size)]
        assert stream.finish() == whole
    assert size > 5000 or heard[-1]  # something is understood before the end


@needs_espeak
def test_recordings_of_other_rates_and_channels_are_understood(recognizer, spoken):
    stereo = torch.stack([resample(spoken, 16_000, 48_000)] * 2)
    assert recognizer.transcribe(stereo, 48_000) == ["four", "zero", "seven", "two"]


def test_a_stream_is_encoded_as_the_whole(recognizer):
    features, model, state = torch.randn(2, 164, 40), recognizer.search.model, None
    with torch.inference_mode():
        whole, lengths = model.transcribe(features, torch.tensor([160, 101]))
        pieces = []
        for start in range(0, 160, 16):
            piece = features[:, start : start + 20]
            encoded, count, state = model.transcribe_streaming(piece, torch.tensor([20, 20]), state)
            assert count.tolist() == [4, 4]
            pieces.append(encoded)
    assert lengths.tolist() == [40, 25]
    torch.testing.assert_close(torch.cat(pieces, 1), whole)


@needs_espeak
@pytest.mark.parametrize(
    ("kind", "streaming"),
    [
        ("espeak-ng digits, held-out voices", False),
        ("espeak-ng digits, held-out voices", True),
        ("espeak-ng digits, held-out voices, in noise and rooms", False),
        ("espeak-ng digits, held-out voices, 240 to 380 words a minute", True),
        *(
            pytest.param(kind, False, marks=pytest.mark.slow)
            for kind in list(WEIGHTS.meta["_metrics"])[3:]
            if kind.startswith("espeak-ng")
        ),
    ],
)
def test_what_training_has_not_heard_is_understood_with_the_stated_error_rate(recognizer, streaming, kind):
    name = kind.removeprefix("espeak-ng digits, ")
    kinds = spoken_digits.tests()
    # The first of the utterances that the figure is of: voices differ more than chance would have it.
    said = spoken_digits.unheard(40, 1000 + list(kinds).index(name), **kinds[name])
    conditions = spoken_digits.Conditions(said, 7) if "noise" in name else None
    rate = spoken_digits.error_rate(recognizer.search.model, said, streaming=streaming, conditions=conditions)
    stated = WEIGHTS.meta["_metrics"][kind]["WER"]
    digits = sum(len(one.digits) for one in said)
    # Forty utterances: two standard errors of a share of that many digits, and one digit.
    assert rate <= stated + 200 * (stated / 100 / digits) ** 0.5 + 100 / digits


def test_silence_and_noise_are_not_digits(recognizer):
    assert recognizer.transcribe(torch.zeros(16_000)) == []
    assert recognizer.transcribe(torch.zeros(10)) == []
    assert len(recognizer.transcribe(0.01 * torch.randn(32_000, generator=torch.Generator().manual_seed(0)))) <= 1


def test_a_finished_stream_hears_no_more(recognizer):
    stream = recognizer.stream()
    stream.accept(torch.zeros(1600))
    assert stream.finish() == []
    with pytest.raises(RuntimeError, match="is finished; begin another"):
        stream.accept(torch.zeros(1600))


def test_wrong_input_is_named(recognizer):
    with pytest.raises(ValueError, match=r"waveform is torch.int16 of shape \(5,\)"):
        recognizer.transcribe(torch.zeros(5, dtype=torch.int16))
    with pytest.raises(ValueError, match="beam_width is 0"):
        Recognizer(recognizer.search.model, recognizer.features, recognizer.tokens, beam_width=0)


@needs_espeak
def test_predict_writes_down_a_recording_with_times(spoken, tmp_path):
    from flambeau.audio import save

    save(tmp_path / "number.wav", spoken[None], 16_000)
    command = [sys.executable, "-m", "flambeau.core", "predict", str(tmp_path / "number.wav"), "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    rows = rows.get("rows", rows) if isinstance(rows, dict) else rows
    assert [row["text"] for row in rows] == ["four", "zero", "seven", "two"]
    seconds = [row["seconds"] for row in rows]
    assert seconds == sorted(seconds) and 0 < seconds[0] < seconds[-1] <= len(spoken) / 16_000


def test_a_recording_is_drawn_with_its_words_where_they_were_heard(tmp_path):
    from PIL import Image

    from flambeau.audio._answer_picture import draw_recording

    tone = torch.sin(torch.arange(32_000) / 5) * 0.5

    def drawn(words, waveform=tone):
        draw_recording(waveform, 16_000, words, tmp_path / "a.png")
        return np.asarray(Image.open(tmp_path / "a.png")).astype(int)

    plain, marked = drawn([]), drawn([(0.5, "four"), (1.5, "two")])
    red = (marked[-100] - marked[-100].min(-1, keepdims=True))[:, 0] > 80  # a row of the spectrogram, which is grey
    places = (np.flatnonzero(red) - 24) / (plain.shape[1] - 48) * 2.0
    assert np.allclose(places, [0.5, 1.5], atol=0.01)
    crowded = drawn([(0.5, "seven"), (0.52, "seven"), (0.54, "seven")])
    assert crowded.shape[0] > marked.shape[0] == plain.shape[0]  # words that would overlap take rows of their own
    assert drawn([], torch.zeros(0)).shape[1] > 600


def test_a_picture_of_no_format_is_refused(tmp_path):
    from flambeau.audio._answer_picture import draw_recording
    from flambeau.core.errors import PredictError

    with pytest.raises(PredictError, match="names no image format"):
        draw_recording(torch.zeros(100), 8000, [], tmp_path / "a.nope")


def test_predict_says_what_is_no_recording(tmp_path):
    (tmp_path / "letter.wav").write_text("Dear Sir")
    command = [sys.executable, "-m", "flambeau.core", "predict", str(tmp_path / "letter.wav")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0 and "cannot be read as a recording" in done.stderr

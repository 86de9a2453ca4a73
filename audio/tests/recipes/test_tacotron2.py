"""The recipes of speech synthesis: Tacotron 2, and WaveRNN behind it."""

import math

import pytest
import tacotron2 as recipe
import torch
import wavernn as vocoder

from flambeau.audio import load
from flambeau.audio.datasets import LJSPEECH
from flambeau.audio.functional import mu_law_decoding
from flambeau.audio.models import Tacotron2
from flambeau.audio.pipelines import TACOTRON2_GRIFFINLIM_CHAR_LJSPEECH
from flambeau.core.errors import MissingCheckpointError

LETTERS = TACOTRON2_GRIFFINLIM_CHAR_LJSPEECH.get_text_processor()


@pytest.fixture(scope="module")
def passages(tmp_path_factory):
    root = tmp_path_factory.mktemp("ljspeech")
    recipe.write_tiny(root)
    return LJSPEECH(root)


@pytest.fixture(scope="module")
def trial(tmp_path_factory):
    """The result of Tacotron 2's trial, and its folder."""
    folder = tmp_path_factory.mktemp("tacotron2")
    return recipe.main(["--tiny", "--json", "--out", str(folder)]), folder


@pytest.fixture(scope="module")
def spoken(tmp_path_factory):
    """The result of WaveRNN's trial, and its folder."""
    folder = tmp_path_factory.mktemp("wavernn")
    return vocoder.main(["--tiny", "--json", "--out", str(folder)]), folder


def test_every_hundredth_passage_is_held_out():
    training, validation = recipe.held_out(13_100)
    assert len(validation) == 131
    assert sorted(training + validation) == list(range(13_100))


def test_spectrograms_are_those_of_the_published_networks(passages):
    symbols, mel = recipe.Passages(passages, [1], LETTERS)[0, 0]
    assert "".join(LETTERS.tokens[symbol] for symbol in symbols) == "a tide"
    assert mel.shape == (passages[1][0].shape[1] // 256 + 1, 80)
    assert mel.min().item() == pytest.approx(math.log(1e-5))


def test_padding_and_the_order_of_a_batch_do_not_change_the_loss(passages):
    items = [recipe.Passages(passages, [number], LETTERS)[0, 0] for number in (0, 3, 4)]
    torch.manual_seed(0)
    model = recipe.network(38, small=True).eval()
    model.decoder.prenet.forward = torch.nn.Sequential(*model.decoder.prenet.layers).forward  # without its dropout
    together, count = recipe.tacotron_loss(model, recipe.padded(items))
    alone = [recipe.tacotron_loss(model, recipe.padded([item])) for item in reversed(items)]
    assert count == sum(frames for _, frames in alone)
    torch.testing.assert_close(together, sum(value for value, _ in alone), rtol=1e-3, atol=0)


def test_the_gate_is_to_open_at_the_last_frame():
    class Perfect(torch.nn.Module):
        def forward(self, symbols, counts, mels, frames):
            gates = torch.where(torch.arange(mels.shape[2]) == frames[:, None] - 1, 50.0, -50.0)
            return mels, mels, gates, None

    batch = recipe.padded(
        [(torch.ones(2, dtype=int), torch.randn(5, 80)), (torch.ones(3, dtype=int), torch.ones(9, 80))]
    )
    total, count = recipe.tacotron_loss(Perfect(), batch)
    assert total.item() == pytest.approx(0.0, abs=1e-6)
    assert count == 14


def test_tacotron_learns(trial):
    history = trial[0]["history"]
    assert history[-1]["loss"] < history[0]["loss"] / 3
    measured = [one["validation"] for one in history if "validation" in one]
    assert measured[-1] < measured[0] / 2


def test_a_tacotron_that_was_interrupted_equals_one_that_went_through(trial, tmp_path):
    recipe.main(["--tiny", "--out", str(tmp_path), "--stop-after", "7"])
    resumed = recipe.main(["--tiny", "--out", str(tmp_path)])
    assert resumed["resumed_at"] == 7
    assert resumed["history"] == trial[0]["history"]


def test_the_state_in_the_end_is_that_of_a_plain_tacotron(trial):
    state = torch.load(trial[1] / "model.pt", weights_only=True)
    Tacotron2(n_symbol=38, **recipe._TINY_SIZES).load_state_dict(state)


@pytest.mark.filterwarnings("ignore:Reached max decoder steps")
def test_a_run_speaks_what_it_has_learnt(trial, tmp_path, capsys):
    path = tmp_path / "said.wav"
    result = recipe.main(["--out", str(trial[1]), "--say", "No tide.", "--wav", str(path)])
    waveform, rate = load(str(path))
    assert rate == 22_050
    assert waveform.abs().max() > 0.5
    assert result["steps"] == trial[0]["steps"]


def test_a_folder_without_a_run_cannot_speak(tmp_path):
    with pytest.raises(MissingCheckpointError, match="train there first"):
        recipe.main(["--out", str(tmp_path), "--say", "Hello."])


@pytest.mark.parametrize("seed", [None, 0, 1, 2])
def test_stretches_have_the_samples_of_their_frames_and_the_levels_that_follow(passages, seed):
    stretches = vocoder.Stretches(passages, [3], 5)
    samples, mel, targets = stretches[0, seed]
    assert samples.shape == (1, 5 * 275)
    assert mel.shape == (1, 80, 9)
    assert targets.shape == (5 * 275,)
    levels = ((samples[0] + 1) * 127.5).round().long()
    assert torch.equal(levels[1:], targets[:-1])  # a target is the next input
    waveform = mu_law_decoding(levels, 256)
    whole = passages[3][0][0]
    errors = [(whole[n * 275 : n * 275 + 1375] - waveform).abs().max() for n in range(len(whole) // 275 - 5)]
    assert min(errors) < 0.02  # it is a stretch of the passage that begins with a frame
    expected = stretches.decibels(stretches.spectrogram(whole).clamp(min=1e-5).log())
    place = int(torch.stack(errors).argmin())
    torch.testing.assert_close(mel[0, :, 2:7], expected[:, place : place + 5])


def test_a_passage_shorter_than_a_stretch_is_padded(passages):
    samples, mel, _ = vocoder.Stretches(passages, [0], 400)[0, 5]
    assert samples.shape == (1, 400 * 275)
    assert mel.shape == (1, 80, 404)


def test_wavernn_learns_more_than_the_spread_of_levels(spoken):
    history = spoken[0]["history"]
    assert history[0]["loss"] > 4.5
    assert history[-1]["loss"] < history[0]["loss"] - 0.5
    assert history[-1]["validation"] < math.log(256) - 0.5


def test_a_wavernn_that_was_interrupted_equals_one_that_went_through(spoken, tmp_path):
    vocoder.main(["--tiny", "--out", str(tmp_path), "--stop-after", "7"])
    resumed = vocoder.main(["--tiny", "--out", str(tmp_path)])
    assert resumed["history"] == spoken[0]["history"]


def test_the_published_network_takes_the_recipes_stretches():
    with torch.inference_mode():
        logits = vocoder.wavernn().eval()(torch.zeros(1, 1, 275), torch.zeros(1, 1, 80, 5))
    assert logits.shape == (1, 1, 275, 256)

"""The recipe that steers an array of microphones to a speaker."""

import dnn_beamformer as recipe
import pytest
import torch
from source_separation import si_snr

SCENE = recipe.Scene(channels=4, order=2, absorption=(0.5, 0.8), snr=(3.0, 3.0))


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="module")
def trial(tmp_path_factory):
    """The result of the trial, and its folder."""
    folder = tmp_path_factory.mktemp("beamformer")
    return recipe.main(["--tiny", "--json", "--out", str(folder)]), folder


@pytest.fixture
def sounds():
    time = torch.arange(16_000) / 16_000
    return torch.sin(6.2832 * 440 * time), torch.randn(16_000, generator=generator(9))


def test_noise_is_as_loud_as_the_scene_says(sounds):
    mixed, wanted = recipe.heard(*sounds, SCENE._replace(floor=90.0), generator())
    noise = mixed[0] - wanted
    ratio = 10 * torch.log10(wanted.square().mean() / noise.square().mean())
    assert ratio.item() == pytest.approx(3.0, abs=0.01)
    assert mixed.abs().max().item() == pytest.approx(1.0)


def test_microphones_hear_the_same_at_different_times(sounds):
    mixed, _ = recipe.heard(sounds[1], torch.zeros(16_000), SCENE._replace(floor=90.0), generator(2))
    assert mixed.shape == (4, 16_000)
    spectra = torch.fft.rfft(mixed[:2], 32_768)
    lags = torch.fft.irfft(spectra[0] * spectra[1].conj())
    lag = int(lags.argmax())
    lag = min(lag, 32_768 - lag)
    assert lag <= 2 * SCENE.radius / 343 * 16_000 + 1  # no longer than sound needs across the circle


def test_a_seed_draws_the_same_room_again(sounds):
    one, two, other = (recipe.heard(*sounds, SCENE, generator(seed))[0] for seed in (1, 1, 2))
    assert torch.equal(one, two)
    assert not torch.allclose(one, other)


def test_short_recordings_begin_again_and_rates_are_checked():
    rooms = recipe.Rooms([(torch.arange(5.0).unsqueeze(0), 16_000)], None, SCENE, 12)
    piece = rooms._piece(rooms.speech[0], generator())
    assert len(piece) == 12
    assert torch.equal(piece[5:10], piece[:5])
    with pytest.raises(ValueError, match="8000 samples a second, expected 16000"):
        rooms._piece((torch.zeros(1, 5), 8000), generator())


def test_an_array_too_large_for_its_room_is_refused():
    with pytest.raises(ValueError, match="leaves no place for a speaker"):
        recipe.Rooms([], None, SCENE._replace(radius=1.0), 10)


def test_without_noises_another_speaker_is_the_noise(monkeypatch):
    speech = [(torch.full((1, 20), float(number)), 16_000) for number in range(3)]
    monkeypatch.setattr(recipe, "heard", lambda speech, noise, scene, generator: (speech[0], noise[0]))
    rooms = recipe.Rooms(speech, None, SCENE, 20)
    pairs = {tuple(float(one) for one in rooms[number, seed]) for number in range(3) for seed in range(20)}
    assert pairs == {(a, b) for a in (0.0, 1.0, 2.0) for b in (0.0, 1.0, 2.0) if a != b}


def test_perfect_masks_of_an_array_lower_the_noise(sounds):
    network = recipe.MaskedBeamformer(n_fft=256, num_feats=4, num_hidden=4, num_layers=1, num_stacks=1)
    mixed, wanted = recipe.heard(*sounds, SCENE, generator(3))
    speech = network.spectrogram(wanted).abs().square()
    noise = network.spectrogram(mixed[0] - wanted).abs().square()
    ideal = torch.stack([speech / (speech + noise), noise / (speech + noise)]).unsqueeze(0)
    network.masks.forward = lambda levels: ideal
    result = network(mixed.unsqueeze(0))[0]
    assert si_snr(result, wanted) > si_snr(mixed[0], wanted) + 6


def test_the_beamformer_learns_and_beats_the_first_microphone_in_rooms_it_never_heard(trial):
    history = trial[0]["validation"]
    assert history[-1]["si_snr"] > history[0]["si_snr"] + 2
    assert trial[0]["test_si_snr_improvement"] > 3


def test_a_trial_that_was_interrupted_equals_one_that_went_through(trial, tmp_path):
    recipe.main(["--tiny", "--out", str(tmp_path), "--stop-after", "5"])
    resumed = recipe.main(["--tiny", "--out", str(tmp_path)])
    assert resumed["resumed_at"] == 5
    assert resumed["validation"] == trial[0]["validation"]
    assert resumed["test_si_snr"] == trial[0]["test_si_snr"]


def test_gradients_reach_every_weight_through_the_beamformer(sounds):
    network = recipe.MaskedBeamformer(n_fft=256, num_feats=4, num_hidden=4, num_layers=2, num_stacks=1)
    mixed, wanted = recipe.heard(*sounds, SCENE, generator(4))
    si_snr(network(mixed.unsqueeze(0))[0], wanted).backward()
    lacking = [name for name, one in network.named_parameters() if one.grad is None or not one.grad.isfinite().all()]
    assert lacking == []

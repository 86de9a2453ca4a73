"""The recipe of Conv-TasNet: its loss, its data, and the trial."""

import json

import pytest
import source_separation as recipe
import torch

from flambeau.audio.datasets import LibriMix
from flambeau.audio.models import conv_tasnet_base


@pytest.fixture(scope="module")
def trial(tmp_path_factory):
    """The result of the trial, and its folder."""
    folder = tmp_path_factory.mktemp("run")
    return recipe.main(["--tiny", "--json", "--out", str(folder)]), folder


def test_si_snr_does_not_hear_loudness_and_offset():
    signal = torch.randn(2, 500, generator=torch.Generator().manual_seed(0))
    noisy = signal + 0.1 * torch.randn(2, 500, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(recipe.si_snr(3 * noisy + 5, signal), recipe.si_snr(noisy, signal), rtol=1e-3, atol=0)


def test_si_snr_of_noise_of_a_tenth_is_twenty_decibels():
    signal = torch.sin(torch.arange(8000) * 0.1)
    noise = torch.cos(torch.arange(8000) * 0.1)  # of the same power, and orthogonal
    assert recipe.si_snr(signal + 0.1 * noise, signal).item() == pytest.approx(20.0, abs=0.05)


def test_the_order_of_the_estimates_does_not_matter():
    sources = torch.randn(4, 3, 200, generator=torch.Generator().manual_seed(0))
    estimates = sources + 0.3 * torch.randn(4, 3, 200, generator=torch.Generator().manual_seed(1))
    expected = recipe.si_snr(estimates, sources).mean(1)
    torch.testing.assert_close(recipe.best_order(estimates[:, [2, 0, 1]], sources), expected)


def test_cuts_are_repeatable_and_sources_add_up_to_the_mixture(tmp_path):
    recipe.write_tiny(tmp_path)
    cuts = recipe.Cuts(LibriMix(tmp_path, "dev"), 4000)
    mixture, sources = cuts[1, 77]
    assert mixture.shape == (4000,)
    torch.testing.assert_close(sources.sum(0), mixture, rtol=0, atol=1e-4)
    assert torch.equal(cuts[1, 77][0], mixture)
    assert not torch.equal(cuts[1, 78][0], mixture)


def test_short_mixtures_are_padded(tmp_path):
    recipe.write_tiny(tmp_path, seconds=0.25)
    mixture, sources = recipe.Cuts(LibriMix(tmp_path, "dev"), 4000)[0, 0]
    assert mixture.shape == (4000,)
    assert sources.shape == (2, 4000)
    assert not mixture[2000:].any()


def test_the_loss_falls_and_voices_are_parted_that_were_never_heard(trial):
    history = trial[0]["validation"]
    assert history[-1]["loss"] < history[0]["loss"] - 3
    assert history[-1]["si_snr"] > history[0]["si_snr"]
    assert trial[0]["test_si_snr_improvement"] > 5


def test_the_best_network_is_kept(trial):
    result, folder = trial
    best = torch.load(folder / "best.pt", weights_only=True)
    network = recipe.tiny_network(2)
    network.load_state_dict(best)
    assert result["finished"]


def test_a_trial_that_was_interrupted_equals_one_that_went_through(trial, tmp_path):
    partial = recipe.main(["--tiny", "--out", str(tmp_path), "--stop-after", "10"])
    assert partial["steps"] == 10
    assert not partial["finished"]
    resumed = recipe.main(["--tiny", "--out", str(tmp_path)])
    assert resumed["resumed_at"] == 10
    assert resumed["validation"] == trial[0]["validation"]
    assert resumed["test_si_snr"] == trial[0]["test_si_snr"]


def test_the_result_is_printed_as_json(trial, tmp_path, capsys):
    folder = trial[1]
    recipe.main(["--tiny", "--json", "--out", str(folder)])  # complete already: it is measured again
    assert json.loads(capsys.readouterr().out)["test_si_snr"] == pytest.approx(trial[0]["test_si_snr"])


def test_data_and_folder_must_be_given(capsys):
    with pytest.raises(SystemExit):
        recipe.main(["--out", "somewhere"])
    assert "--root must be given, or --tiny" in capsys.readouterr().err


def test_the_papers_network_takes_the_recipes_batches():
    with torch.device("meta"):
        network = conv_tasnet_base(2)
        assert recipe.best_order(network(torch.empty(2, 1, 32_000)), torch.empty(2, 2, 32_000)).shape == (2,)

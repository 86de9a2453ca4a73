"""The recipes of HuBERT: cluster labels, pretraining in two iterations, and fine-tuning."""

import argparse
import math

import hubert_finetune as finetune
import hubert_labels as labels
import hubert_pretrain as recipe
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tone_speech import SENTENCES, write_librispeech

from flambeau.audio.models import Wav2Vec2Model
from flambeau.core.errors import CheckpointError


@pytest.fixture(scope="module")
def trial(tmp_path_factory):
    """What both iterations gave on speech of tones, and their folder."""
    folder = tmp_path_factory.mktemp("hubert")
    return recipe.tiny(recipe.make_parser().parse_args(["--tiny"]), folder), folder


def training(folder, out, **options):
    """Arguments of the trial's first training."""
    given = {
        "device": "cpu", "seed": 0, "workers": 0, "stop_after": None, "size": "tiny", "seconds": 6.0, "lr": 5e-3,
        "warmup": 5, "clip": 10.0, "least": 400, "most": recipe.MOST, "accumulate": 1, "save_every": 1000,
        "classes": 12, "steps": 60, "folder": folder, "out": out,
    }  # fmt: skip
    return argparse.Namespace(**{**given, **options})


@given(samples=st.integers(400, 5000))
def test_cepstra_have_a_frame_for_each_of_the_networks(samples):
    waveform = torch.randn(samples, generator=torch.Generator().manual_seed(samples))
    assert labels.cepstra(waveform).shape == (labels.frames_of(samples), 39)


@pytest.mark.parametrize("samples", [399, 400, 719, 720, 16_000, 16_079, 16_080])
def test_frames_are_those_of_the_network(samples):
    extractor = recipe.network("tiny", 4).wav2vec2.feature_extractor
    expected = extractor(torch.zeros(1, max(samples, 400)), torch.tensor([samples]))[1]
    assert labels.frames_of(samples) == int(expected)


def test_k_means_finds_clusters_that_are_far_apart():
    generator = torch.Generator().manual_seed(0)
    middles = torch.tensor([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0], [10.0, 10.0]])
    points = (middles[:, None] + 0.5 * torch.randn(4, 300, 2, generator=generator)).flatten(0, 1)
    centres = labels.k_means(points, 4, batch=200, tries=3)
    found, distances = labels.nearest(middles, centres)
    assert sorted(found.tolist()) == [0, 1, 2, 3]
    assert distances.max() < 0.05
    assert all(len(part.unique()) == 1 for part in labels.nearest(points, centres)[0].chunk(4))


def test_k_means_of_equal_points_ends():
    centres = labels.k_means(torch.ones(50, 3), 4, tries=2)
    torch.testing.assert_close(centres, torch.ones(4, 3))


def test_more_clusters_than_points_are_refused():
    with pytest.raises(ValueError, match="3 points cannot make 4 clusters"):
        labels.k_means(torch.zeros(3, 2), 4)


def test_lists_and_labels_are_read_as_they_were_written(tmp_path):
    write_librispeech(tmp_path, "dev-clean", SENTENCES[:3])
    found = labels.Recordings.found(tmp_path, tmp_path.rglob("*.flac"))
    found.write(tmp_path / "train.tsv")
    assert labels.Recordings.read(tmp_path / "train.tsv") == found
    centres = labels.k_means(labels.gathered(found, labels.cepstra, 1.0, 0), 5, tries=2)
    labels.write_labels(tmp_path / "train.km", found, labels.cepstra, centres)
    read = labels.read_labels(tmp_path / "train.km", found)
    assert torch.equal(read[1].long(), labels.nearest(labels.cepstra(found.waveform(1)), centres)[0])


def test_labels_of_other_recordings_are_refused(tmp_path):
    recordings = labels.Recordings(tmp_path, ["a.flac", "b.flac"], [720, 720])
    (tmp_path / "train.km").write_text("1 2\n1 2 3\n")
    with pytest.raises(ValueError, match=r"line 2: 3 labels, but b\.flac has 2 frames"):
        labels.read_labels(tmp_path / "train.km", recordings)


def test_a_cut_keeps_waveform_and_labels_together():
    ramp = torch.arange(320.0 * 40 + 80)
    long, short = (ramp, torch.arange(40), 5), (ramp[: 320 * 9 + 400], torch.arange(10), 6)
    waveforms, targets = recipe.cut([long, short])
    assert waveforms.shape == (2, 320 * 9 + 400)
    assert targets.shape == (2, 10)
    assert torch.equal(waveforms[:, 0], 320.0 * targets[:, 0])
    assert targets[0, 0] > 0


def test_the_loss_is_that_of_masked_frames_and_the_penalty_for_each():
    masked, others, penalty = torch.randn(7, 5), torch.randn(9, 5), torch.tensor(0.3)
    total, count = recipe.HubertLoss(lambda *batch: (masked, others, penalty))(())
    expected = -masked.log_softmax(1)[:, 0].sum() + 10 * 0.3 * 7
    torch.testing.assert_close(total, expected)
    assert count == 7


def test_the_learning_rate_rises_and_falls_to_zero():
    optimizer = torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))], lr=4.0)
    factor = recipe.rising_and_falling(optimizer, 10, 50).lr_lambdas[0]
    assert [factor(step) for step in (0, 9, 10, 30, 50)] == [0.1, 1.0, 1.0, 0.5, 0.0]


def test_pretraining_learns_to_tell_masked_frames(trial):
    first, last = (trial[0]["iteration_1"]["history"][index] for index in (0, -1))
    assert last["loss"] < first["loss"]
    assert last["accuracy"] > 2 / 12
    assert last["accuracy"] > 2 * first["accuracy"]


def test_the_second_iteration_clusters_what_the_first_network_gives(trial):
    result, folder = trial
    assert result["iteration_2"]["clusters"] == 16
    one, two = ((folder / f"labels{number}" / "train.km").read_text() for number in (1, 2))
    assert one != two
    assert [len(line.split()) for line in one.splitlines()] == [len(line.split()) for line in two.splitlines()]


def test_pretraining_that_was_interrupted_equals_one_that_went_through(trial, tmp_path):
    result, folder = trial
    recipe.train(training(folder / "labels1", tmp_path, stop_after=13))
    resumed = recipe.train(training(folder / "labels1", tmp_path))
    assert resumed["resumed_at"] == 13
    assert resumed["loss"] == result["iteration_1"]["loss"]


def test_another_learning_rate_does_not_go_on_with_a_run(trial):
    folder = trial[1]
    with pytest.raises(CheckpointError, match=r"lr was 0\.005 and is 0\.1"):
        recipe.train(training(folder / "labels1", folder / "run1", lr=0.1))


def test_labels_beyond_the_classes_are_refused(trial, tmp_path):
    with pytest.raises(SystemExit, match="but --classes is 4"):
        recipe.train(training(trial[1] / "labels1", tmp_path, classes=4))


def test_the_learning_rate_of_fine_tuning_has_three_stages():
    optimizer = torch.optim.Adam([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    factor = finetune.three_stages(optimizer, 10, 20, 40).lr_lambdas[0]
    assert factor(0) == pytest.approx(0.01)
    assert factor(10) == factor(29) == 1.0
    assert factor(50) == pytest.approx(math.sqrt(0.05))
    assert factor(70) == factor(500) == pytest.approx(0.05)


def test_transcripts_become_labels_and_are_read_back():
    numbers = finetune.encoded("SEE ALL")
    frames = torch.stack([numbers, torch.zeros_like(numbers)], 1).flatten()  # a blank behind each
    logits = torch.nn.functional.one_hot(frames, 29)
    assert finetune.greedy(logits.float()) == "SEE ALL"


def test_letters_without_a_label_are_named():
    with pytest.raises(ValueError, match="'É'"):
        finetune.encoded("CAFÉ")


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """The result of the fine-tuning trial, and its folder."""
    folder = tmp_path_factory.mktemp("tuned")
    return finetune.main(["--tiny", "--json", "--out", str(folder)]), folder


def test_fine_tuning_lowers_the_loss(tuned):
    history = tuned[0]["history"]
    assert history[-1]["loss"] < history[0]["loss"] / 4


def test_fine_tuning_that_was_interrupted_equals_one_that_went_through(tuned, tmp_path):
    finetune.main(["--tiny", "--out", str(tmp_path), "--stop-after", "8"])
    resumed = finetune.main(["--tiny", "--out", str(tmp_path)])
    assert resumed["history"] == tuned[0]["history"]


def test_the_finished_network_is_a_plain_one_that_gives_the_same_logits(tuned):
    torch.manual_seed(1)
    model = finetune.FineTuned(recipe.network("tiny", 12).wav2vec2, finetune.Masks(), 0).eval()
    parts = recipe.network("tiny", 12).wav2vec2
    plain = Wav2Vec2Model(parts.feature_extractor, parts.encoder, torch.nn.Linear(24, 29)).eval()
    plain.load_state_dict(model.finished())
    waveform = torch.randn(1, 8000)
    torch.testing.assert_close(plain(waveform)[0], model(waveform, torch.tensor([8000]))[0])
    assert torch.load(tuned[1] / "model.pt", weights_only=True).keys() == plain.state_dict().keys()


def test_the_convolutions_never_learn_and_the_transformer_not_before_its_time():
    model = finetune.FineTuned(recipe.network("tiny", 12).wav2vec2, finetune.Masks(0.3, 2, 0.3, 2), freeze=5).train()
    batch = (torch.randn(2, 8000), torch.tensor([8000, 6000]), torch.tensor([[2, 3], [4, 0]]), torch.tensor([2, 1]))
    encoder = model.wav2vec2.encoder.transformer.layers[0].feed_forward.intermediate_dense.weight
    for step, learns in ((4, False), (5, True)):
        model.zero_grad()
        finetune.ctc(model, batch, step)[0].backward()
        assert (encoder.grad is not None) == learns
        assert model.aux.weight.grad is not None
        assert all(one.grad is None for one in model.wav2vec2.feature_extractor.parameters())


@pytest.mark.parametrize(("size", "mean", "deviation"), [("base", 3.0, 2.0), ("large", 0.0, 1.0)])
def test_large_networks_hear_waveforms_of_zero_mean_and_unit_variance(size, mean, deviation):
    waveform = 3 + 2 * torch.randn(50_000, generator=torch.Generator().manual_seed(0))
    heard = labels.prepared(waveform, size)
    assert heard.mean().item() == pytest.approx(mean, abs=0.02)
    assert heard.std().item() == pytest.approx(deviation, abs=0.02)

"""Training a transducer on a miniature of LibriSpeech: batches, masks, statistics, vocabulary, checkpoints, scores."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import espeak
import librispeech_emformer_rnnt
import pytest
import torch
from rnnt.corpus import Batch, Items, batches, padded, utterances
from rnnt.designs import DESIGNS
from rnnt.evaluation import Score, score, table, transcribe
from rnnt.features import Augmentation, write_statistics
from rnnt.result import Folder, bundle_from
from rnnt.text import Tokenizer, spelled, train_pieces
from rnnt.training import TransducerLoss, warm_up

from flambeau.audio.pipelines.rnnt_features import Features, FrameFeatures
from flambeau.audio.pipelines.sentencepiece_pieces import read_pieces
from flambeau.audio.recognition import Recognizer
from flambeau.core.errors import CheckpointError

RECIPE = Path(__file__).parents[2] / "recipes" / "librispeech_emformer_rnnt.py"
STOPPED = ("--batch-frames", "350", "--held-out", "--tests", "--save-every", "2", "--steps", "7")


def weights(folder):
    return (folder / "model.safetensors").read_bytes()


def test_batches_join_what_is_alike_and_are_full_but_not_too_full(spoken):
    corpus = utterances(spoken, ["train-clean-100"])
    found = batches(corpus, 350, 0, 0)
    assert sorted(index for batch in found for index in batch) == list(range(10))
    assert all(len(batch) * max(corpus[index].frames for index in batch) <= 350 for batch in found)
    assert len(found) == 5
    with pytest.raises(ValueError, match=r"an item is .* s long, but a batch may have 0.5 s"):
        batches(corpus, 50, 0, 0)


def test_a_batch_is_padded_behind_what_is_heard_and_said(spoken, trained):
    folder, corpus = Folder(trained[0]), utterances(spoken, ["train-clean-100"])
    items = Items(corpus, Features(global_stats=str(folder.statistics)), Tokenizer(folder.pieces))
    batch = Batch(*padded([items[0, 0], items[1, 0]]))
    assert batch.frames.tolist() == [corpus[0].frames, corpus[1].frames]
    assert batch.features.shape == (2, max(batch.frames), 80)
    assert batch.targets.dtype == batch.tokens.dtype == torch.int32
    for row, frames in enumerate(batch.frames.tolist()):
        assert torch.equal(batch.features[row, :frames], items[row, 0][0])
        assert (batch.features[row, frames:] == 0).all()
        assert batch.targets[row, : batch.tokens[row]].tolist() == items[row, 0][1]


def test_masks_cover_what_the_recipe_says_and_leave_padding_and_argument_alone():
    torch.manual_seed(0)
    frames = torch.tensor([400, 100], dtype=torch.int32)
    whole = Batch(torch.ones(2, 420, 80), frames, torch.zeros(2, 3, dtype=torch.int32), frames)
    most_bands, most_frames = [0, 0], [0, 0]
    for _ in range(60):
        masked = Augmentation()(whole).features
        assert (masked[0, 400:] == 1).all()
        assert (masked[1, 100:] == 1).all()
        for item, count in enumerate(frames.tolist()):
            most_bands[item] = max(most_bands[item], int((masked[item, :count] == 0).all(0).sum()))
            most_frames[item] = max(most_frames[item], int((masked[item, :count] == 0).all(1).sum()))
    assert (whole.features == 1).all()
    assert 27 < most_bands[0] <= 54  # two stretches of up to 27
    assert 80 < most_frames[0] <= 160  # two of up to a fifth of 400
    assert 20 < most_frames[1] <= 40


def test_statistics_make_the_features_of_the_corpus_normal(spoken, tmp_path):
    corpus = utterances(spoken, ["train-clean-100"])
    write_statistics(corpus, tmp_path / "stats.json")
    features = Features(global_stats=str(tmp_path / "stats.json"))
    heard = [features(one.waveform())[0] for one in corpus]
    assert [len(one) for one in heard] == [one.frames for one in corpus]
    joined = torch.cat(heard)
    torch.testing.assert_close(joined.mean(0), torch.zeros(80), rtol=0, atol=1e-3)
    torch.testing.assert_close(joined.std(0), torch.ones(80), rtol=0, atol=1e-2)


def test_the_same_transcripts_give_the_same_pieces_with_the_ids_of_the_published_models(tmp_path):
    texts = [spelled(text) for text in ("OPEN  THE WINDOW", "TURN IT OFF NOW", "CLOSE THE OLD DOOR")]
    for name in ("a", "b"):
        train_pieces(texts, tmp_path / name, count=30, kind="unigram", fixed=False)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    pieces = read_pieces(tmp_path / "a")
    assert (pieces.bos_id, pieces.pad_id, pieces.eos_id, pieces.unk_id) == (0, 1, 2, 3)
    tokens = Tokenizer(tmp_path / "a")("Open the WINDOW")
    assert "".join(pieces.pieces[token] for token in tokens).replace("\u2581", " ") == " open the window"


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_more_pieces_than_the_transcripts_have_are_refused(tmp_path, kind):
    with pytest.raises(ValueError, match="SentencePiece finds no 4096 pieces"):
        train_pieces(["open the window"], tmp_path / "pieces.model", count=4096, kind=kind)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("name", "millions"), [("emformer", 76.7), ("conformer", 30.2)])
def test_the_networks_are_those_that_upstream_trained(name, millions):
    design = DESIGNS[name]
    with torch.device("meta"):
        model = design.build(design.pieces + 1)
    assert sum(parameter.numel() for parameter in model.parameters()) / 1e6 == pytest.approx(millions, abs=0.06)
    assert (design.learning_rate, design.warmup, design.epochs) == (5e-4, 10_000, 120)


def test_a_conformer_with_another_number_of_symbols_is_refused():
    with (
        torch.device("meta"),
        pytest.raises(ValueError, match="There are 500 symbols, but conformer_rnnt_base has 1024"),
    ):
        DESIGNS["conformer"].build(500)


def test_training_lowers_the_loss_until_the_utterances_are_known(trained):
    folder, result = trained
    recipe = json.loads((folder / "recipe.json").read_text())
    losses = [entry["held_out_loss"] for entry in recipe["history"]]
    assert len(losses) == recipe["epochs"] == 120
    assert losses[0] > 50
    assert losses[-1] < 1
    assert result["held_out"] == recipe["history"][-1:]
    assert result["scores"] == {"train-clean-100": {"utterances": 10, "words": 35, "errors": 0, "wer": 0.0}}


def test_a_finished_run_is_measured_again_without_training(trained, train, capsys):
    before = weights(trained[0])
    words = ("--tests", "train-clean-100", "--beam-width", "4", "--evaluate-only", "--json")
    assert train(trained[0], *words) == {"scores": trained[1]["scores"]} == json.loads(capsys.readouterr().out)
    assert weights(trained[0]) == before


def test_what_is_written_is_a_bundle_like_those_of_the_package(trained, spoken):
    bundle = bundle_from(trained[0])
    corpus = utterances(spoken, ["train-clean-100"])
    assert transcribe(bundle, corpus, beam_width=4, device="cpu") == [one.transcript.lower() for one in corpus]
    assert bundle.get_decoder().model.joiner.linear.out_features == bundle.get_decoder().blank + 1


def test_what_is_written_understands_streams_through_the_recogniser(trained, spoken):
    bundle = bundle_from(trained[0])
    features = FrameFeatures(global_stats=str(trained[0] / "global_stats.json"))
    pieces = read_pieces(trained[0] / "pieces.model").pieces
    recognizer = Recognizer(bundle.get_decoder().model, features, pieces)
    for one in utterances(spoken, ["train-clean-100"])[:2]:
        whole = recognizer.transcribe(one.waveform())
        with recognizer.stream() as stream:
            for piece in one.waveform().split(1111):
                stream.accept(piece)
            assert stream.finish() == whole
        assert "".join(whole).replace("\u2581", " ").strip() == one.transcript.lower()


@pytest.mark.parametrize("model", ["emformer", "conformer"])
def test_a_run_that_was_stopped_goes_on_as_if_it_had_not_been(tmp_path, train, model):
    words = ("--model", model, *STOPPED)
    assert train(tmp_path / "whole", *words)["finished"]
    assert not train(tmp_path / "stopped", *words, "--stop-after", "1")["finished"]
    assert not train(tmp_path / "stopped", *words, "--stop-after", "5")["finished"]  # in the second epoch
    rest = train(tmp_path / "stopped", *words)
    assert (rest["resumed_at"], rest["steps"], rest["epochs"], rest["finished"]) == (6, 7, 1, True)
    assert weights(tmp_path / "stopped") == weights(tmp_path / "whole")


def test_neither_processes_that_read_nor_another_run_change_anything_but_the_seed_does(tmp_path, train):
    for name, words in {"a": (), "workers": ("--workers", "1"), "other": ("--seed", "1")}.items():
        train(tmp_path / name, *STOPPED, *words)
    assert weights(tmp_path / "a") == weights(tmp_path / "workers") != weights(tmp_path / "other")


def test_a_run_of_other_settings_is_refused_and_left_as_it_is(tmp_path, train):
    train(tmp_path, *STOPPED)
    files = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(CheckpointError, match="of another run: seed was 0 and is 7"):
        train(tmp_path, *STOPPED, "--seed", "7")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == files


def test_the_learning_rate_rises_and_stays():
    optimizer = torch.optim.Adam([torch.zeros(1, requires_grad=True)], lr=2.0)
    schedule, rates = warm_up(optimizer, 4), []
    for _ in range(6):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    assert rates == [0.5, 1.0, 1.5, 2.0, 2.0, 2.0]


@pytest.mark.parametrize("name", ["emformer-tiny", "conformer-tiny"])
def test_the_loss_of_a_batch_is_the_sum_of_its_utterances(name):
    torch.manual_seed(0)
    loss = TransducerLoss(DESIGNS[name].build(9).eval(), blank=8, right_padding=DESIGNS[name].right_padding)
    items = [(torch.randn(frames, 80), torch.randint(8, (count,)).tolist()) for frames, count in ((48, 5), (48, 3))]
    together, *alone = (loss(Batch(*padded(chosen))) for chosen in (items, items[:1], items[1:]))
    torch.testing.assert_close(together, sum(alone))


def test_an_emformer_does_not_hear_what_is_padded():
    torch.manual_seed(0)
    loss = TransducerLoss(DESIGNS["emformer-tiny"].build(9).eval(), blank=8, right_padding=4)
    items = [(torch.randn(frames, 80), [1, 2, 3]) for frames in (64, 32)]
    together, *alone = (loss(Batch(*padded(chosen))) for chosen in (items, items[:1], items[1:]))
    torch.testing.assert_close(together, sum(alone))


def test_errors_are_counted_in_words():
    pairs = [("a b c", "a x c"), ("d e", "d e"), ("f", ""), ("", "g")]
    assert score(pairs) == Score(utterances=4, words=6, errors=3, wer=50.0)
    assert score([]) == Score(0, 0, 0, 0.0)
    assert table({"test-clean": score(pairs)}).splitlines() == [
        "subset      utterances  words  errors  WER %",
        "test-clean           4      6       3  50.00",
    ]


def test_data_must_be_named(tmp_path, capsys):
    with pytest.raises(SystemExit):
        librispeech_emformer_rnnt.main(["--out", str(tmp_path), "--device", "cpu"])
    assert "--root must be given" in capsys.readouterr().err


def test_a_folder_without_a_finished_run_is_no_bundle(tmp_path):
    with pytest.raises(
        FileNotFoundError, match=r"recipe.json, model.safetensors.*expected the folder of a finished run"
    ):
        bundle_from(tmp_path)


def test_without_espeak_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(FileNotFoundError, match="espeak-ng is not installed"):
        espeak.speak("hello")


@pytest.mark.slow
def test_a_run_that_is_killed_goes_on_from_its_checkpoint(spoken, tmp_path, train):
    words = ("--batch-frames", "350", "--held-out", "--tests", "--save-every", "1", "--steps", "40")
    child = subprocess.Popen([*command(spoken), *words, "--out", str(tmp_path / "killed")])
    while not (tmp_path / "killed" / "checkpoint.pt").is_file():
        assert child.poll() is None
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert train(tmp_path / "killed", *words)["resumed_at"] > 0
    train(tmp_path / "whole", *words)
    assert weights(tmp_path / "killed") == weights(tmp_path / "whole")


@pytest.mark.slow
def test_two_processes_train_one_network(spoken, tmp_path):
    words = ("--batch-frames", "350", "--held-out", "dev-clean", "--tests", "dev-clean", "--epochs", "20", "--json")
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    done = subprocess.run(
        [*command(spoken, *launcher), *words, "--out", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["scores"]["dev-clean"]["utterances"] == 2
    history = json.loads((tmp_path / "recipe.json").read_text())["history"]
    assert history[-1]["step"] == 40  # five batches make two steps of two processes
    assert history[-1]["held_out_loss"] < history[0]["held_out_loss"] / 2


def command(spoken, *launcher):
    options = ("--root", str(spoken), "--train", "train-clean-100", "--tiny", "--device", "cpu")
    return [sys.executable, *launcher, str(RECIPE), *options]

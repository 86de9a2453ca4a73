"""The recipe that measures recognition bundles."""

import json

import ctc_inference as recipe
import hubert_finetune as finetune
import pytest
import torch
from hubert_pretrain import network
from tone_speech import SENTENCES, ToneBundle, ToneReader, frequency, speak, write_librispeech

from flambeau.audio.models.decoder import ctc_decoder
from flambeau.audio.pipelines import WAV2VEC2_ASR_BASE_960H
from flambeau.core.errors import ConfigError, UnknownNameError


@pytest.fixture(scope="module")
def trial(tmp_path_factory):
    """The result of the trial, and its file of transcripts."""
    path = tmp_path_factory.mktemp("ctc") / "transcripts.jsonl"
    return recipe.main(["--tiny", "--json", "--out", str(path)]), path


def test_the_language_of_tones_is_read_without_error_where_it_is_quiet():
    labels = ToneBundle().get_labels()
    for text in SENTENCES:
        logits, _ = ToneReader()(speak(text).waveform.unsqueeze(0))
        assert recipe.greedy(logits[0], labels) == text


def test_tones_lie_on_what_a_window_resolves():
    assert all(frequency(label) % 40 == 0 and frequency(label) < 8000 for label in range(1, 29))


def test_lexicon_and_language_model_mend_what_noise_spoils(trial):
    result, _ = trial
    assert result["recordings"] == len(SENTENCES)
    assert result["greedy_word_error_rate"] > 20
    assert result["word_error_rate"] < result["greedy_word_error_rate"] / 4


def test_transcripts_are_kept_in_the_order_of_the_set(trial):
    head, *lines = trial[1].read_text().splitlines()
    assert json.loads(head)["subset"] == "test-clean"
    names = [json.loads(line)["name"] for line in lines]
    assert names == sorted(names)
    assert len(names) == len(SENTENCES)


def test_a_measurement_goes_on_behind_the_last_transcript(trial, tmp_path):
    whole = trial[1].read_text().splitlines(keepends=True)
    path = tmp_path / "transcripts.jsonl"
    path.write_text("".join(whole[:4]))
    result = recipe.main(["--tiny", "--out", str(path)])
    assert result["resumed_at"] == 3
    assert result["word_error_rate"] == trial[0]["word_error_rate"]
    assert path.read_text() == "".join(whole)


def test_transcripts_of_other_settings_are_not_mixed(trial, tmp_path):
    path = tmp_path / "transcripts.jsonl"
    path.write_text('{"bundle": "another"}\n')
    with pytest.raises(ConfigError, match=r"transcripts\.jsonl is of .*another.*give another --out"):
        recipe.main(["--tiny", "--out", str(path)])


def test_bundles_are_found_by_name_and_close_names_are_offered():
    assert recipe.bundle_of("WAV2VEC2_ASR_BASE_960H") is WAV2VEC2_ASR_BASE_960H
    with pytest.raises(UnknownNameError, match="WAV2VEC2_ASR_BASE_960H"):
        recipe.bundle_of("WAV2VEC2_ASR_BASE_960")


def test_every_published_figure_is_of_a_bundle_that_exists():
    assert all(recipe.bundle_of(name) for name in recipe.PUBLISHED)
    assert all(len(row) == 2 + len(recipe.SUBSETS) for row in recipe.PUBLISHED.values())


def test_labels_take_the_case_of_the_lexicon(tmp_path):
    (tmp_path / "small.txt").write_text("it's i t ' s |\n")
    (tmp_path / "capital.txt").write_text("IT'S I T ' S |\n")
    assert recipe.tokens_for(tmp_path / "small.txt", ("-", "|", "E", "'")) == ["-", "|", "e", "'"]
    assert recipe.tokens_for(tmp_path / "capital.txt", ("-", "|", "E", "'")) == ["-", "|", "E", "'"]


def test_errors_are_counted_over_all_words():
    assert recipe.error_rate([("A B C", "A C"), ("D", "D E")]) == 50.0
    assert recipe.error_rate([("", "")]) == 0.0


def test_bigrams_are_a_language_model_whose_odds_add_up(tmp_path):
    text = recipe.word_bigrams(["A B", "A C", "B"])
    (tmp_path / "lm.arpa").write_text(text)
    (tmp_path / "lexicon.txt").write_text("A a |\nB b |\nC c |\n")
    decoder = ctc_decoder(tmp_path / "lexicon.txt", ["-", "|", "a", "b", "c"], tmp_path / "lm.arpa")
    assert decoder(torch.zeros(1, 4, 5))[0]  # the reader takes it
    rows = {}
    for line in text.splitlines():
        score, *rest = line.split("\t")
        if rest:
            rows[rest[0]] = (10 ** float(score), 10 ** float(rest[1]) if len(rest) > 1 else None)
    words = ("A", "B", "C", "</s>", "<unk>")
    for context in ("<s>", "A", "B", "C"):
        total = sum(
            rows[f"{context} {word}"][0] if f"{context} {word}" in rows else rows[context][1] * rows[word][0]
            for word in words
        )
        assert total == pytest.approx(1.0, abs=1e-4)


def test_a_fine_tuned_network_is_measured_like_a_bundle(tmp_path, monkeypatch):
    model = finetune.FineTuned(network("tiny", 4).wav2vec2, finetune.Masks(), 0)
    torch.save(model.finished(), tmp_path / "model.pt")
    monkeypatch.setitem(finetune.BUILDERS, "base", lambda aux_num_out: finetune.Wav2Vec2Model(
        *(getattr(network("tiny", 4).wav2vec2, part) for part in ("feature_extractor", "encoder")),
        torch.nn.Linear(24, aux_num_out),
    ))  # fmt: skip
    write_librispeech(tmp_path, "dev-clean", SENTENCES[:2])
    (tmp_path / "lexicon.txt").write_text("THE T H E |\n")
    words = ["--root", str(tmp_path), "--subset", "dev-clean", "--state", str(tmp_path / "model.pt"), "--no-lm"]
    result = recipe.main([*words, "--lexicon", str(tmp_path / "lexicon.txt"), "--beam-size", "20", "--device", "cpu"])
    assert result["recordings"] == 2
    assert result["lm"] is None
    assert 0 < result["word_error_rate"] <= 100


def test_emissions_of_recordings_of_different_lengths_do_not_disturb_each_other(tmp_path):
    write_librispeech(tmp_path, "dev-clean", ["THE TIDE", "A KITE AND A LETTER"])
    items = recipe.LIBRISPEECH(tmp_path, "dev-clean")
    bundle = ToneBundle()
    words = ("THE", "TIDE", "A", "KITE", "AND", "LETTER")
    (tmp_path / "lexicon.txt").write_text("".join(f"{word} {' '.join(word)} |\n" for word in words))
    decoder = ctc_decoder(tmp_path / "lexicon.txt", list(bundle.get_labels()))
    together = recipe.understand(items, [0, 1], bundle, bundle.get_model(), decoder, torch.device("cpu"))
    alone = [recipe.understand(items, [n], bundle, bundle.get_model(), decoder, torch.device("cpu"))[0] for n in (0, 1)]
    assert together == alone
    assert {one.name: one.understood for one in together} == {
        "84-7-0000": "THE TIDE",
        "174-7-0000": "A KITE AND A LETTER",
    }

"""The recipe that finds where each word is spoken."""

import json

import forced_alignment as recipe
import pytest
import torch
from tone_speech import RATE, ToneBundle, ToneReader, speak

from flambeau.audio import save
from flambeau.audio.pipelines import MMS_FA

TEXT = "THE LETTER IS IN THE AIR"
FRAME = recipe.HOP / RATE


def heard(waveform, piece_s=30.0):
    return recipe.scores_of(
        ToneReader(), waveform, piece_s=piece_s, rate=RATE, device=torch.device("cpu"), normalized=False
    )


def words_of(spoken, text=TEXT, **options):
    return recipe.aligned(
        heard(spoken.waveform, **options), text.split(), recipe.Letters(ToneBundle()), frame_s=FRAME
    )  # fmt: skip


@pytest.fixture(scope="module")
def spoken():
    return speak(TEXT, noise=0.05)


def test_words_are_found_within_a_frame_or_two_of_where_they_were_said(spoken):
    found = words_of(spoken)
    assert [one.word for one in found] == [word for word, *_ in spoken.words]
    for one, (_, start, end) in zip(found, spoken.words, strict=True):
        assert one.start_s == pytest.approx(start / RATE, abs=2 * FRAME)
        assert one.end_s == pytest.approx(end / RATE, abs=2 * FRAME)
        assert one.score > 0.9


def test_pieces_give_what_the_whole_gives(spoken):
    torch.testing.assert_close(heard(spoken.waveform, piece_s=0.5), heard(spoken.waveform))
    assert words_of(spoken, piece_s=0.5) == words_of(spoken)


def test_a_wrong_transcript_scores_low(spoken):
    right, wrong = words_of(spoken), words_of(spoken, "THE KOTTEX IS IN THE AIR")
    assert wrong[1].score < 0.9 * right[1].score
    assert wrong[0] == right[0]


def test_case_and_punctuation_of_the_transcript_do_not_matter(spoken):
    plain, written = words_of(spoken), words_of(spoken, "The «letter»... is - in the air!".replace(" - ", " "))
    assert [one[1:] for one in written] == [one[1:] for one in plain]
    assert written[1].word == "«letter»..."


def test_a_star_stands_for_what_has_no_letters():
    letters = recipe.Letters(MMS_FA)
    assert letters.of("*") == [28]
    assert letters.of("Hi-hi") == [15, 2, 15, 2]  # the blank's name is no letter
    assert letters.of("—") == []
    assert letters.between is None


def test_a_word_without_known_letters_is_refused():
    with pytest.raises(ValueError, match=r"'汉字' has no letter that the network knows.*write \* in its place"):
        recipe.Letters(MMS_FA).of("汉字")


def test_more_letters_than_the_recording_can_hold_are_refused(spoken):
    with pytest.raises(ValueError, match="letters do not fit into"):
        words_of(spoken, "THE " * 200)


def test_a_transcript_without_words_is_refused(spoken):
    with pytest.raises(ValueError, match="no words"):
        words_of(spoken, "")


def test_a_recording_shorter_than_a_frame_is_refused():
    with pytest.raises(ValueError, match="has 399 samples"):
        heard(torch.zeros(399))


def test_words_are_printed_as_json_and_kept_in_files(tmp_path, capsys):
    names = ("words.json", "words.tsv", "words.png", "words.svg")
    outs = [word for name in names for word in ("--out", str(tmp_path / name))]
    found = recipe.main(["--tiny", "--json", *outs])
    printed = json.loads(capsys.readouterr().out)
    assert [row["word"] for row in printed] == "THE TIDE HAS GONE OUT".split()  # noqa: SIM905
    assert json.loads((tmp_path / "words.json").read_text()) == printed
    assert (tmp_path / "words.tsv").read_text().splitlines()[2].split("\t")[3] == "TIDE"
    assert (tmp_path / "words.png").read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in (tmp_path / "words.svg").read_bytes()[:2000]
    assert [one.word for one in found] == [row["word"] for row in printed]


def test_recordings_of_other_rates_and_channels_are_converted(spoken, tmp_path, monkeypatch, capsys):
    from flambeau.audio.functional import resample

    both = resample(spoken.waveform, RATE, 44_100).expand(2, -1)
    save(str(tmp_path / "speech.wav"), both, 44_100)
    (tmp_path / "speech.txt").write_text(TEXT)
    monkeypatch.setattr(recipe, "bundle_of", lambda name: ToneBundle())
    recording, text = str(tmp_path / "speech.wav"), str(tmp_path / "speech.txt")
    found = recipe.main([recording, "--text-file", text, "--bundle", "TONES", "--device", "cpu"])
    for one, exact in zip(found, words_of(spoken), strict=True):
        assert one.start_s == pytest.approx(exact.start_s, abs=FRAME)
    assert "LETTER" in capsys.readouterr().out


def test_a_recording_must_be_given(capsys):
    with pytest.raises(SystemExit):
        recipe.main(["--text", "HELLO"])
    assert "a recording, and --text or --text-file must be given" in capsys.readouterr().err

"""What each dataset reads from its miniature."""

import pytest
import torch

from flambeau.audio._miniatures.files import sound
from flambeau.audio.datasets import GTZAN, LIBRISPEECH, SPEECHCOMMANDS, YESNO, CMUDict
from flambeau.core.errors import DatasetMissingError


def rest(dataset):
    """The items without their waveforms."""
    return [tuple(part for part in item if not isinstance(part, torch.Tensor)) for item in dataset]


def samples(name, frames=160, channels=1):
    return torch.from_numpy(sound(name, frames, channels)).T.float() / 32768


def test_yesno_has_its_labels_in_the_names(miniature):
    dataset = miniature("yesno").dataset
    assert rest(dataset) == [(8000, [0, 0, 1, 1, 0, 1, 0, 1]), (8000, [1, 1, 1, 0, 0, 1, 0, 1])]
    assert torch.equal(dataset[0][0], samples("0_0_1_1_0_1_0_1.wav"))


def test_librispeech_reads_transcripts_by_chapter(miniature):
    dataset = miniature("librispeech").dataset
    assert rest(dataset)[0] == (16_000, "FORGOTTEN TOO THE NAME OF GILLIAN", 174, 50561, 0)
    assert dataset.get_metadata(2)[0] == "dev-clean/84/121123/84-121123-0001.flac"
    assert dataset[2][1:] == dataset.get_metadata(2)[1:]


def test_librispeech_says_which_transcript_is_missing(miniature):
    subject = miniature("librispeech")
    _ = subject.config
    place = subject.placed / "LibriSpeech/dev-clean/174/50561"
    (place / "174-50561.trans.txt").write_text("174-50561-0009 OTHER\n")
    with pytest.raises(FileNotFoundError, match="174-50561-0000 has no line in"):
        subject.build()[0]


def test_biasing_words_are_those_of_the_list_that_are_said(miniature):
    assert [item[-1] for item in rest(miniature("librispeechbiasing").dataset)] == [["GILLIAN"], [], ["MINUTES"]]


@pytest.mark.parametrize(("subset", "count"), [("10min", 2), ("1h", 4), ("10h", 6)])
def test_the_limited_hours_contain_one_another(miniature, subset, count):
    dataset = miniature("librilightlimited").build(subset=subset)
    assert len(dataset) == count
    assert rest(dataset)[0] == (16_000, "TEXT 0", 100, 7, 0)


def test_libritts_has_the_text_as_printed_and_normalised(miniature):
    first, second = rest(miniature("libritts").dataset)
    assert first == (24_000, "Mr. Brown said 3.", "Mister Brown said three.", 84, 121123, "84_121123_000007_000000")
    assert second[1] == "\u201cGo!\u201d"


def test_ljspeech_keeps_quotation_marks(miniature):
    assert rest(miniature("ljspeech").dataset)[1] == (22_050, 'in being "modern', 'in being "modern')


def test_arctic_reads_its_list_of_sentences(miniature):
    assert rest(miniature("cmuarctic").dataset) == [
        (16_000, "Author of the danger trail, Philip Steels, etc.", "a0001"),
        (16_000, "Not at this particular case, Tom, apologized Whittemore.", "a0002"),
    ]


def test_the_dictionary_leaves_marks_out_or_names_them(miniature):
    plain, marked = miniature("cmudict").dataset, miniature("cmudict").build(exclude_punctuations=False)
    assert [word for word, _ in plain] == ["'BOUT", "DATAPOINTS", "DATAPOINTS", "D\u00c9J\u00c0"]
    assert [word for word, _ in marked][:3] == ["!", ";", "..."]
    assert plain[0] == ("'BOUT", ["B", "AW1", "T"])
    assert plain.symbols == ["AA", "AA0", "AW1", "T"]


def test_common_voice_gives_the_row(miniature):
    rows = rest(miniature("commonvoice").dataset)
    assert rows[0] == (
        48_000,
        {"client_id": "9d16c5d9", "path": "common_voice_tr_17343551.mp3", "sentence": "Birinci", "up_votes": "2"},
    )
    subject = miniature("commonvoice")
    (subject.placed / "train.tsv").write_text("client_id\tsentence\n")
    with pytest.raises(ValueError, match="for column 1, expected 'path'"):
        subject.build()


def test_device_recorded_speech_is_paired_with_the_clean(miniature):
    assert rest(miniature("dr_vctk").dataset) == [
        (16_000, 16_000, "p226", "001", "MacBook Pro", 1),
        (16_000, 16_000, "p226", "002", "MacBook Pro", 0),
    ]
    assert len(miniature("dr_vctk").build(subset="test")) == 2


def test_fluent_commands_come_with_what_is_wanted(miniature):
    dataset = miniature("fluentspeechcommands").dataset
    assert rest(dataset)[1] == (
        16_000, "0d6ef3d0", "4aGjX3AG5xcxeL7a", "Turn on the lamp, please", "activate", "lamp", "none",
    )  # fmt: skip
    assert dataset.get_metadata(0)[0] == "wavs/speakers/2BqVo8kVB2Skwgyb/0a3129c0.wav"


def test_gtzan_takes_what_is_there_or_the_filtered_split(miniature):
    assert [label for _, label in rest(miniature("gtzan").dataset)] == ["blues"] * 3
    split = {part: miniature("gtzan").build(subset=part) for part in ("training", "validation", "testing")}
    assert {part: len(dataset) for part, dataset in split.items()} == {
        "training": 443, "validation": 197, "testing": 290,
    }  # fmt: skip
    names = [name for dataset in split.values() for name in dataset._walker]
    assert len(set(names)) == 930
    with pytest.raises(ValueError, match="subset is 'train', expected one of 'training'"):
        GTZAN(miniature("gtzan").placed, subset="train")


def test_iemocap_counts_six_emotions(miniature):
    assert rest(miniature("iemocap").dataset) == [
        (16_000, "Ses01F_impro01_F000", "neu", "Ses01F"),
        (16_000, "Ses01F_script01_1_F000", "ang", "Ses01F"),
    ]
    assert len(miniature("iemocap").build(utterance_type="scripted")) == 1
    assert len(miniature("iemocap").build(sessions=(2,))) == 0


@pytest.mark.parametrize(
    ("task", "mixture", "sources"),
    [
        ("sep_clean", "mix_clean", ["s1", "s2"]),
        ("sep_noisy", "mix_both", ["s1", "s2"]),
        ("enh_single", "mix_single", ["s1", "s2"]),
        ("enh_both", "mix_both", ["mix_clean"]),
    ],
)
def test_librimix_pairs_mixtures_and_sources_by_task(miniature, task, mixture, sources):
    dataset = miniature("librimix").build(task=task)
    rate, path, parts = dataset.get_metadata(0)
    assert (rate, path.split("/")[-2], [part.split("/")[-2] for part in parts]) == (8000, mixture, sources)
    assert [part.shape for part in dataset[0][2]] == [dataset[0][1].shape] * len(sources)


def test_musdb_stacks_its_stems_and_splits_its_training(miniature):
    waveforms, rate, frames, name = miniature("musdb_hq").dataset[0]
    assert (waveforms.shape, rate, frames, name) == ((5, 2, 160), 44_100, 160, "ANiMAL - Rockshow")
    assert miniature("musdb_hq").build(split="train").names == ["Actions - South Of The Water"]
    assert miniature("musdb_hq").build(split="validation").names == ["ANiMAL - Rockshow"]
    with pytest.raises(ValueError, match="only the subset 'train' is split"):
        miniature("musdb_hq").build(subset="test", split="train")


def test_quesst_lists_by_language(miniature):
    assert [name for _, name in rest(miniature("quesst14").dataset)] == ["quesst14_00001", "quesst14_00003"]
    assert len(miniature("quesst14").build(language=None)) == 3
    assert miniature("quesst14").dataset.get_metadata(0)[0] == "Audio/quesst14_00001.wav"


def test_snips_takes_the_marks_off(miniature):
    assert rest(miniature("snips").dataset)[1] == (
        16_000, "Amy-snips-train-0", "weather in paris", "O O B-city", "GetWeather",
    )  # fmt: skip
    assert len(miniature("snips").build(speakers=["Aditi"])) == 1


@pytest.mark.parametrize(
    ("subset", "names"),
    [
        (None, ["bed/0a7c2a8d", "bed/00f0204f", "cat/0b7ee1a0", "cat/00f0204f"]),
        ("training", ["bed/00f0204f", "cat/00f0204f"]),
        ("validation", ["bed/0a7c2a8d"]),
        ("testing", ["cat/0b7ee1a0"]),
    ],
)
def test_speech_commands_are_split_by_their_lists(miniature, subset, names):
    dataset = miniature("speechcommands").build(subset=subset)
    assert sorted(f"{item[1]}/{item[2]}" for item in rest(dataset)) == sorted(names)
    assert dataset.get_metadata(0)[0].startswith("speech_commands_v0.02/")


def test_tedlium_cuts_talks_into_sentences(miniature):
    dataset = miniature("tedlium").dataset
    talk = "AaronHuey_2010X"
    assert rest(dataset)[1] == (16_000, "the second one", talk, talk, "<o,f0,female>")
    assert torch.equal(dataset[1][0], samples(f"{talk}.sph", 1600)[:, 800:1600])
    assert dataset.phoneme_dict == {"a": ("AH",), "a(2)": ("EY",), "uh": ()}
    assert len(miniature("tedlium").build(subset="dev")) == 2


def test_vctk_leaves_out_what_a_microphone_did_not_record(miniature):
    assert rest(miniature("vctk_092").dataset)[0] == (48_000, "Please call Stella 001.", "p225", "001")
    assert len(miniature("vctk_092").dataset) == 2
    assert len(miniature("vctk_092").build(mic_id="mic1")) == 3


def test_voxceleb_identifies_by_number(miniature):
    assert rest(miniature("voxceleb1identification").dataset) == [
        (16_000, 1, "id10001-1zcIwhmdeo4-00001"),
        (16_000, 1, "id10001-7gWzIy6yIIk-00002"),
    ]
    assert rest(miniature("voxceleb1identification").build(subset="test")) == [
        (16_000, 270, "id10270-x6uYqmx31kE-00001")
    ]


def test_voxceleb_verifies_pairs(miniature):
    dataset = miniature("voxceleb1verification").dataset
    assert [item[1] for item in rest(dataset)] == [1, 0]
    assert [waveform.shape[1] for waveform in dataset[1][:2]] == [160, 162]


def test_musan_may_be_the_root_itself(miniature):
    subject = miniature("musan")
    names = [name for _, name in rest(subject.dataset)]
    assert names == ["noise-free-sound-0000.wav", "noise-sound-bible-0000.wav"]
    assert len(subject.target(subject.placed / "musan", "noise")) == 2


def test_what_is_not_there_is_a_runtime_error_that_says_how_to_get_it(tmp_path):
    for make in (YESNO, LIBRISPEECH, SPEECHCOMMANDS, CMUDict):
        with pytest.raises(RuntimeError, match="download=True") as caught:
            make(tmp_path / "absent")
        assert isinstance(caught.value, DatasetMissingError)


def test_a_recording_of_another_rate_is_refused(miniature):
    from flambeau.audio._miniatures.files import recording

    subject = miniature("speechcommands")
    dataset = subject.dataset
    recording(subject.placed / "SpeechCommands" / dataset.get_metadata(0)[0], 8000)
    with pytest.raises(ValueError, match="8000 Hz, expected 16000"):
        dataset[0]

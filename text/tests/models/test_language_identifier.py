"""The language identifier: its embedded weights do what their record says, on held-out pages and on typed texts."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from flambeau.core import hub
from flambeau.core.predict import predict
from flambeau.text import models
from flambeau.text.models.language_identifier import CharacterWindows, Language_Identifier_Weights, LanguageIdentifier

sys.path.insert(0, str(Path(__file__).parents[2] / "recipes"))
import language_identifier as recipe

WEIGHTS = Language_Identifier_Weights.MANPAGES_V1
# Paragraphs of Debian's manual pages, each under its page's own free licence; the recipe says where they are from.
SAMPLES = Path(__file__).with_name("manual_pages.jsonl")
TYPED = {
    "French": "Il pleut souvent en Bretagne.",
    "German": "Guten Morgen, wir haben lange nicht miteinander gesprochen.",
    "Spanish": "¿Dónde está la biblioteca? No la encuentro en esta ciudad.",
    "English": "The quick brown fox jumps over the lazy dog and runs away.",
    "Dutch": "Hoe gaat het met jou?",
    "Danish": "Jeg hedder Anna og bor i København.",
    "Swedish": "Jag heter Anna och bor i Stockholm.",
    "Ukrainian": "Я живу в Києві.",
    "Russian": "Я живу в Москве.",
    "Polish": "Dzień dobry, czy mógłby mi pan powiedzieć, która jest godzina?",
    "Japanese": "今日は天気がいいので、公園に散歩に行きましょう。",
    "Chinese": "今天天气很好，我们去公园散步吧。",
}


@pytest.fixture(scope="module")
def model():
    return models.language_identifier(weights=WEIGHTS).eval()


@pytest.fixture(scope="module")
def samples():
    return [tuple(json.loads(line)) for line in SAMPLES.read_text(encoding="utf-8").splitlines()]


def test_the_file_is_in_the_package_small_and_as_recorded(monkeypatch):
    monkeypatch.setenv("FLAMBEAU_OFFLINE", "1")
    path = hub.fetch(WEIGHTS.url, sha256=WEIGHTS.sha256, size=WEIGHTS.size)
    content = path.read_bytes()
    assert len(content) == WEIGHTS.size < 2**20
    assert hashlib.sha256(content).hexdigest() == WEIGHTS.sha256
    assert path.stem.endswith(WEIGHTS.sha256[:8])


def test_it_has_as_many_parameters_and_languages_as_recorded_and_computes_in_single_precision(model):
    assert sum(parameter.numel() for parameter in model.parameters()) == WEIGHTS.meta["num_params"]
    assert WEIGHTS.meta["categories"] == list(recipe.LANGUAGES.values())
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}


def test_the_held_out_accuracy_is_the_recorded_one(model, samples):
    (metrics,) = WEIGHTS.meta["_metrics"].values()
    assert len({language for language, _ in samples}) == len(recipe.LANGUAGES)
    assert recipe.accuracy(model, samples) == pytest.approx(metrics["acc@1"], abs=0.2)  # one sample is 0.09
    assert metrics["acc@1"] > 97


@pytest.mark.parametrize("language", TYPED)
def test_what_people_type_is_named(language):
    answer = predict(TYPED[language])
    assert answer.rows[0]["class"] == language
    assert sum(row["probability"] for row in answer.rows) <= 1.0001


def test_a_text_in_a_file_is_read_and_the_command_line_answers(tmp_path):
    path = tmp_path / "letter.txt"
    path.write_text(TYPED["French"], encoding="utf-8")
    assert predict(path).rows[0]["class"] == "French"
    command = [sys.executable, "-m", "flambeau.core", "predict", TYPED["German"], "--json", "--top", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["weights"] == "text/language_identifier:MANPAGES_V1"
    assert answer["rows"][0]["class"] == "German"
    assert len(answer["rows"]) == 2


def test_windows_cover_a_text_evenly_and_are_padded():
    windows = CharacterWindows(length=4, most=3)
    assert windows("ab").tolist() == [[33, 98, 99, 33]]
    assert windows("").tolist() == [[33, 33]]
    assert windows("abc").tolist() == [[33, 98, 99, 100], [33, 0, 0, 0]]
    assert windows("a" * 100).shape == (3, 4)
    assert windows(["a", "é"]).tolist() == [[33, 98, 33], [33, 234, 33]]
    assert windows("E\u0301  \n x").tolist() == windows("é x").tolist()


def test_padding_does_not_change_an_answer(model):
    short, long = (CharacterWindows()(text) for text in ("Guten Tag", "Auf Wiedersehen und bis morgen"))
    together = CharacterWindows()(["Guten Tag", "Auf Wiedersehen und bis morgen"])
    torch.testing.assert_close(model(together), torch.cat([model(short), model(long)]))


@pytest.mark.parametrize("text", ["\ud800", "\0\0", "a" * 100_000, "\u200b", "é" * 200])
def test_odd_texts_get_an_answer(model, text):
    with torch.inference_mode():
        assert model(CharacterWindows()(text)).isfinite().all()


def test_an_empty_text_is_refused():
    from flambeau.core.errors import PredictError

    with pytest.raises(PredictError, match="the text is empty"):
        predict(" \n", weights="text/language_identifier:MANPAGES_V1")


def test_the_recipe_takes_running_text_out_of_pages():
    page = r""".TH LS 1
.SH NAME
ls \- list directory contents
.SH DESCRIPTION
List information about the \fIFILEs\fP (the current directory by default), one a line\(em
sorted by name.
.TP
\fB\-a\fP
short
"""
    assert list(recipe.paragraphs(page)) == [
        "List information about the FILEs (the current directory by default), one a line- sorted by name."
    ]


def test_training_is_deterministic_and_learns():
    threads = torch.get_num_threads()
    texts = {language: [f"{name} {name[::-1]} {language * 5} " * 4] for language, name in recipe.LANGUAGES.items()}
    try:
        first, second = (recipe.train(texts, steps=12, size=16) for _ in range(2))
    finally:
        torch.use_deterministic_algorithms(False)
        torch.set_num_threads(threads)
    for name, value in first.state_dict().items():
        assert torch.equal(value, second.state_dict()[name])
    untrained = LanguageIdentifier(len(recipe.LANGUAGES)).eval()
    measured = [(language, text[0]) for language, text in texts.items()]
    assert recipe.accuracy(first, measured) > recipe.accuracy(untrained, measured)


def test_other_numbers_of_classes_keep_what_lies_below_the_head():
    adapted = models.get_model("language_identifier", weights="DEFAULT", num_classes=3)
    own = models.language_identifier(weights="DEFAULT")
    assert adapted.head.out_features == 3
    assert torch.equal(adapted.hidden.weight, own.hidden.weight)

"""The language identifier: its embedded weights do what their record says, on held-out pages and on typed texts."""

import hashlib
import json
import struct
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
import debian_texts
import language_identifier as recipe
import manual_pages
import unknown_texts

WEIGHTS = Language_Identifier_Weights.DEBIAN_V1
# Texts of Debian's packages, each under its package's own free licence; the recipe says where they are from.
SAMPLES = Path(__file__).with_name("language_samples.jsonl")
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
    "Greek": "Καλημέρα σας, τι κάνετε σήμερα;",
    "Arabic": "صباح الخير، كيف حالك اليوم؟",
    "Persian": "صبح بخیر، حال شما چطور است؟",
    "Hebrew": "בוקר טוב, מה שלומך היום?",
    "Hindi": "सुप्रभात, आप आज कैसे हैं?",
    "Bengali": "সুপ্রভাত, আপনি আজ কেমন আছেন?",
    "Tamil": "காலை வணக்கம், நீங்கள் எப்படி இருக்கிறீர்கள்?",
    "Thai": "สวัสดีตอนเช้า วันนี้คุณเป็นอย่างไรบ้าง",
    "Korean": "안녕하세요, 오늘 기분이 어떠세요?",
    "Georgian": "დილა მშვიდობისა, როგორ ხართ დღეს?",
    "Armenian": "Բարի լույս, ինչպե՞ս եք այսօր։",
    "Amharic": "እንደምን አደሩ፣ ዛሬ እንዴት ነዎት?",
    "Burmese": "မင်္ဂလာနံနက်ခင်းပါ၊ ဒီနေ့ နေကောင်းလား။",
    "Bulgarian": "Добро утро, как сте днес и къде отивате?",
    "Vietnamese": "Chào buổi sáng, hôm nay bạn có khỏe không?",
    "Turkish": "Günaydın, bugün nasılsınız?",
    "Hungarian": "Jó reggelt, hogy van ma?",
    "Finnish": "Hyvää huomenta, mitä teille kuuluu tänään?",
}


@pytest.fixture(scope="module")
def model():
    return models.language_identifier(weights=WEIGHTS).eval()


@pytest.fixture(scope="module")
def samples():
    found = {}
    for line in SAMPLES.read_text(encoding="utf-8").splitlines():
        kind, code, text = json.loads(line)
        found.setdefault(kind, []).append((code, text))
    return found


def test_the_file_is_in_the_package_small_and_as_recorded(monkeypatch):
    monkeypatch.setenv("FLAMBEAU_OFFLINE", "1")
    path = hub.fetch(WEIGHTS.url, sha256=WEIGHTS.sha256, size=WEIGHTS.size)
    content = path.read_bytes()
    assert len(content) == WEIGHTS.size < 2**20
    assert hashlib.sha256(content).hexdigest() == WEIGHTS.sha256
    assert path.stem.endswith(WEIGHTS.sha256[:8])


def test_it_has_as_many_parameters_and_languages_as_recorded_and_computes_in_single_precision(model):
    assert sum(parameter.numel() for parameter in model.parameters()) == WEIGHTS.meta["num_params"]
    assert WEIGHTS.meta["categories"] == recipe.CATEGORIES
    assert len(recipe.LANGUAGES) >= 40
    assert WEIGHTS.meta["categories"][-1] == "unknown"
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}


@pytest.mark.parametrize("kind", ["fiction", "children", "manual pages", "unseen languages"])
def test_the_accuracy_on_what_training_has_not_seen_is_the_recorded_one(model, samples, kind):
    measured = samples[kind]
    (recorded,) = [m["acc@1"] for name, m in WEIGHTS.meta["_metrics"].items() if kind in name]
    assert f"{len(measured):,} texts" in "".join(WEIGHTS.meta["_metrics"])
    assert recipe.accuracy(model, measured) == pytest.approx(recorded, abs=0.5)  # a text is 0.06 to 0.18


def test_hardly_any_text_in_an_unseen_language_is_given_a_name_with_certainty(model, samples):
    answers = recipe.answers(model, [text for _, text in samples["unseen languages"]])
    named = [probability for name, probability in answers if name != recipe.UNKNOWN]
    assert sum(probability > 0.9 for probability in named) < 0.1 * len(answers)


@pytest.mark.parametrize("text", unknown_texts.UNSEEN_NOISE)
def test_what_is_no_language_is_unknown_or_named_without_certainty(model, text):
    ((name, probability),) = recipe.answers(model, [text])
    assert name == recipe.UNKNOWN or probability < 0.4


@pytest.mark.parametrize("script", unknown_texts.SCRIPTS_UNSEEN)
def test_a_script_that_no_language_here_is_written_in_is_unknown(model, script):
    generator = torch.Generator().manual_seed(0)
    block = {script: unknown_texts.SCRIPTS_UNSEEN[script]}
    texts = [unknown_texts.other_scripts(block, 40, generator) for _ in range(5)]
    found = recipe.answers(model, texts)
    assert all(name == recipe.UNKNOWN or probability < 0.5 for name, probability in found)


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
    assert answer["weights"] == "text/language_identifier:DEBIAN_V1"
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
        predict(" \n", weights="text/language_identifier:DEBIAN_V1")


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
    assert list(manual_pages.paragraphs(page)) == [
        "List information about the FILEs (the current directory by default), one a line- sorted by name."
    ]


def catalogue(messages):
    """A gettext catalogue of these messages."""
    originals, translations = ([text.encode() for text in column] for column in zip(*messages, strict=True))
    count, tables, blobs = len(messages), [], b""
    start = 28 + 16 * count
    for texts in (originals, translations):
        table = b""
        for text in texts:
            table += struct.pack("<2I", len(text), start + len(blobs))
            blobs += text + b"\0"
        tables.append(table)
    return struct.pack("<7I", 0x950412DE, 0, count, 28, 28 + 8 * count, 0, 0) + b"".join(tables) + blobs


def test_the_recipe_reads_catalogues_of_messages():
    content = catalogue([("", "Project-Id: x"), ("menu\x04Open", "Öffnen"), ("%d file\0%d files", "Datei\0Dateien")])
    assert list(debian_texts.messages(content)) == [("Open", "Öffnen"), ("%d file", "Datei"), ("%d file", "Dateien")]
    assert list(debian_texts.messages(b"damaged")) == []


def test_the_recipe_takes_markup_marks_and_places_of_values_out():
    message = "_Speichert <b>%d Dateien</b> nach ${ORT} und %(name)s, siehe https://example.org/x\nkurz"
    assert list(debian_texts.plain(message)) == ["Speichert Dateien nach und , siehe"]


def test_exchanged_letters_are_all_of_the_text_and_are_exchanged_alike():
    generator = torch.Generator().manual_seed(0)
    changed = unknown_texts.other_letters("Guten Morgen, guten Abend", generator)
    assert sorted(set(changed)) == sorted(set("guten morgen, guten abend"))
    assert changed != "guten morgen, guten abend"
    assert changed[:5] == changed[14:19]


def test_training_is_deterministic_and_learns():
    threads = torch.get_num_threads()
    texts = {language: [f"{name} {name[::-1]} {language * 5} " * 4] for language, name in recipe.LANGUAGES.items()}
    try:
        first, second = (recipe.train(texts, {}, steps=80, size=32) for _ in range(2))
    finally:
        torch.use_deterministic_algorithms(False)
        torch.set_num_threads(threads)
    for name, value in first.state_dict().items():
        assert torch.equal(value, second.state_dict()[name])
    untrained = LanguageIdentifier(len(recipe.CATEGORIES)).eval()
    measured = [(language, text[0]) for language, text in texts.items()]
    assert recipe.accuracy(first, measured) > recipe.accuracy(untrained, measured)


def test_the_enum_is_where_the_builder_is():
    assert models.Language_Identifier_Weights is Language_Identifier_Weights


def test_other_numbers_of_classes_keep_what_lies_below_the_head():
    adapted = models.get_model("language_identifier", weights="DEFAULT", num_classes=3)
    own = models.language_identifier(weights="DEFAULT")
    assert adapted.head.out_features == 3
    assert torch.equal(adapted.hidden.weight, own.hidden.weight)

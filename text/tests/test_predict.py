"""What `flambeau predict` does with texts: rows, and a picture of them."""

from __future__ import annotations

import subprocess
import sys
from xml.etree import ElementTree

import pytest

from flambeau.core.errors import PredictError
from flambeau.core.predict import predict
from flambeau.text._answer_picture import _drawable, draw_classes

BAR, TRACK = (46, 98, 160), (232, 235, 240)


def bars(path):
    """Of each bar of a picture its length in pixels, and that of its track, along the middle of its row."""
    image = pytest.importorskip("PIL.Image").open(path).convert("RGB")
    lengths = []
    for top in range(48, image.height - 24, 34):
        row = [image.getpixel((x, top + 11)) for x in range(image.width)]
        lengths.append((row.count(BAR), row.count(BAR) + row.count(TRACK)))
    return lengths


def test_bars_are_as_long_as_the_classes_are_probable(tmp_path):
    draw_classes("a text", [("French", 0.75), ("Italian", 0.25), ("Latin", 0.0)], tmp_path / "answer.png")
    assert bars(tmp_path / "answer.png") == [(316, 421), (106, 421), (0, 421)]


def test_a_vector_picture_has_the_text_in_its_own_script(tmp_path):
    draw_classes("Καλημέρα <&>", [("Greek", 1.0)], tmp_path / "answer.svg")
    drawing = ElementTree.parse(tmp_path / "answer.svg").getroot()
    texts = [element.text for element in drawing.iter("{http://www.w3.org/2000/svg}text")]
    assert texts == ["Καλημέρα <&>", "Greek", "100.0 %"]
    widths = [element.get("width") for element in drawing.iter("{http://www.w3.org/2000/svg}rect")]
    assert widths[1:] == ["420", "420.0"]


def test_long_names_and_texts_are_cut_to_their_place(tmp_path):
    draw_classes("word " * 99, [("a" * 99, 0.5)], tmp_path / "answer.png")
    assert bars(tmp_path / "answer.png") == [(211, 421)]


def test_an_unknown_format_is_refused_by_name(tmp_path):
    with pytest.raises(PredictError, match=r"answer\.nonsense"):
        draw_classes("a", [("b", 1.0)], tmp_path / "answer.nonsense")


def test_the_command_line_draws_the_answer(tmp_path):
    out = tmp_path / "answer.png"
    command = [sys.executable, "-m", "flambeau.core", "predict", "Il pleut souvent en Bretagne.", "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    rows = predict("Il pleut souvent en Bretagne.").rows
    drawn = [length for length, _ in bars(out)]
    assert drawn == pytest.approx([420 * row["probability"] for row in rows], abs=2)


def test_letters_that_a_font_lacks_are_told_and_accents_left_out():
    font = pytest.importorskip("PIL.ImageFont").load_default(size=16)  # has ASCII alone
    assert _drawable("Wer gräbt", font) == "Wer grabt"
    assert _drawable("Wer", font) == "Wer"
    assert "svg" in _drawable("Καλημέρα", font)

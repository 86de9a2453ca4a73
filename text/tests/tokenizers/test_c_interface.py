"""Tokenizing without Python: a C program that reads what `to_tokenizer_json` wrote."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path

import pytest

import flambeau.text
from flambeau.core.testing.golden import golden_values, parity_folder
from flambeau.text import transforms
from flambeau.text._native import LIBRARY

SOURCE = Path(__file__).parents[2] / "examples" / "libtext" / "tokenize.c"
HEADERS = Path(__file__).parents[2] / "native" / "include"


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    compiler = shutil.which("cc")
    if compiler is None or LIBRARY.path is None or importlib.util.find_spec("flambeau.text") is None:
        pytest.skip("needs a C compiler and the native library")
    path = tmp_path_factory.mktemp("program") / "tokenize"
    command = [compiler, "-Wall", "-Werror", str(SOURCE), "-I", str(HEADERS), str(LIBRARY.path)]
    subprocess.run([*command, f"-Wl,-rpath,{LIBRARY.path.parent}", "-o", str(path)], check=True)
    return path


@pytest.mark.slow
def test_cmake_builds_the_example_by_the_installed_package(tmp_path):
    cmake, compiler = shutil.which("cmake"), shutil.which("cc")
    if cmake is None or compiler is None or LIBRARY.path is None:
        pytest.skip("needs CMake, a C compiler and the native library")
    options = [f"-DFlambeauText_DIR={flambeau.text.cmake_dir()}", "-DCMAKE_BUILD_TYPE=Release"]
    subprocess.run([cmake, "-S", SOURCE.parent, "-B", tmp_path, *options], check=True, capture_output=True)
    subprocess.run([cmake, "--build", tmp_path], check=True, capture_output=True)
    done = subprocess.run([tmp_path / "tokenize"], capture_output=True, text=True)
    assert (done.returncode, done.stderr.startswith("usage:")) == (2, True)


def ran(program: Path, tokenizer: Path, lines: list[str]) -> list[tuple[list[int], str]]:
    done = subprocess.run(
        [program, tokenizer], input="".join(f"{line}\n" for line in lines).encode(), capture_output=True, check=True
    )
    rows = [row.split("\t", 1) for row in done.stdout.decode(errors="ignore").split("\n")[:-1]]
    return [(list(map(int, ids.split())), text) for ids, text in rows]


@pytest.mark.parametrize("tokenizer", ["gpt2", "clip", "bert", "char_bpe"], indirect=True)
def test_a_program_in_c_gives_the_same_ids(program, tokenizer, tmp_path):
    tokenizer.to_tokenizer_json(tmp_path / "tokenizer.json")
    lines = [
        "hello world",
        "  hello  'll é 中文 12!",
        "",
        "aaaa\u00a0😀",
        "unbelievable don't",
        " \u2003HELLO \u0130 \v\u3000",
    ]
    lines += ["<|endoftext|>hello", "<pad> hello<pad>", "\x1chello\x85", "\u023a" * 40]
    results = ran(program, tmp_path / "tokenizer.json", lines)
    assert [ids for ids, _ in results] == tokenizer.encode_ids(lines)
    assert [text for _, text in results] == [tokenizer.decode(ids) for ids, _ in results]


@pytest.mark.parametrize("name", ["gpt2", "clip", "bert_uncased", "bert_cased", "char_bpe"])
def test_a_program_in_c_gives_the_golden_ids(program, name, tmp_path):
    golden = golden_values("tokenizers", __file__)
    vocabularies = parity_folder(__file__) / "vocabularies"
    how = dict(golden["cases"][name]["how"])
    kind = getattr(transforms, how.pop("cls").removeprefix("transforms."))
    options = {key: str(vocabularies / value) if key.endswith("path") else value for key, value in how.items()}
    tokenizer = kind(**options)
    tokenizer.to_tokenizer_json(tmp_path / "tokenizer.json")
    lines = [text for text in golden["strings"] if not set(text) & {"\n", "\0", "\t"} and text == text.strip()]
    if name == "clip":  # a capital sigma at a word's end differs, as is told
        lines = [text for text in lines if "Σ" not in text]
    assert len(lines) > 350
    assert [ids for ids, _ in ran(program, tmp_path / "tokenizer.json", lines)] == tokenizer.encode_ids(lines)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "not JSON"),
        ('{"model": {', "not JSON"),
        ("{}", "no model"),
        ('{"model": {"type": "Unigram", "vocab": {}}}', "neither BPE nor WordPiece"),
        ('{"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}}', "words are not"),
        ('{"model": {"type": "WordPiece", "vocab": {"a": "0"}}}', "no number"),
        (
            '{"normalizer": {"type": "BertNormalizer"}, "model": {"type": "WordPiece", "unk_token": "a", '
            '"continuing_subword_prefix": "##", "vocab": {"a": 1e300}}}',
            "out of range",
        ),
        ("[" * 100_000, "not JSON"),
        (
            '{"pre_tokenizer": {"pattern": {"Regex": "[^\\\\s]+\\\\n?"}}, "model": {"type": "BPE", "vocab": {"a": 0}, '
            '"merges": [["a", "b"]]}}',
            "lacks",
        ),
    ],
)
def test_a_damaged_file_is_refused_with_its_reason(program, tmp_path, content, message):
    path = tmp_path / "tokenizer.json"
    path.write_text(content)
    done = subprocess.run([program, path], input=b"", capture_output=True)
    assert done.returncode == 1
    assert message in done.stderr.decode()
    done = subprocess.run([program, tmp_path / "nowhere.json"], input=b"", capture_output=True)
    assert (done.returncode, "No such file" in done.stderr.decode()) == (1, True)

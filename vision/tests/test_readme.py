"""The README's program runs and prints what the README says."""

import re
from pathlib import Path

import torch

from flambeau.vision.io import write_jpeg

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_the_ten_lines_print_what_is_said(monkeypatch, capsys):
    program, _ = PROGRAMS
    (promised,) = re.findall(r"It prints `(.*?)`", README)
    monkeypatch.chdir(Path(__file__).parents[1])
    exec(compile(program, "README.md", "exec"), {})
    label, percent = re.fullmatch(r"(\d): (.*) %\n", capsys.readouterr().out).groups()
    assert label == promised[0]
    assert abs(float(percent) - float(promised.split()[1])) < 1  # kernels differ between processors


def test_the_loader_gives_batches_of_a_folder(tmp_path):
    (tmp_path / "a").mkdir()
    for index in range(3):
        write_jpeg(torch.full((3, 40, 50), 80 * index, dtype=torch.uint8), tmp_path / "a" / f"{index}.jpg")
    names = {}
    exec(compile(PROGRAMS[1].replace("num_workers=4", "num_workers=0"), "README.md", "exec"), names)
    pictures, labels = next(iter(names["loader"](tmp_path)))
    assert pictures.shape == (3, 3, 224, 224)
    assert labels.tolist() == [0, 0, 0]


def test_every_module_named_exists():
    modules = re.findall(r"^\| `(\w+)` \|", README, re.MULTILINE)
    assert len(modules) >= 8
    for name in modules:
        assert getattr(__import__(f"flambeau.vision.{name}").vision, name)

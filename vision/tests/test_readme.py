"""The README's program runs and prints what the README says."""

import re
from pathlib import Path

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def test_the_ten_lines_print_what_is_said(monkeypatch, capsys):
    (program,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    (promised,) = re.findall(r"It prints `(.*?)`", README)
    monkeypatch.chdir(Path(__file__).parents[1])
    exec(compile(program, "README.md", "exec"), {})
    label, percent = re.fullmatch(r"(\d): (.*) %\n", capsys.readouterr().out).groups()
    assert label == promised[0]
    assert abs(float(percent) - float(promised.split()[1])) < 1  # kernels differ between processors


def test_every_module_named_exists():

    modules = re.findall(r"^\| `(\w+)` \|", README, re.MULTILINE)
    assert len(modules) >= 8
    for name in modules:
        assert getattr(__import__(f"flambeau.vision.{name}").vision, name)

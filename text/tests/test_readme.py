"""The README's first program runs and prints what the README says; what it names exists."""

import re
from importlib import import_module
from pathlib import Path

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_the_ten_lines_print_what_is_said(capsys):
    (promised,) = re.findall(r"It prints\n\n```\n(.*?)```", README, re.DOTALL)
    exec(compile(PROGRAMS[0], "README.md", "exec"), {})
    assert capsys.readouterr().out == promised


def test_what_the_other_programs_import_exists():
    for program in PROGRAMS[1:]:
        compile(program, "README.md", "exec")
        exec("\n".join(line for line in program.splitlines() if line.startswith("from ")), {})


def test_every_module_named_exists():
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", README.partition("\n## ")[0], re.MULTILINE)
    modules = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert len(modules) >= 9
    for name in modules:
        assert import_module(f"flambeau.text.{name}")

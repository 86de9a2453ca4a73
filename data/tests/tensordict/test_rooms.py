"""The page that says who lives where in the package is complete."""

import re
from pathlib import Path

import flambeau.data.tensordict

FOLDER = Path(flambeau.data.tensordict.__path__[0])


def test_the_page_names_every_module_and_room():
    there = {path.stem for path in FOLDER.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    named = set(re.findall(r"`(\w+)`", (FOLDER / "README.md").read_text("utf-8")))
    assert there - {"__init__"} - named == set()


def test_the_page_names_nothing_that_is_gone():
    table = [line for line in (FOLDER / "README.md").read_text("utf-8").splitlines() if line.startswith("| ")]
    rooms = {name for line in table[2:] for name in re.findall(r"`(\w+)`", line.split("|")[2])}
    assert {name for name in rooms if not ((FOLDER / f"{name}.py").is_file() or (FOLDER / name).is_dir())} == set()

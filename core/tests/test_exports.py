"""A package made of lazy names: nothing is imported before it is used."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from flambeau.core.exports import lazy_exports

PACKAGE = """
from flambeau.core.exports import lazy_exports
__getattr__, __dir__, __all__ = lazy_exports(__name__, {
    "square": ("square", "Square"), "line": ("Line",)}, submodules=["plain"])
"""


@pytest.fixture
def shapes(tmp_path, monkeypatch):
    folder = tmp_path / "lazy_shapes"
    folder.mkdir()
    folder.joinpath("__init__.py").write_text(PACKAGE)
    folder.joinpath("square.py").write_text("class Square: pass\ndef square(): return 4\n")
    folder.joinpath("line.py").write_text("class Line: pass\n")
    folder.joinpath("plain.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield __import__("lazy_shapes")
    for name in [name for name in sys.modules if name.partition(".")[0] == "lazy_shapes"]:
        del sys.modules[name]


def test_a_name_imports_the_module_that_defines_it_and_no_other(shapes):
    assert shapes.Line.__module__ == "lazy_shapes.line"
    assert "lazy_shapes.line" in sys.modules
    assert "lazy_shapes.square" not in sys.modules


def test_all_holds_the_names_sorted_and_dir_the_submodules_too(shapes):
    assert shapes.__all__ == ["Line", "Square", "square"]
    assert {"Line", "Square", "line", "plain", "square"} <= set(dir(shapes))


def test_a_submodule_is_an_attribute_without_an_import(shapes):
    assert shapes.plain.__name__ == "lazy_shapes.plain"


def test_an_absent_name_raises_attribute_error(shapes):
    with pytest.raises(AttributeError, match="'lazy_shapes' has no attribute 'Circle'"):
        _ = shapes.Circle


@pytest.mark.parametrize("first", ["lazy_shapes.square", "lazy_shapes"])
def test_a_function_named_like_its_module_stays_the_function(shapes, first):
    __import__(first)
    assert shapes.square() == 4
    assert sys.modules["lazy_shapes.square"].Square is shapes.Square


def test_a_name_listed_twice_is_refused():
    with pytest.raises(ValueError, match=r"'Line' is listed under pkg\.a and pkg\.b"):
        lazy_exports("pkg", {"a": ["Line"], "b": ["Line"]})


def test_the_helper_itself_imports_nothing_heavy():
    code = "import sys, flambeau.core.exports; print({'torch', 'numpy', 'typing'} & set(sys.modules))"
    out = subprocess.run(
        [sys.executable, "-S", "-c", code], capture_output=True, text=True, env={"PYTHONPATH": ":".join(sys.path)}
    )
    assert out.stdout.strip() == "set()", out.stderr


@pytest.mark.parametrize("package", ["", ".weights"])
def test_a_type_checker_sees_the_names_that_load_lazily(package):
    module = importlib.import_module(f"flambeau.core{package}")
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {alias.name for node in ast.walk(block) if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert seen - {"Any"} == set(module.__all__) - {"API_VERSION", "__version__"}

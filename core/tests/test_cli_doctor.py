"""`flambeau doctor` and `flambeau kernels`: what is wrong with an installation, and what to do."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flambeau.core.cli import diagnosis, main
from flambeau.core.environment import VARIABLES
from flambeau.core.native import LIBRARIES

HOOKS = """
from flambeau.core import hookimpl

@hookimpl
def flambeau_doctor():
    return [
        {"name": "decoder", "ok": True, "detail": "libx 3"},
        {"name": "encoder", "ok": False, "detail": "liby is missing", "remedy": "apt install liby"},
    ]
"""


@pytest.fixture
def doctor(site: Any, capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*, code: int = 0) -> dict[str, Any]:
        assert main(["doctor", "--json"]) == code
        return json.loads(capsys.readouterr().out)

    return run


@pytest.fixture
def toy_library(tmp_path: Path) -> Iterator[Path]:
    """A shared library with a plain C interface, and nothing of `flambeau/kernel.h`."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("needs a C compiler")
    suffix = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")
    source, library = tmp_path / "plain.c", tmp_path / f"_kernels{suffix}"
    source.write_text("int answer(void) { return 42; }")
    subprocess.run([compiler, "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    known = list(LIBRARIES)
    yield library
    LIBRARIES[:] = known


def test_a_healthy_installation_has_no_problems(doctor: Any, site: Any) -> None:
    site.add("fine")

    facts = doctor()

    assert facts["problems"] == []
    assert list(facts) == [
        *("versions", "plugins", "kernels", "kernels_error", "cpu", "triton", "ffmpeg", "cache"),
        *("environment", "checks", "problems"),
    ]
    assert facts["versions"]["torch"]
    assert [plugin["state"] for plugin in facts["plugins"]] == ["ok"]


def test_one_screen_has_every_section(site: Any, capsys: pytest.CaptureFixture[str]) -> None:
    site.add("fine", {"models": [{"name": "net", "target": "fine_plugin:net"}]})

    assert main(["doctor"]) == 0

    shown = capsys.readouterr().out
    assert "fine (flambeau-fine 1.0): ok, 1 model" in shown
    for word in ("flambeau-core ", "torch ", "kernels", "Triton", "FFmpeg", "cache", "No problem was found."):
        assert word in shown
    assert all(variable.name in shown for variable in VARIABLES)
    assert len(shown.splitlines()) < 40


def test_broken_plugins_are_explained_even_in_a_strict_environment(
    doctor: Any, site: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.plugin("sick", manifest="{")
    site.plugin("old", manifest={"schema": 1, "plugin": "old", "api": "0.1"})
    monkeypatch.setenv("FLAMBEAU_STRICT_PLUGINS", "1")
    from flambeau.core.plugins import manager

    manager.refresh_snapshot()

    problems = {problem["about"]: problem for problem in doctor(code=3)["problems"]}

    assert "not valid JSON" in problems["plugin sick"]["problem"]
    assert "flambeau plugins disable sick" in problems["plugin sick"]["remedy"]
    assert problems["plugin old"]["problem"].startswith("incompatible")


def test_a_disabled_plugin_is_no_problem(doctor: Any, site: Any) -> None:
    site.configure({"plugins": {"disabled": ["fine"]}})
    site.add("fine")

    assert doctor()["problems"] == []


def test_manifests_are_validated_in_full(doctor: Any, site: Any) -> None:
    weights = {"model": "net", "enum": "sloppy_plugin:W", "name": "V1", "url": "https://e.example/net.pth"}
    site.add("sloppy", {"weights": [weights]})

    (problem,) = doctor(code=1)["problems"]

    assert "there is no model 'net'" in problem["problem"] and problem["remedy"] == "tell the author of flambeau-sloppy"


def test_checks_of_plugins_are_run_and_their_failures_are_problems(doctor: Any, site: Any) -> None:
    site.add("checked", {"hooks": "checked_plugin.hooks"}, modules={"hooks.py": HOOKS})

    facts = doctor(code=1)

    assert [(check["plugin"], check["name"], check["ok"]) for check in facts["checks"]] == [
        ("checked", "decoder", True),
        ("checked", "encoder", False),
    ]
    assert facts["problems"] == [
        {"about": "checked: encoder", "problem": "liby is missing", "remedy": "apt install liby"}
    ]


def test_a_plugin_whose_package_does_not_import_is_broken_with_the_cause(doctor: Any, site: Any) -> None:
    site.add("hollow", modules={"__init__.py": "import nowhere_at_all"})

    facts = doctor(code=3)

    assert [plugin["state"] for plugin in facts["plugins"]] == ["broken"]
    (problem,) = facts["problems"]
    assert "No module named 'nowhere_at_all'" in problem["problem"]
    assert "install what provides the module 'nowhere_at_all'" in problem["remedy"]


@pytest.mark.parametrize("returned", ["5", "'text'", "[None]", "{'a': object()}", "[{'name': object(), 'remedy': 3}]"])
def test_a_check_may_return_anything_without_stopping_the_doctor(
    doctor: Any, site: Any, returned: str, capsys: pytest.CaptureFixture[str]
) -> None:
    hooks = HOOKS.partition("    return")[0] + f"    return {returned}\n"
    site.add("babbling", {"hooks": "babbling_plugin.hooks"}, modules={"hooks.py": hooks})

    main(["doctor", "--json"])
    facts = json.loads(capsys.readouterr().out)

    assert [check["plugin"] for check in facts["checks"]] == ["babbling"]


def test_a_library_that_core_cannot_use_is_a_problem(doctor: Any, site: Any, toy_library: Path) -> None:
    record = {"namespace": "flambeau_plain", "library": "_kernels", "package": "plain_plugin"}
    folder = site.add("plain", {"kernels": [record]})
    shutil.copy(toy_library, folder / toy_library.name)

    (problem,) = doctor(code=1)["problems"]

    assert problem["about"] == "kernels flambeau_plain"
    assert "was not built with flambeau/kernel.h" in problem["problem"]
    assert "rebuild" in problem["remedy"]


def test_a_home_that_cannot_be_written_is_a_problem(
    doctor: Any, site: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.joinpath("file").write_text("")
    monkeypatch.setenv("FLAMBEAU_HOME", str(tmp_path / "file" / "home"))

    (problem,) = doctor(code=1)["problems"]

    assert "FLAMBEAU_HOME" in problem["remedy"]


def test_a_check_that_fails_to_run_makes_its_plugin_broken(doctor: Any, site: Any) -> None:
    hooks = HOOKS.replace("return [", "raise OSError('no such device')\n    return [")
    site.add("faulty", {"hooks": "faulty_plugin.hooks"}, modules={"hooks.py": hooks})

    facts = doctor(code=3)

    assert facts["plugins"][0]["state"] == "broken"
    assert "no such device" in facts["plugins"][0]["error"]


def test_credentials_are_not_printed(doctor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://user:secret@proxy.example:8080")
    monkeypatch.setenv("FLAMBEAU_MIRRORS", "https://a/=https://user:secret@b/;https://c/=https://token@d/")

    values = {variable["name"]: variable["value"] for variable in doctor()["environment"]}

    assert values["HTTPS_PROXY"] == "http://***@proxy.example:8080"
    assert values["FLAMBEAU_MIRRORS"] == "https://a/=https://***@b/;https://c/=https://***@d/"


def test_the_size_of_the_cache_is_counted(doctor: Any, flambeau_home: Path) -> None:
    (flambeau_home / "files").mkdir(parents=True)
    (flambeau_home / "files" / "a.pth").write_bytes(b"12345")

    cache = doctor()["cache"]

    assert (cache["path"], cache["size"], cache["writable"], cache["offline"]) == (str(flambeau_home), 5, True, False)


def test_a_torch_that_does_not_load_is_a_problem_and_hides_nothing_else(
    doctor: Any, site: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise OSError("libtorch_cpu.so: cannot open shared object file")

    site.add("fine")
    monkeypatch.setattr("flambeau.core.native.report.status", fail)

    facts = doctor(code=1)

    assert facts["problems"][0]["about"] == "torch"
    assert "libtorch_cpu.so" in facts["problems"][0]["problem"]
    assert [plugin["name"] for plugin in facts["plugins"]] == ["fine"]


def test_plugins_doctor_is_the_same(site: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plugins", "doctor", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["problems"] == []


def test_kernels_are_listed_with_who_serves(site: Any, capsys: pytest.CaptureFixture[str]) -> None:
    kernel = {"namespace": "flambeau_bare", "library": "_kernels", "package": "bare_plugin"}
    site.add("bare", {"kernels": [kernel]})

    assert main(["kernels", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)  # other tests may have declared libraries in this process
    (row,) = [row for row in rows if row["namespace"] == "flambeau_bare"]
    assert (row["namespace"], row["package"], row["provider"], row["library"]) == (
        *("flambeau_bare", "bare_plugin", "python", None),
    )
    assert main(["doctor"]) == 0
    assert "flambeau_bare: python, not built" in capsys.readouterr().out


def test_versions_are_read_without_importing_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosis.metadata, "version", lambda name: f"{name} 9")
    assert diagnosis._versions()["torch"] == "torch 9"

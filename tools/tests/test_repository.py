"""The repository keeps its own rules: what the README says is what CI runs, every distribution has the same inside."""

from __future__ import annotations

import re
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import check_wheels  # noqa: E402
import tables  # noqa: E402

PACKAGES = tables.packages()


def test_ci_runs_the_test_command_of_the_readme():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"^(python -m pip install nox && nox -s tests)$", readme, re.MULTILINE)
    assert command in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("path", tables.pages(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_derived_tables_are_current(path: Path):
    text = path.read_text(encoding="utf-8")
    assert tables.render(text, tables.pages()[path]) == text


def test_a_page_without_the_markers_of_a_table_is_refused():
    with pytest.raises(SystemExit, match=r"a\.md lacks the markers <!-- rows -->"):
        tables.render("no table", {"rows": lambda: "row"}, "a.md")


def test_no_distribution_claims_the_namespace():
    assert not [path for folder in PACKAGES for path in folder.glob("src/flambeau/__init__.py")]


@pytest.mark.parametrize("folder", PACKAGES, ids=lambda path: path.name)
def test_every_distribution_has_the_same_inside(folder: Path):
    for name in ("README.md", "CHANGELOG.md", "LICENSE", "src", "tests"):
        assert (folder / name).exists(), f"{folder.name} lacks {name}"
    assert list(folder.glob("src/**/py.typed"))


@pytest.mark.parametrize("folder", [p for p in PACKAGES if p.parent == ROOT], ids=lambda path: path.name)
def test_the_version_in_the_code_is_the_distributions(folder: Path):
    version = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    package = folder / "src" / Path(*tables.import_name(folder).split("."))
    files = [package / name for name in ("__init__.py", "version.py") if (package / name).is_file()]
    assert any(f'__version__ = "{version}"' in path.read_text(encoding="utf-8") for path in files)


@pytest.mark.parametrize("folder", PACKAGES, ids=lambda path: path.name)
def test_first_party_distributions_accept_a_range_of_core_and_no_pin(folder: Path):
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needs = [d for d in project["dependencies"] if d.startswith("flambeau-core")]
    assert project["name"] == "flambeau-core" or (needs and all("==" not in d and "<" in d for d in needs))


@pytest.mark.parametrize("folder", [p for p in PACKAGES if p.parent == ROOT], ids=lambda path: path.name)
def test_what_a_build_needs_is_on_every_index_and_holds_no_torch(folder: Path):
    system = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]
    assert not [name for name in system["requires"] if name.startswith(("flambeau", "torch"))]


@pytest.mark.parametrize("folder", [p for p in PACKAGES if p.parent == ROOT], ids=lambda path: path.name)
def test_every_distribution_names_its_addresses(folder: Path):
    urls = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]
    assert {"Homepage", "Source", "Changelog", "Issues"} <= set(urls)
    assert urls["Changelog"].endswith(f"/{folder.name}/CHANGELOG.md")


SOUND = {
    "flambeau/x/__init__.py": "",
    "flambeau/x/py.typed": "",
    "flambeau/x/flambeau_plugin.json": "{}",
    "flambeau_x-1.0.dist-info/licenses/LICENSE": "",
    "flambeau_x-1.0.dist-info/entry_points.txt": "[flambeau.manifest]\nx = flambeau.x:flambeau_plugin.json\n",
}


@pytest.mark.parametrize(
    ("tag", "add", "drop", "fault"),
    [
        ("py3-none-any", {}, None, None),
        ("py3-none-manylinux_2_28_x86_64", {"flambeau/x/_kernels.so": ""}, None, None),
        ("py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64", {"flambeau/x/_kernels.so": ""}, None, None),
        ("py3-none-win_amd64", {"flambeau/x/_kernels.dll": ""}, None, None),
        ("py3-none-linux_x86_64", {"flambeau/x/_kernels.so": ""}, None, "which no index takes"),
        ("py3-none-manylinux_2_34_x86_64", {"flambeau/x/_kernels.so": ""}, None, "glibc 2.28 or older"),
        ("py3-none-manylinux_2_17_x86_64", {"flambeau/x/_k.so": "libstdc++.so.6"}, None, r"_k.so needs libstdc++.so.6"),
        ("py3-none-any", {"flambeau/__init__.py": ""}, None, "hide every other distribution"),
        ("py3-none-any", {}, "flambeau/x/py.typed", "py.typed"),
        ("py3-none-any", {}, "flambeau_x-1.0.dist-info/licenses/LICENSE", "licence"),
        ("py3-none-any", {}, "flambeau/x/flambeau_plugin.json", "does not hold"),
        ("py3-none-any", {"flambeau/x/_kernels.so": ""}, None, "expected py3-none-<platform>"),
        ("cp311-cp311-manylinux_2_17_x86_64", {"flambeau/x/_kernels.so": ""}, None, "expected py3-none-<platform>"),
        ("py3-none-linux_x86_64", {}, None, "expected py3-none-any"),
    ],
)
def test_a_faulty_wheel_is_named_with_its_fault(tmp_path: Path, monkeypatch, tag, add, drop, fault):
    monkeypatch.setattr(check_wheels, "needed_libraries", lambda content: ["libc.so.6", *content.decode().split()])
    path = tmp_path / f"flambeau_x-1.0-{tag}.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for name, text in {**SOUND, **add}.items():
            if name != drop:
                wheel.writestr(name, text)
    found = check_wheels.faults(path)
    assert (not found) if fault is None else (len(found) == 1 and fault in found[0])

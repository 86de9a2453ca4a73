"""`flambeau migrate` on lists of requirements: what becomes of them, what stays, and what is reported."""

import json
import tomllib

import pytest

from flambeau.core.cli import main
from flambeau.core.cli.migrate.requirements import lists_requirements, rewrite_requirements
from flambeau.core.cli.migrate.table import DISTRIBUTIONS, MODULES


def rewritten(name, text):
    return rewrite_requirements(name, text.encode()).code.decode()


def reasons(name, text):
    return [(note.line, note.text, note.reason) for note in rewrite_requirements(name, text.encode()).notes]


LINES = [
    ("torchvision\n", "flambeau-vision\n"),
    ("torchvision==0.19.0+cu121\n", "flambeau-vision\n"),
    ("torchaudio >= 2.1, < 3  # sound\n", "flambeau-audio  # sound\n"),
    ("TorchText~=0.17 ; python_version < '3.12'\r\n", "flambeau-text ; python_version < '3.12'\r\n"),
    ("torchx[dev]>=0.5", "flambeau-launch"),
    ("fbgemm_gpu_cpu==1.0\n", "flambeau-rec\n"),
    ("torchvision @ https://host.example/a.whl\n", "flambeau-vision\n"),
    ("tensordict\ntorchdata==0.11\n", "flambeau-data\n"),
]


@pytest.mark.parametrize(("before", "after"), LINES)
def test_a_requirement_on_an_upstream_distribution_becomes_ours_without_its_version(before, after):
    assert rewritten("requirements.txt", before) == after


KEPT = [
    "torch>=2.8\n", "numpy\n", "# torchvision==0.1\n", "-r torchvision.txt\n", "--index-url https://host/torchvision\n",
    "\n", "torchvision-extras==1\n", "not a requirement torchvision\n", "torchmetrics\n",
]  # fmt: skip


@pytest.mark.parametrize("line", KEPT)
def test_everything_else_stays_as_it_is(line):
    result = rewrite_requirements("requirements.txt", line.encode())
    assert (result.code.decode(), result.changes, result.notes) == (line, [], [])


def test_what_is_pinned_by_hash_or_comes_from_a_repository_is_reported():
    text = (
        "torchvision==0.19.0 \\\n    --hash=sha256:aaaa\n"
        "-e git+https://github.com/pytorch/audio.git#egg=torchaudio\ncaptum==0.7\n"
    )
    assert rewritten("requirements.txt", text) == text
    found = reasons("requirements.txt", text)
    assert [(line, reason.partition(";")[0]) for line, _, reason in found] == [
        (1, "it is pinned by hash"),
        (3, "it is taken from a repository"),
        (4, "only captum.influence of it is here, as flambeau-influence"),
    ]


PYPROJECT = """\
[build-system]
requires = ["setuptools", "torchvision>=0.1"]

[project]
name = "torchvision"
dependencies = [
    "torch>=2",  # kept
    'torchaudio>=2; sys_platform == "linux"',
    "torchvision",
]
keywords = ["torchvision"]

[project.optional-dependencies]
text = ["torchtext==0.17", "numpy"]

[dependency-groups]
dev = ["pytest", "tensordict"]

[tool.poetry.dependencies]
python = "^3.11"
torchrl = { version = "^0.4", optional = true }
"torchdata" = "0.7"

[tool.ruff.lint.isort]
known-third-party = ["torchvision"]
"""


def test_a_pyprojects_lists_of_every_kind_are_rewritten_and_nothing_else():
    text = rewritten("pyproject.toml", PYPROJECT)
    document = tomllib.loads(text)
    assert document["build-system"]["requires"] == ["setuptools", "flambeau-vision"]
    project = document["project"]
    assert (project["name"], project["keywords"]) == ("torchvision", ["torchvision"])
    assert project["dependencies"] == ["torch>=2", 'flambeau-audio; sys_platform == "linux"', "flambeau-vision"]
    assert project["optional-dependencies"] == {"text": ["flambeau-text", "numpy"]}
    assert document["dependency-groups"] == {"dev": ["pytest", "flambeau-data"]}
    assert document["tool"]["poetry"]["dependencies"] == {
        "python": "^3.11",
        "flambeau-rl": {"version": "*", "optional": True},
        "flambeau-data": "*",
    }
    assert document["tool"]["ruff"]["lint"]["isort"]["known-third-party"] == ["torchvision"]
    assert "# kept" in text


def test_a_setup_cfgs_lists_are_rewritten():
    text = (
        "[metadata]\nname = torchvision\n[options]\ninstall_requires =\n    torch\n    torchvision>=0.1\n"
        "packages =\n    torchaudio\n[options.extras_require]\nsound =\n    torchaudio\n"
    )
    assert rewritten("setup.cfg", text) == (
        "[metadata]\nname = torchvision\n[options]\ninstall_requires =\n    torch\n    flambeau-vision\n"
        "packages =\n    torchaudio\n[options.extras_require]\nsound =\n    flambeau-audio\n"
    )


def test_in_an_environment_of_conda_pips_part_is_rewritten_and_the_rest_reported():
    text = (
        "name: torchvision\nchannels:\n  - pytorch\ndependencies:\n  - python=3.11\n  - pytorch::torchvision=0.19\n"
        "  - pip:\n    - torchaudio==2.4\n    - numpy\n  - torchtext\n"
    )
    assert rewritten("environment.yml", text) == text.replace("torchaudio==2.4", "flambeau-audio")
    assert [(line, text) for line, text, _ in reasons("environment.yml", text)] == [
        (6, "pytorch::torchvision=0.19"),
        (10, "torchtext"),
    ]


@pytest.mark.parametrize(
    ("path", "lists"),
    [
        ("requirements.txt", True), ("requirements-dev.txt", True), ("dev-requirements.in", True),
        ("constraints.txt", True),
        ("requirements/gpu.txt", True), ("pyproject.toml", True), ("setup.cfg", True), ("environment.yaml", True),
        ("notes.txt", False), ("requirements.md", False), ("a.py", False),
    ],
)  # fmt: skip
def test_lists_of_requirements_are_known_by_their_names(tmp_path, path, lists):
    assert lists_requirements(tmp_path / path) == lists


def test_a_folder_is_migrated_with_its_requirements(tmp_path, capsys):
    tmp_path.joinpath("requirements.txt").write_text("torch\ntorchvision==0.19\n")
    tmp_path.joinpath("pyproject.toml").write_text("[project\n")

    assert main(["migrate", str(tmp_path), "--write", "--json"]) == 1

    report = json.loads(capsys.readouterr().out)
    done, broken = sorted(report["files"], key=lambda file: file["path"], reverse=True)
    assert done["changes"] == [{"line": 2, "before": "torchvision==0.19", "after": "flambeau-vision"}]
    assert report["distributions"] == ["flambeau-vision"]
    assert broken["error"]
    assert tmp_path.joinpath("requirements.txt").read_text() == "torch\nflambeau-vision\n"


def test_every_module_that_moves_has_its_distribution():
    packages = {".".join(target.split(".")[:2]) for target in MODULES.values()} - {"flambeau.influence"}
    assert packages <= set(DISTRIBUTIONS.values())

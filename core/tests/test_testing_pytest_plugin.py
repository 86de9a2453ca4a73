"""`pytest --flambeau-conformance`: one test per check and subject, whatever folder pytest runs in."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

MODELS = """
from flambeau.core.weights import register_model


@register_model()
def same(*, weights: None = None):
    import torch

    return torch.nn.Linear(2, 2)


@register_model()
def noisy(*, weights: None = None):
    import torch

    class Noisy(torch.nn.Linear):
        def forward(self, x):
            return super().forward(x) + torch.randn(2)

    return Noisy(2, 2)
"""
CONFORMANCE = """
def example_inputs(model_name, batch):
    import torch
    return (torch.ones(batch, 2),)

expected_failures = {"eval-deterministic:*/noisy": "noisy by design", "train-eval-switch:*/same": "long repaired"}
"""
RECORDS = [{"name": name, "target": f"alpha_plugin.models:{name}"} for name in ("same", "noisy")]


@pytest.fixture
def alpha(site: Any) -> Any:
    modules = {"models.py": MODELS, "conformance.py": CONFORMANCE}
    site.add("alpha", {"models": RECORDS, "conformance": "alpha_plugin.conformance"}, modules=modules)
    return site


def run_pytest(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "-rA", *options]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=240, env=dict(os.environ)
    )


def test_each_check_of_each_subject_is_a_test(alpha: Any, tmp_path: Path) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()

    done = run_pytest(folder, "--flambeau-conformance", "alpha", "-k", "train-eval-switch or eval-deterministic")

    assert "PASSED conformance::alpha::model::alpha/same::eval-deterministic" in done.stdout, done.stdout + done.stderr
    assert "XFAIL conformance::alpha::model::alpha/noisy::eval-deterministic - noisy by design" in done.stdout
    assert "FAILED conformance::alpha::model::alpha/same::train-eval-switch" in done.stdout
    assert "[XPASS(strict)] long repaired" in done.stdout
    assert "PASSED conformance::alpha::model::alpha/noisy::train-eval-switch" in done.stdout
    assert done.returncode == 1


def test_what_does_not_apply_is_skipped_and_findings_come_without_a_traceback(alpha: Any, tmp_path: Path) -> None:
    done = run_pytest(tmp_path, "--flambeau-conformance", "alpha", "-k", "noisy and (batch-sizes or weights-metadata)")

    assert "SKIPPED" in done.stdout
    assert "not applicable: the model has no weights." in done.stdout
    assert "the first of three differs" in done.stdout
    assert "Traceback" not in done.stdout


def test_the_project_s_own_tests_stay_out_unless_they_are_named(alpha: Any, tmp_path: Path) -> None:
    (tmp_path / "test_own.py").write_text("def test_own(): pass\n")
    options = ("--flambeau-conformance", "alpha", "-k", "own or eval-deterministic")

    alone, beside = run_pytest(tmp_path, *options), run_pytest(tmp_path, *options, "test_own.py")

    assert "test_own" not in alone.stdout
    assert "PASSED test_own.py::test_own" in beside.stdout
    assert "alpha/same::eval-deterministic" in beside.stdout


def test_a_plugin_that_is_not_there_is_a_usage_error(alpha: Any, tmp_path: Path) -> None:
    done = run_pytest(tmp_path, "--flambeau-conformance", "alhpa")

    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "plugin 'alhpa' is not installed" in done.stderr
    assert "alpha" in done.stderr


def test_a_conformance_module_that_cannot_be_imported_is_a_collection_error(alpha: Any, tmp_path: Path) -> None:
    (alpha.folder / "alpha_plugin/conformance.py").write_text("import alpha_plugin.absent")

    done = run_pytest(tmp_path, "--flambeau-conformance", "alpha")

    assert done.returncode == pytest.ExitCode.INTERRUPTED
    assert "ERROR conformance::alpha" in done.stdout, done.stdout
    assert "No module named 'alpha_plugin.absent'" in done.stdout
    assert "INTERNALERROR" not in done.stdout


def test_all_means_every_plugin(alpha: Any, tmp_path: Path) -> None:
    alpha.add("gamma", modules={"py.typed": ""})

    done = run_pytest(
        tmp_path, "--flambeau-conformance", "all", "--collect-only", "-k", "(alpha or gamma) and typed"
    )  # fmt: skip

    assert "conformance::alpha::plugin::alpha::typed" in done.stdout, done.stdout + done.stderr
    assert "conformance::gamma::plugin::gamma::typed" in done.stdout


def test_the_full_level_adds_checks(alpha: Any, tmp_path: Path) -> None:
    options = ("--flambeau-conformance", "alpha", "--collect-only", "-k", "compiles")

    assert "alpha/same::compiles" not in run_pytest(tmp_path, *options).stdout
    assert "alpha/same::compiles" in run_pytest(tmp_path, *options, "--flambeau-conformance-level", "full").stdout


def test_without_the_option_nothing_heavy_is_imported(tmp_path: Path) -> None:
    (tmp_path / "test_light.py").write_text(
        "import sys\n"
        "def test_light():\n"
        "    heavy = {'torch', 'numpy', 'pydantic', 'pluggy.none', 'hypothesis', 'flambeau.core.plugins'}\n"
        "    assert 'flambeau.core.testing.pytest_plugin' in sys.modules\n"
        "    assert heavy & set(sys.modules) == set()\n"
    )

    # Other packages' plugins, which import what they like.
    done = run_pytest(tmp_path, "-p", "no:hypothesispytest", "-p", "no:zarr", "test_light.py")

    assert done.returncode == 0, done.stdout


def test_without_torch_other_tests_run_and_the_option_says_what_is_missing(alpha: Any, tmp_path: Path) -> None:
    (alpha.folder / "torch.py").write_text("raise ImportError('torch is not here')\n")
    (tmp_path / "test_plain.py").write_text("def test_plain(): pass\n")

    assert run_pytest(tmp_path, "test_plain.py").returncode == 0
    done = run_pytest(tmp_path, "--flambeau-conformance", "alpha")
    assert done.returncode != 0
    assert "torch is not here" in done.stdout + done.stderr


def test_three_lines_of_a_test_file_expand_into_the_checks(alpha: Any, tmp_path: Path) -> None:
    (tmp_path / "test_conformance.py").write_text(
        "from flambeau.core.testing import parametrize_with_checks\n\n"
        "@parametrize_with_checks('alpha', kinds=['model'])\n"
        "def test_conformance(check):\n"
        "    check()\n"
    )

    done = run_pytest(tmp_path, "test_conformance.py", "-k", "eval-deterministic or train-eval-switch or in-channels")

    assert "PASSED test_conformance.py::test_conformance[alpha/same-eval-deterministic]" in done.stdout, done.stdout
    assert "XFAIL test_conformance.py::test_conformance[alpha/noisy-eval-deterministic]" in done.stdout
    assert "FAILED test_conformance.py::test_conformance[alpha/same-train-eval-switch]" in done.stdout
    assert "not applicable: neither its builder nor its registration has anything for in_channels" in done.stdout

"""The kit's checks of plugins as a whole: a sound plugin passes all, and each check catches one wrong its way."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flambeau.core.errors import PluginError
from flambeau.core.testing import Result, plugin_checks, run
from flambeau.core.testing.plugins import CHECKS, bind_plugin, check_plugin

MODELS = """
from flambeau.core.weights import register_model


@register_model(task="identity")
def same(*, weights: None = None):
    import torch

    return torch.nn.Identity()
"""
MANIFEST = {
    "models": [{"name": "same", "target": "alpha_plugin.models:same", "weights": None, "task": "identity", "tags": []}]
}


BUSY = "import time\nend = time.process_time() + 1\nwhile time.process_time() < end: pass"
EFFECTS = """
import os, socket, subprocess, sys, threading, time, warnings
import torch

open(__file__ + ".log", "w").close()
print("hello")
os.environ["A_B"] = "1"
torch.manual_seed(3)
torch.set_num_threads(7)
warnings.simplefilter("ignore")
threading.Thread(target=time.sleep, args=(1,)).start()
with socket.socket() as connection:
    connection.connect_ex(("127.0.0.1", 9))
subprocess.run([sys.executable, "-c", ""], check=True)
"""
OPERATOR = """
import torch

library = torch.library.Library("alpha_kit", "FRAGMENT")
library.define("bare(Tensor x) -> Tensor")
"""


def install(site: Any, *, init: str = "", models: str = MODELS, manifest: Any = MANIFEST, **modules: str) -> None:
    """A plugin `alpha`, sound but for what is given, with all that a wheel brings along."""
    files = {"__init__.py": init, "models.py": models, "py.typed": "", **modules}
    site.plugin("alpha", manifest=None, modules=files, **manifest)
    info = site.folder / "flambeau_alpha-1.0.dist-info"
    header = "Metadata-Version: 2.4\nName: flambeau-alpha\nVersion: 1.0\n"
    info.joinpath("METADATA").write_text(f"{header}License-Expression: MIT\nLicense-File: LICENSE\n")
    info.joinpath("licenses").mkdir()
    info.joinpath("licenses/LICENSE").write_text("MIT")
    info.joinpath("RECORD").write_text(f"{info.name}/licenses/LICENSE,,\n{info.name}/METADATA,,\n")
    site.discover()


def asked(check: str) -> Result:
    [result] = run(one for one in bind_plugin("alpha") if one.check == check)
    return result


def test_a_sound_plugin_passes_every_check(site: Any) -> None:
    install(site)
    written = json.loads((site.folder / "alpha_plugin/flambeau_plugin.json").read_text())
    site.run("-m", "flambeau.core.manifest", "build", "alpha_plugin")
    site.discover()

    results = check_plugin("alpha")

    wrong = {result.check: str(result) for result in results if result.status != "passed"}
    assert wrong.keys() == {"operators-sampled"}, wrong
    assert len(results) == len(CHECKS.checks)
    assert written["models"][0]["name"] == "same"


@pytest.mark.parametrize(
    ("fault", "check", "finding"),
    [
        ({"manifest": {**MANIFEST, "home_page": "nowhere"}}, "manifest-valid", "home_page"),
        ({"manifest": {"models": []}}, "manifest-up-to-date", "would change it"),
        ({"models": MODELS.replace("def same", "def other")}, "references-resolve", "models: same"),
        ({"models": "same = 1"}, "references-resolve", "not callable"),
        ({"models": "import alpha_plugin.absent"}, "references-resolve", "cannot be resolved"),
        ({"models": "import beta_plugin"}, "loads-alone", "No module named 'beta_plugin'"),
        ({"init": "import numpy"}, "light-front-door", "imports numpy"),
        ({"init": "raise RuntimeError('no')"}, "light-front-door", "RuntimeError: no"),
        ({"init": BUSY}, "import-time", "at most"),
    ],
)  # fmt: skip
def test_a_faulty_plugin_is_caught(site: Any, fault: dict[str, Any], check: str, finding: str) -> None:
    install(site, **fault)

    result = asked(check)

    assert result.status == "failed", result
    assert finding in result.message


def test_each_side_effect_of_an_import_is_caught(site: Any) -> None:
    install(site, models=MODELS + EFFECTS)

    result = asked("no-import-side-effects")

    assert result.status == "failed", result
    for effect in (
        "models.py.log for writing", "connects to ('127.0.0.1', 9)", "changes environment variables",
        "changes torch's random state", "changes torch's number of threads", "changes warning filters",
        "starts a thread", "prints 'hello'", "runs '",
    ):  # fmt: skip
        assert effect in result.message


def test_an_import_that_fails_is_shown(site: Any) -> None:
    install(site, models="raise RuntimeError('not today')")

    assert "RuntimeError: not today" in asked("no-import-side-effects").message


def test_a_plugin_without_type_marker_is_caught(site: Any) -> None:
    install(site)
    (site.folder / "alpha_plugin/py.typed").unlink()

    assert "no py.typed" in asked("typed").message


@pytest.mark.parametrize(
    ("metadata", "finding"),
    [
        ("License-File: LICENSE\n", "names no licence"),
        ("License-Expression: MIT\nLicense-File: COPYING\n", "['COPYING']"),
    ],
)
def test_missing_licences_are_caught(site: Any, metadata: str, finding: str) -> None:
    install(site)
    info = site.folder / "flambeau_alpha-1.0.dist-info"
    info.joinpath("METADATA").write_text(f"Metadata-Version: 2.4\nName: flambeau-alpha\nVersion: 1.0\n{metadata}")

    result = asked("licence-files")

    assert result.status == "failed"
    assert finding in result.message


def test_a_distribution_without_the_licence_s_text_is_caught(site: Any) -> None:
    install(site)
    info = site.folder / "flambeau_alpha-1.0.dist-info"
    info.joinpath("RECORD").write_text(f"{info.name}/METADATA,,\n")

    assert "carries no licence file" in asked("licence-files").message


def test_an_operator_without_a_sample_is_caught(site: Any) -> None:
    kernels = [{"namespace": "alpha_kit", "library": "_kernels", "package": "alpha_plugin"}]
    install(site, models=MODELS + OPERATOR, manifest={**MANIFEST, "kernels": kernels})

    result = asked("operators-sampled")

    assert result.status == "failed", result
    assert "alpha_kit::bare" in result.message


def test_a_plugin_that_is_not_installed_cannot_be_checked(site: Any) -> None:
    with pytest.raises(PluginError, match="no plugin 'absent'"):
        check_plugin("absent")


CONFORMANCE = """
def example_inputs(model_name, batch):
    import torch
    return (torch.ones(batch, 2),)

expected_failures = {"gradients-reach-parameters:alpha/*": "it has no parameters", "no-such:alpha/same": "gone"}
"""


def test_all_checks_of_a_plugin_come_from_its_conformance_module(site: Any) -> None:
    install(site, manifest={**MANIFEST, "conformance": "alpha_plugin.conformance"}, **{"conformance.py": CONFORMANCE})

    results = {(r.subject, r.check): r for r in run(plugin_checks("alpha", kinds=("model",)))}

    assert results["alpha/same", "batch-sizes"].status == "passed"
    assert {subject for subject, _ in results} == {"alpha/same"}
    assert results["alpha/same", "gradients-reach-parameters"].status in ("xfailed", "not-applicable", "xpassed")


def test_a_declared_failure_of_a_check_there_is_not_is_caught(site: Any) -> None:
    install(site, manifest={**MANIFEST, "conformance": "alpha_plugin.conformance"}, **{"conformance.py": CONFORMANCE})

    [result] = run(one for one in plugin_checks("alpha") if one.check == "expected-failures-known")

    assert result.status == "failed"
    assert "'no-such:alpha/same' names no check" in result.message


def test_kinds_are_known(site: Any) -> None:
    install(site)

    with pytest.raises(ValueError, match="no subjects of kind 'modles'"):
        plugin_checks("alpha", kinds=("modles",))

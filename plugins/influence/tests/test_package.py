"""The package itself: light to import, with captum's names and signatures."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys

import pytest

from flambeau.core.testing.golden import upstream_facts

UPSTREAM = upstream_facts("api", __file__)


def test_the_package_imports_without_torch():
    code = "import flambeau.influence, sys; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("module", UPSTREAM["modules"])
def test_names_and_arguments_are_upstreams(module):
    ours = importlib.import_module(module.replace("captum", "flambeau", 1))
    for name, about in UPSTREAM["modules"][module].items():
        value = getattr(ours, name)
        for method, expected in about.get("signatures", {}).items():
            found = inspect.signature(getattr(value, method) if inspect.isclass(value) else value)
            expected = [parameter for parameter in expected if parameter not in ("args", "kwargs")]
            assert [parameter for parameter in found.parameters if parameter in expected] == expected, (name, method)

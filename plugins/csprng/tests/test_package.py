"""The package itself: light to import, truthful about what it holds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import flambeau.csprng as csprng
from flambeau.csprng._calls import SUPPORTED

ROOT = Path(__file__).parents[1]


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_package_imports_without_torch():
    assert run("import flambeau.csprng, sys; print('torch' in sys.modules)") == "False"


def test_operators_are_found_by_their_names_alone():
    code = """
import flambeau.csprng, torch
key = torch.zeros(16, dtype=torch.uint8)
print(torch.ops.flambeau_csprng.random_words(key, 0, 1).tolist())
"""
    assert run(code) == "[4263935709876578662]"


def test_every_operator_is_announced_with_the_module_that_registers_it():
    code = """
import importlib
from flambeau.csprng.ops._announced import OPERATORS
from flambeau.csprng.ops._library import LIBRARY
for name, module in OPERATORS.items():
    importlib.import_module(module)
    assert name in LIBRARY.operators, (name, module)
print(sorted(set(LIBRARY.operators) - set(OPERATORS)))
"""
    assert run(code) == "[]"


def test_upstreams_names_are_there():
    names = {"aes128_key_tensor", "create_mt19937_generator", "create_random_device_generator", "decrypt", "encrypt"}
    assert names | {"supports_cuda"} <= set(csprng.__all__)
    assert csprng.__version__ and csprng.git_version
    assert csprng.supports_cuda() in (True, False)


def test_the_readme_names_every_call_that_takes_a_generator():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [name for name in SUPPORTED if f"`{name.rpartition('.')[2]}`" not in readme] == []

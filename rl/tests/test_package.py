"""The package itself: light to import, truthful about what it holds."""

from __future__ import annotations

import subprocess
import sys


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_package_imports_without_torch():
    assert run("import flambeau.rl, sys; print('torch' in sys.modules)") == "False"


def test_operators_are_found_by_their_names_alone():
    code = """
import flambeau.rl, sys
assert 'torch' not in sys.modules
import torch
assert 'flambeau.rl.ops.recursion' not in sys.modules
print(torch.ops.flambeau_rl.backward_recursion(torch.ones(1, 2, 1), torch.ones(1, 2, 1)).flatten().tolist())
"""
    assert run(code) == "[2.0, 1.0]"


def test_every_operator_is_announced_with_the_module_that_registers_it():
    code = """
import importlib, pkgutil
import flambeau.rl.ops
from flambeau.rl.ops._announced import OPERATORS
from flambeau.rl.ops._library import LIBRARY
for name, module in OPERATORS.items():
    importlib.import_module(module)
    assert name in LIBRARY.operators, (name, module)
for module in pkgutil.iter_modules(flambeau.rl.ops.__path__, 'flambeau.rl.ops.'):
    if not module.name.endswith('_triton'):
        importlib.import_module(module.name)
print(sorted(set(LIBRARY.operators) - set(OPERATORS)))
"""
    assert run(code) == "[]"

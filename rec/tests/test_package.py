"""The package itself: light to import, truthful about what it holds."""

from __future__ import annotations

import subprocess
import sys


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_package_imports_without_torch():
    assert run("import flambeau.rec, sys; print('torch' in sys.modules)") == "False"


def test_sparse_types_fulfil_the_contract_of_jagged_data():
    code = """
import torch
from flambeau.data.jagged import Jagged
from flambeau.rec import JaggedTensor, KeyedJaggedTensor
j = JaggedTensor(torch.arange(3), lengths=torch.tensor([2, 1]))
k = KeyedJaggedTensor(['a'], torch.arange(3), lengths=torch.tensor([2, 1]))
print(isinstance(j, Jagged), isinstance(k, Jagged))
"""
    assert run(code) == "True True"

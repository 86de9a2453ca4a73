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


def test_operators_are_found_by_their_names_alone():
    code = """
import flambeau.rec, sys
assert 'torch' not in sys.modules
import torch
assert 'flambeau.rec.ops.ranges' not in sys.modules
print(torch.ops.flambeau_rec.offsets_range(torch.tensor([0, 2]), 3).tolist())
"""
    assert run(code) == "[0, 1, 0]"


def test_every_operator_is_announced_with_the_module_that_registers_it():
    code = """
import importlib, pkgutil
import flambeau.rec.ops
from flambeau.rec.ops._announced import OPERATORS
from flambeau.rec.ops._library import LIBRARY
for name, module in OPERATORS.items():
    importlib.import_module(module)
    assert name in LIBRARY.operators, (name, module)
for module in pkgutil.iter_modules(flambeau.rec.ops.__path__, 'flambeau.rec.ops.'):
    if not module.name.endswith('_triton'):
        importlib.import_module(module.name)
print(sorted(set(LIBRARY.operators) - set(OPERATORS)))
"""
    assert run(code) == "[]"


def test_programs_for_fbgemm_find_its_namespace():
    code = """
import torch, flambeau.rec
flambeau.rec.register_fbgemm_namespace()
flambeau.rec.register_fbgemm_namespace()
print(torch.ops.fbgemm.offsets_range(torch.tensor([0, 2]), 3).tolist())
x = torch.ones(2, 1, requires_grad=True)
torch.ops.fbgemm.index_select_dim0(x, torch.tensor([0, 0])).sum().backward()
print(x.grad.flatten().tolist())
compiled = torch.compile(lambda t: torch.ops.fbgemm.invert_permute(t) + 1, fullgraph=True, backend='aot_eager')
print(compiled(torch.tensor([1, 0, 2])).tolist())
"""
    assert run(code).splitlines() == ["[0, 1, 0]", "[2.0, 0.0]", "[2, 1, 3]"]


def test_fbgemms_python_names_load_when_they_are_used():
    code = """
import pkgutil, sys
import flambeau.rec.fbgemm_gpu as fbgemm_gpu
assert 'torch' not in sys.modules
for module in pkgutil.iter_modules(fbgemm_gpu.__path__):
    if not module.name.startswith('_'):
        getattr(fbgemm_gpu, module.name)
print('torch' in sys.modules)
"""
    assert run(code) == "True"

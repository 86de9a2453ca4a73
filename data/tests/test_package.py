"""The package itself: light to import."""

import os
import subprocess
import sys

import pytest


def test_importing_the_package_loads_neither_torch_nor_numpy_nor_polars():
    code = "import flambeau.data, sys; print({'torch', 'numpy', 'polars', 'pyarrow'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, "set()"), done.stderr


FIRST = """
import importlib, os, pkgutil, sys, torch
import flambeau.data.tensordict as package

failed = []
for info in pkgutil.iter_modules(package.__path__):
    if not (child := os.fork()):  # torch is there already; nothing of ours is
        try:
            importlib.import_module(f"{package.__name__}.{info.name}")
        except ImportError as error:  # of an extra
            os._exit(0 if error.name and not error.name.startswith("flambeau") else 1)
        except BaseException:
            os._exit(1)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        failed.append(info.name)
print(failed)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform cannot fork")
def test_every_module_of_tensordicts_may_be_imported_first():
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", FIRST], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr

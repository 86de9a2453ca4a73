"""A third party's kernel library, compiled for the tests, and Python processes that use it in one tier or another."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flambeau.core.native import include_dir

HERE = Path(__file__).parent


def compile_library(source: Path, target: Path, *options: str) -> Path:
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++")
    if not compiler:
        pytest.skip("needs a C++ compiler")
    target.parent.mkdir(parents=True, exist_ok=True)
    words = ["-std=c++17", "-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror", *options]
    links = ["-Wl,--as-needed", "-ldl"] if sys.platform == "linux" else []
    command = [compiler, *words, f"-I{include_dir()}", str(source), "-o", str(target), *links]
    subprocess.run(command, check=True, timeout=120)
    return target


@pytest.fixture(scope="session")
def compile_cpp() -> Callable[..., Path]:
    """`compile_cpp(source, target, *options)` makes a shared library against `flambeau/kernel.h`."""
    return compile_library


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder to import `toy_kernels` from: the operators of toy_ops.py over the library of toy.cpp."""
    folder = tmp_path_factory.mktemp("toy")
    suffix = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")
    compile_library(HERE / "toy.cpp", folder / "toy_kernels" / f"_kernels{suffix}")
    shutil.copy(HERE / "toy_ops.py", folder / "toy_kernels" / "__init__.py")
    return folder


@pytest.fixture(scope="session")
def run_python() -> Callable[..., Any]:
    """`run_python(code, folder, **environment)`: what the code in a new process prints, read as JSON."""

    def run(code: str, folder: Path, timeout_s: float = 120, **environment: str) -> Any:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", code],
            env={**os.environ, "PYTHONPATH": str(folder), **environment},
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run

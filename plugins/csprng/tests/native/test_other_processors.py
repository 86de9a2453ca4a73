"""The native kernels built for AArch64 and run in an emulator of it: what they give, bit by bit."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from flambeau.core.native import include_dir
from flambeau.csprng.ops.random_numbers import fill_normal

SOURCES = Path(__file__).parents[2] / "native"
FLAGS = [
    "-std=c++17",
    "-O2",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-ffp-contract=off",
    "-fno-exceptions",
    "-Wall",
    "-static",
]
KEY = bytes((7 * i + 3) % 256 for i in range(32))
MESSAGE = bytes((i * i + 5 * i) % 256 for i in range(16 * 37))


@pytest.fixture(scope="module", params=["cortex-a72", "max"])
def printed(request, tmp_path_factory):
    """What the program prints on a processor: (implementation, what, bytes of the key) -> bytes."""
    compiler, emulator = shutil.which("aarch64-linux-gnu-g++"), shutil.which("qemu-aarch64-static")
    if compiler is None or emulator is None:
        pytest.skip("needs aarch64-linux-gnu-g++ and qemu-aarch64-static")
    program = tmp_path_factory.mktemp("aarch64") / "kernels"
    names = ("aes_bitsliced", "aes_instructions", "engines", "normal_numbers")
    sources = [*(SOURCES / f"{name}.cpp" for name in names), Path(__file__).with_name("kernels_of_a_processor.cpp")]
    command = [compiler, *FLAGS, f"-I{SOURCES}", f"-I{include_dir()}", *map(str, sources), "-o", str(program)]
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    done = subprocess.run(
        [emulator, "-cpu", request.param, str(program)], check=True, capture_output=True, text=True, timeout=100
    )
    lines = [line.split("|") for line in done.stdout.splitlines()]
    return {(engine, what, int(size)): bytes.fromhex(found) for engine, what, size, found in lines}


@pytest.mark.slow
def test_aes_by_the_instructions_of_aarch64_is_that_of_the_standard(printed):
    # Emulated processors have the instructions; so does the dispatch have to say.
    assert {engine for engine, _, _ in printed} == {"bitsliced", "AES instructions", "normal"}
    for engine in ("bitsliced", "AES instructions"):
        for size in (16, 24, 32):
            cipher = Cipher(algorithms.AES(KEY[:size]), modes.ECB()).encryptor()
            assert printed[engine, "encrypt", size] == cipher.update(MESSAGE), (engine, size)
            assert printed[engine, "decrypt", size] == MESSAGE, (engine, size)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_normal_numbers_are_the_same_bits_on_other_processors(printed, dtype):
    expected = torch.empty(101, dtype=dtype)
    fill_normal(expected, torch.tensor(list(KEY[:16]), dtype=torch.uint8), 1.0, 2.0)
    found = printed["normal", str(dtype).removeprefix("torch."), 16]
    assert found == expected.numpy().tobytes()

"""The Triton kernels against the references, in Triton's interpreter."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys

import pytest

COMPARE = """
import contextlib, json, torch
from flambeau.csprng.ops import _aes_triton as kernels, crypt, random_numbers as numbers

kernels._on = lambda device: contextlib.nullcontext()
differ, generator = [], torch.Generator().manual_seed(0)
def draw(count):
    return torch.randint(256, (count,), dtype=torch.uint8, generator=generator)
for size in (16, 24, 32):
    for method in (crypt.ECB_ENCRYPT, crypt.ECB_DECRYPT, crypt.CTR_DECRYPT):
        for count, iv in ((13 * 16, draw(16)),) if method == crypt.CTR_DECRYPT else ((13 * 16, None),):
            key, text = draw(size), draw(count)
            got, expected = torch.zeros_like(text), torch.zeros_like(text)
            kernels.crypt(text, got, key, size, method, iv)
            crypt._reference(text, expected, key, size, method, iv)
            if not torch.equal(got, expected):
                differ.append(["crypt", size, method, count])
key = draw(16)
for dtype in (torch.int32,):
    got, expected = torch.zeros(7, dtype=dtype), torch.zeros(7, dtype=dtype)
    kernels.fill_integers(got, key, 4, 3 << 30, 1, True)
    numbers._integers(expected, key, 4, 3 << 30, 1, True)
    if not torch.equal(got, expected):
        differ.append(["integers", str(dtype)])
got, expected = torch.zeros(5, 5), torch.zeros(5, 5)
kernels.fill_uniform(got, key, -1.0, 2.0, 1.0)
numbers._uniform(expected, key, -1.0, 2.0, 1.0)
if not torch.equal(got, expected):
    differ.append(["uniform"])
got, expected = torch.zeros(5, 5), torch.zeros(5, 5)
kernels.fill_normal(got, key, 1.0, 2.0)
numbers._normal(expected, key, 1.0, 2.0)
if not torch.equal(got, expected):
    differ.append(["normal"])
if not torch.equal(kernels.random_words(key, 3, 9), numbers._random_words(key, 3, 9)):
    differ.append(["words"])
print(json.dumps(differ))
"""


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs Triton, whose interpreter needs no GPU")
def test_the_triton_kernels_give_the_references_bytes():
    done = subprocess.run(
        [sys.executable, "-c", COMPARE],
        capture_output=True, text=True, timeout=280, env={**os.environ, "TRITON_INTERPRET": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    assert json.loads(done.stdout.splitlines()[-1]) == []

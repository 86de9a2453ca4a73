"""Memory of tables on large pages: the same numbers, and nothing that is not a plain tensor of the CPU is touched."""

from __future__ import annotations

import mmap

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from flambeau.rec.ops import _large_pages

LARGE = 3 << 20  # float32 numbers: 12 MiB


@pytest.fixture
def asked(monkeypatch):
    """What the system was asked for."""
    calls: list[tuple[int, int, int]] = []
    monkeypatch.setattr(mmap, "MADV_HUGEPAGE", 14, raising=False)
    monkeypatch.setattr(_large_pages, "_advise", lambda: lambda *call: calls.append(call) or 0)
    return calls


def test_large_memory_is_asked_for_whole_pages_inside_of_it(asked):
    made = _large_pages.zeros(LARGE, dtype=torch.float32, device=torch.device("cpu"))
    (begin, size, _), *rest = asked
    assert begin % mmap.PAGESIZE == size % mmap.PAGESIZE == 0
    assert made.data_ptr() <= begin < begin + size <= made.data_ptr() + 4 * LARGE
    assert not rest
    assert not made.any()


def test_pages_that_are_filled_already_are_joined(asked):
    _large_pages.on_large_pages(torch.ones(LARGE), filled=True)
    assert [call[2] for call in asked] == [14, 25]


def test_numbers_stay_what_they_are():
    numbers = torch.arange(LARGE, dtype=torch.float32)
    assert _large_pages.on_large_pages(numbers, filled=True) is numbers
    torch.testing.assert_close(numbers, torch.arange(LARGE, dtype=torch.float32), rtol=0, atol=0)


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_small_memory_and_other_devices_are_left_alone(asked, device):
    _large_pages.zeros(8 if device == "cpu" else LARGE, dtype=torch.float32, device=torch.device(device))
    assert not asked


def test_fake_tensors_are_left_alone(asked):
    with FakeTensorMode():
        _large_pages.zeros(LARGE, dtype=torch.float32, device=torch.device("cpu"))
    assert not asked


def test_a_system_without_large_pages_changes_nothing(monkeypatch):
    monkeypatch.setattr(_large_pages, "_advise", lambda: None)
    assert _large_pages.zeros(LARGE, dtype=torch.uint8, device=torch.device("cpu")).shape == (LARGE,)

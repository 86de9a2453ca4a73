"""A saved tensordict that some processes replace while others load it."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from flambeau.data.tensordict import TensorDict
from flambeau.data.tensordict.memmap import loading
from flambeau.data.tensordict.memmap.errors import LayoutError

WRITER = """
import pathlib, sys, time, torch
from flambeau.data.tensordict import TensorDict
torch.set_num_threads(1)
for version in range(1, 61):
    data = {f"k{index}": torch.full((100,), version) for index in range(20)}
    TensorDict({**data, "n": {"deep": torch.full((5,), version)}, "v": version}).memmap(sys.argv[1])
    end = time.monotonic() + 60
    while version == 30 and not pathlib.Path(sys.argv[2]).exists() and time.monotonic() < end:  # a reader has met one
        time.sleep(0.01)
"""


def test_readers_see_whole_versions_and_never_go_back(tmp_path):
    TensorDict({f"k{index}": torch.zeros(100, dtype=torch.int64) for index in range(20)}).memmap(tmp_path)
    met = tmp_path.with_name("met")
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), str(met)])
    seen = [0]
    while writer.poll() is None or seen[-1] < 60:
        td = TensorDict.load_memmap(tmp_path)
        found = {int(value.unique().item()) for value in td.values(True, True)}
        assert len(found) == 1, f"a mixture of the versions {sorted(found)}"
        seen.append(found.pop())
        if 0 < seen[-1] < 60:
            met.touch()
        if writer.poll() is not None and seen[-1] != 60:
            break
    assert writer.wait() == 0 and seen == sorted(seen) and seen[-1] == 60
    assert len(set(seen)) > 2  # some were loaded between


def test_a_reader_that_never_meets_a_whole_version_gives_up_with_advice(tmp_path, monkeypatch):
    TensorDict({"a": torch.zeros(3)}).memmap(tmp_path)
    monkeypatch.setattr(loading, "_settled", lambda *_: False)  # somebody wrote meanwhile, every time
    monkeypatch.setattr(loading, "_PATIENCE_S", 0.05)
    with pytest.raises(LayoutError, match=r"replaced again and again .* between two writes"):
        TensorDict.load_memmap(tmp_path)

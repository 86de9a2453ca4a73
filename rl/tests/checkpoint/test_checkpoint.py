"""Checkpoints: what comes back, what is damaged, what is kept, and what a killed process leaves."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
import zipfile
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from flambeau.data.tensordict import TensorDict
from flambeau.rl.checkpoint import (
    Checkpoint,
    CheckpointError,
    CheckpointOptions,
    CheckpointRotation,
    GlobalRNGState,
    StateDictCheckpointAdapter,
)
from flambeau.rl.data import LazyTensorStorage, ReplayBuffer


class Holder:
    """Something with a state of any kind."""

    def __init__(self, state=None):
        self.state = state

    def state_dict(self):
        return self.state

    def load_state_dict(self, state):
        self.state = state


def trained():
    network = nn.Linear(2, 1)
    optimizer = torch.optim.Adam(network.parameters())
    network(torch.ones(2)).sum().backward()
    optimizer.step()
    return network, optimizer


@pytest.mark.parametrize("form", ["directory", "archive"])
def test_everything_comes_back(tmp_path, form):
    network, optimizer = trained()
    buffer = ReplayBuffer(storage=LazyTensorStorage(4))
    buffer.extend(torch.arange(3))
    path = Checkpoint(net=network, opt=optimizer, buffer=buffer, step=7, format=form).save(tmp_path / "checkpoint")

    other, fresh = nn.Linear(2, 1), ReplayBuffer(storage=LazyTensorStorage(4))
    again = torch.optim.Adam(other.parameters())
    result = Checkpoint(net=other, opt=again, buffer=fresh, step=0).load(path)
    torch.testing.assert_close(other.weight, network.weight, rtol=0, atol=0)
    torch.testing.assert_close(again.state[other.weight]["exp_avg"], optimizer.state[network.weight]["exp_avg"])
    assert fresh[:].tolist() == [0, 1, 2]
    assert (result.loaded, result.values) == ({"net", "opt", "buffer", "step"}, {"step": 7})


@pytest.mark.parametrize(
    "state",
    [
        {"numbers": [1, 2.5, True, None], 3: "three", (1, 2): {"deep": ()}},
        OrderedDict(a=1),
        {"size": torch.Size([1, 2]), "dtype": torch.bfloat16, "device": torch.device("cpu"), "slice": slice(0, 3)},
        {"bytes": b"\0a", "complex": 1j, "set": {1, 2}, "path": Path("a/b"), "scalar": np.float32(0.5)},
        {"infinite": float("inf")},
    ],
    ids=str,
)
def test_states_may_hold_more_than_tensors(tmp_path, state):
    path = Checkpoint(x=Holder(state)).save(tmp_path / "c")
    back = Holder()
    Checkpoint(x=back).load(path)
    assert back.state == state
    assert type(back.state) is type(state)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8, torch.bool])
@pytest.mark.parametrize("shape", [(), (0,), (2, 3)])
def test_tensors_come_back_of_every_type_and_shape(tmp_path, dtype, shape):
    given = torch.ones(shape).to(dtype)
    back = Holder()
    Checkpoint(x=back).load(Checkpoint(x=Holder({"t": given})).save(tmp_path / "c"))
    torch.testing.assert_close(back.state["t"], given, rtol=0, atol=0)


def test_tensordicts_come_back_as_tensordicts(tmp_path):
    given = TensorDict({"a": {"b": torch.ones(2, 3)}}, [2])
    back = Holder()
    Checkpoint(x=back).load(Checkpoint(x=Holder({"root": given})).save(tmp_path / "c"))
    assert back.state["root"].batch_size == (2,)
    assert bool((back.state["root"] == given).all())


def test_arrays_come_back_as_arrays(tmp_path):
    back = Holder()
    Checkpoint(x=back).load(Checkpoint(x=Holder({"a": np.arange(3, dtype=np.uint32)})).save(tmp_path / "c"))
    assert back.state["a"].dtype == np.uint32
    assert back.state["a"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("payload", ["directory", "archive", "consolidated", "torch"])
def test_every_format_of_states_is_recognized(tmp_path, payload):
    network, other = nn.Linear(2, 1), nn.Linear(2, 1)
    checkpoint = Checkpoint().register("net", network, adapter=StateDictCheckpointAdapter(payload))
    Checkpoint(net=other).load(checkpoint.save(tmp_path / "c"))
    torch.testing.assert_close(other.weight, network.weight, rtol=0, atol=0)


def test_what_was_loaded_is_not_tied_to_the_files(tmp_path):
    path = Checkpoint(x=Holder({"t": torch.ones(3)})).save(tmp_path / "c")
    first, second = Holder(), Holder()
    Checkpoint(x=first).load(path)
    first.state["t"].zero_()
    Checkpoint(x=second).load(path)
    assert second.state["t"].tolist() == [1, 1, 1]


def test_random_numbers_go_on(tmp_path):
    path = Checkpoint(rng=GlobalRNGState()).save(tmp_path / "c")
    numbers = [random.random(), float(np.random.rand()), float(torch.rand(()))]
    Checkpoint(rng=GlobalRNGState()).load(path)
    assert [random.random(), float(np.random.rand()), float(torch.rand(()))] == numbers


def test_objects_without_a_form_are_refused_with_the_way_out(tmp_path):
    with pytest.raises(TypeError, match=r"StateDictCheckpointAdapter\(payload_format='torch'\)"):
        Checkpoint(x=Holder({"o": object()})).save(tmp_path / "c")
    with pytest.raises(TypeError, match="cannot be part of a checkpoint"):
        Checkpoint(x=object()).save(tmp_path / "c")
    assert list(tmp_path.iterdir()) == []


def test_parts_are_written_and_restored_by_name(tmp_path):
    checkpoint = Checkpoint(a=1, b=2, c=3, save_components=["a", "b"])
    path = checkpoint.save(tmp_path / "c")
    result = checkpoint.load(path, components=["a"])
    assert (result.values, result.unrequested) == ({"a": 1}, {"b"})
    with pytest.raises(KeyError, match=r"no components \['d'\]"):
        checkpoint.load(path, components=["d"])


def test_what_is_missing_or_does_not_fit_is_told(tmp_path):
    path = Checkpoint(net=nn.Linear(2, 1)).save(tmp_path / "c")
    with pytest.raises(CheckpointError, match=r"no components \['more'\]") as caught:
        Checkpoint(net=nn.Linear(2, 1), more=1).load(path)
    assert caught.value.result.missing == {"more"}
    with pytest.raises(CheckpointError, match=r"'net' cannot be restored[\s\S]*size mismatch"):
        Checkpoint(net=nn.Linear(3, 1)).load(path)
    result = Checkpoint(net=nn.Linear(3, 1), more=1).load(path, strict="ignore")
    assert (result.missing, set(result.incompatible)) == ({"more"}, {"net"})
    with pytest.warns(UserWarning, match="restored in part"):
        Checkpoint(net=nn.Linear(3, 1), strict="warn").load(path)


def test_options_reach_the_methods_of_components(tmp_path):
    network = nn.Linear(2, 1)
    path = Checkpoint().register("net", network).save(tmp_path / "c")
    other = nn.Sequential(nn.Linear(2, 1))
    loose = CheckpointOptions(load_kwargs={"strict": False})
    assert Checkpoint(net=other).load(path, component_options={"net": loose}).loaded == {"net"}
    assert loose.merged(CheckpointOptions(load_kwargs={"assign": True})).load_kwargs == {
        "strict": False,
        "assign": True,
    }


def test_other_things_are_not_overwritten(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="with other things in it"):
        Checkpoint(a=1).save(tmp_path)
    assert (tmp_path / "mine.txt").read_text() == "mine"


def test_truncated_files_are_noticed(tmp_path):
    path = Checkpoint(net=nn.Linear(2, 1)).save(tmp_path / "c")
    file = next(path.rglob("*.memmap"))
    file.write_bytes(file.read_bytes()[:2])
    with pytest.raises(CheckpointError, match="has 2 bytes, expected"):
        Checkpoint(net=nn.Linear(2, 1)).load(path)


@pytest.mark.parametrize("place", ["../../outside", "/etc", "components/../.."])
def test_descriptions_cannot_lead_out_of_the_checkpoint(tmp_path, place):
    path = Checkpoint(a=1).save(tmp_path / "c")
    manifest = json.loads((path / "manifest.json").read_text())
    manifest["components"]["a"]["path"] = place
    (path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(CheckpointError, match="cannot be followed"):
        Checkpoint(a=0).load(path)


def test_archives_cannot_write_outside(tmp_path):
    path = Checkpoint(a=1, format="archive").save(tmp_path / "c.torchrl")
    with zipfile.ZipFile(path) as archive:
        manifest = json.loads(archive.read("manifest.json"))
    manifest["components"]["a"]["files"] = ["../../../evil"]
    with zipfile.ZipFile(tmp_path / "evil.torchrl", "w") as archive:
        archive.writestr("manifest.json", json.dumps(manifest))
        archive.writestr("components/0000-a/../../../evil", "x")
    with pytest.raises(CheckpointError, match="cannot be followed"):
        Checkpoint(a=0).load(tmp_path / "evil.torchrl")


def test_newer_formats_are_refused_until_there_is_a_migration(tmp_path, monkeypatch):
    path = Checkpoint(a=1).save(tmp_path / "c")
    manifest = json.loads((path / "manifest.json").read_text()) | {"format_version": 0}
    (path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(CheckpointError, match="has format 0"):
        Checkpoint.manifest(path)
    monkeypatch.setattr(Checkpoint, "_migrations", {})
    Checkpoint.register_migration(0, lambda old: old | {"format_version": 1})
    assert Checkpoint(a=0).load(path).values == {"a": 1}


@pytest.mark.parametrize("content", [None, "", "{}", "[]"])
def test_what_is_no_checkpoint_is_recognized(tmp_path, content):
    if content is not None:
        (tmp_path / "manifest.json").write_text(content)
    assert not Checkpoint.is_checkpoint(tmp_path)
    assert not Checkpoint.is_checkpoint(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Checkpoint(format="zip"), ValueError, "format must be one of"),
        (lambda: Checkpoint(strict="yes"), ValueError, "strict must be one of"),
        (lambda: Checkpoint(**{"": 1}), ValueError, "not empty"),
        (lambda: Checkpoint(**{"a/b": 1}), ValueError, "no separators"),
        (lambda: Checkpoint(a=1).register("a", 2), KeyError, "already"),
        (lambda: CheckpointRotation("x", keep_last=0), ValueError, "keep_last must be 1 or more"),
        (lambda: CheckpointRotation("x", keep_last=1, keep_best=("a", "most")), ValueError, "'min' or 'max'"),
        (lambda: StateDictCheckpointAdapter("zip"), ValueError, "payload_format must be one of"),
    ],
)
def test_arguments_are_checked(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_the_newest_and_the_best_are_kept(tmp_path):
    rotation = CheckpointRotation(tmp_path, keep_last=2, keep_best=("reward", "max"))
    for step, reward in ((1, 5.0), (2, 9.0), (3, 1.0), (4, 2.0)):
        rotation.save(Checkpoint(step=step), step=step, metadata={"reward": reward})
    assert [int(path.name[-12:]) for path in rotation.checkpoints()] == [2, 3, 4]
    assert rotation.best().name.endswith("2")
    assert rotation.load_latest(Checkpoint(step=0)).values == {"step": 4}


def test_damaged_checkpoints_are_passed_over(tmp_path):
    rotation = CheckpointRotation(tmp_path, keep_last=3)
    rotation.save(Checkpoint(step=1), step=1)
    (tmp_path / "checkpoint-000000000002").mkdir()
    assert rotation.latest().name == "checkpoint-000000000001"
    with pytest.raises(FileNotFoundError, match="no checkpoints in"):
        CheckpointRotation(tmp_path / "empty", keep_last=1).load_latest(Checkpoint())


def test_the_metric_of_the_best_is_a_number(tmp_path):
    rotation = CheckpointRotation(tmp_path, keep_last=1, keep_best=("reward", "max"))
    with pytest.raises(KeyError, match="which metadata has not"):
        rotation.save(Checkpoint(a=1), step=1)
    with pytest.raises(ValueError, match="finite number"):
        rotation.save(Checkpoint(a=1), step=1, metadata={"reward": float("nan")})


WRITER = """
import sys, torch
from flambeau.rl.checkpoint import Checkpoint
class State:
    def __init__(self, value): self.value = value
    def state_dict(self): return {str(i): torch.full((1000,), float(self.value)) for i in range(20)}
    def load_state_dict(self, state): pass
for value in range(10**6):
    Checkpoint(a=State(value), b=State(value)).save(sys.argv[1])
    print(value, flush=True)
"""


def test_a_killed_writer_leaves_a_whole_checkpoint(tmp_path):
    for delay in (0.0, 0.007, 0.013):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path / "c")], stdout=subprocess.PIPE, text=True, cwd="/"
        )
        process.stdout.readline()
        time.sleep(delay)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        a, b = Holder(), Holder()
        Checkpoint(a=a, b=b).load(tmp_path / "c")
        values = {float(each) for holder in (a, b) for tensor in holder.state.values() for each in tensor.unique()}
        assert len(values) == 1

"""What the tensordict library saves is read here, and the other way round: folders, archives, single files, stores."""

from __future__ import annotations

import shutil
import subprocess
import time

import pytest
import torch

import flambeau.data.tensordict as ours

peer = pytest.importorskip("tensordict", reason="needs tensordict; `nox -s parity -- peers` has it")

pytestmark = pytest.mark.filterwarnings("ignore")  # the peer's own


def sample(library, *, pickled: bool = True, ragged: bool = True):
    data = {
        "a": torch.arange(12.0).reshape(4, 3),
        "bf": torch.arange(4).bfloat16(),
        "bool": torch.tensor([True, False, True, False]),
        "complex": torch.complex(torch.arange(4.0), torch.ones(4)),
        "zero": torch.zeros(4, 0),
        "n": {"x/y": torch.ones(4), "empty": {}, "..": torch.ones(4)},
        "s": "text",
        "stack": library.NonTensorStack("a", "b", "c", "d"),
    }
    if pickled:
        data["o"] = library.NonTensorData(1j, batch_size=[4])
        data["mixed"] = library.NonTensorStack(1j, "b", None, 2)
    if ragged:
        data["nested"] = torch.nested.nested_tensor([torch.ones(2), torch.zeros(3), torch.ones(1), torch.ones(4)])
    return library.TensorDict(data, batch_size=[4])


def check(td, *, pickled: bool = True, ragged: bool = True) -> None:
    expected = sample(ours)
    for key in ("a", "bf", "bool", "complex", "zero", ("n", "x/y"), ("n", "..")):
        assert torch.equal(td[key], expected[key]) and td[key].dtype is expected[key].dtype
    assert td["s"] == "text" and list(td["stack"]) == list("abcd") and list(td.batch_size) == [4]
    if pickled:
        assert td["o"] == 1j and list(td["mixed"]) == [1j, "b", None, 2]
    if ragged:
        assert [part.numel() for part in td["nested"].unbind(0)] == [2, 3, 1, 4]


@pytest.mark.parametrize(("writer", "reader"), [(ours, peer), (peer, ours)], ids=["ours-theirs", "theirs-ours"])
class TestFiles:
    def load(self, reader, path):
        return reader.TensorDict.load_memmap(path, **({} if reader is ours else {"allow_pickle": True}))

    def test_folders(self, writer, reader, tmp_path):
        sample(writer).memmap(str(tmp_path / "td"))
        check(self.load(reader, tmp_path / "td"))

    def test_archives(self, writer, reader, tmp_path):
        sample(writer, ragged=False).memmap(str(tmp_path / "td.tdz"))
        check(self.load(reader, tmp_path / "td.tdz"), ragged=False)
        sample(writer).memmap(str(tmp_path / "td"))
        writer.pack_memmap(tmp_path / "td", tmp_path / "packed.tdz")
        check(self.load(reader, tmp_path / "packed.tdz"))
        reader.unpack_memmap(tmp_path / "packed.tdz", tmp_path / "unpacked")
        check(self.load(writer, tmp_path / "unpacked"))

    def test_consolidated_files(self, writer, reader, tmp_path):
        sample(writer, pickled=False, ragged=False).consolidate(tmp_path / "one")
        check(reader.TensorDict.from_consolidated(tmp_path / "one"), pickled=False, ragged=False)

    def test_lazy_stacks(self, writer, reader, tmp_path):
        parts = [writer.TensorDict(a=torch.ones(2)), writer.TensorDict(a=torch.zeros(3))]
        writer.lazy_stack(parts).memmap(str(tmp_path))
        loaded = self.load(reader, tmp_path)
        assert loaded[0]["a"].tolist() == [1, 1] and loaded[1]["a"].tolist() == [0, 0, 0]

    def test_keys_of_all_kinds(self, writer, reader, tmp_path):
        keys = ["a%b", " sp é", "..", "a\\b", 'x:y*?<>|"', "~-_.!'()@#$&+,;=[]{}^`", "", "%41"]
        writer.TensorDict({key: torch.tensor([float(at)]) for at, key in enumerate(keys)}).memmap(str(tmp_path))
        loaded = self.load(reader, tmp_path)
        assert [loaded[key].item() for key in keys] == [float(at) for at in range(len(keys))]

    def test_files_with_what_only_one_of_both_knows(self, writer, reader, tmp_path):
        writer.TensorDict({"b": {"x": torch.ones(2)}, "a": torch.zeros(2)}, [2], names=["time"]).memmap(
            str(tmp_path / "d")
        )
        writer.TensorDict({"b": {"x": torch.ones(2)}, "a": torch.zeros(2)}, [2], names=["time"]).consolidate(
            tmp_path / "c"
        )
        for loaded in (self.load(reader, tmp_path / "d"), reader.TensorDict.from_consolidated(tmp_path / "c")):
            assert set(loaded.keys()) == {"a", "b"} and loaded["b", "x"].sum() == 2


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    pytest.importorskip("redis")
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("needs redis-server")
    folder = tmp_path_factory.mktemp("redis")
    process = subprocess.Popen(
        [program, "--port", "0", "--unixsocket", str(folder / "socket"), "--save", "", "--dir", str(folder)],
        stdout=subprocess.DEVNULL,
    )
    while not (folder / "socket").exists():
        time.sleep(0.05)
    yield {"unix_socket_path": str(folder / "socket")}
    process.terminate()
    process.wait()


def test_a_store_that_the_peer_filled_is_read(server):
    theirs = sample(peer, ragged=False).exclude("bf").to_store(**server)  # its store takes no bfloat16
    td = ours.TensorDictStore.from_store(td_id=theirs._td_id, **server)
    assert torch.equal(td["a"], sample(ours)["a"]) and td["s"] == "text" and td["o"] == 1j and td["n", "x/y"].sum() == 4
    assert torch.equal(td[1:3]["a"], sample(ours)["a"][1:3])


def test_a_store_that_we_filled_is_read_by_the_peer(server):
    mine = sample(ours, ragged=False).to_store(**server)
    td = peer.TensorDictStore.from_store(td_id=mine.td_id, **server)
    assert torch.equal(td["a"], sample(ours)["a"]) and td["s"] == "text" and td["n", "x/y"].sum() == 4


def test_an_hdf5_file_of_the_peer_is_read(tmp_path):
    pytest.importorskip("h5py")
    source = peer.TensorDict({"a": torch.arange(6.0).reshape(2, 3), "n": {"b": torch.ones(2)}, "s": "text"}, [2])
    source.to_h5(tmp_path / "x.h5").close()
    td = ours.TensorDict.from_h5(tmp_path / "x.h5", batch_size=[2])
    assert torch.equal(td["a"], source["a"]) and td["n", "b"].sum() == 2 and td["s"] == "text"

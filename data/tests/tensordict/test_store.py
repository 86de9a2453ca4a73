"""`TensorDictStore` against a real server."""

from __future__ import annotations

import pickle
import shutil
import subprocess
import sys
import time

import pytest
import torch

from flambeau.data.tensordict import (
    LazyStackedTensorDict,
    LazyStackedTensorDictStore,
    NonTensorData,
    NonTensorStack,
    TensorDict,
    TensorDictStore,
)

redis = pytest.importorskip("redis")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    program = shutil.which("redis-server") or shutil.which("valkey-server")
    if program is None:
        pytest.skip("needs redis-server")
    folder = tmp_path_factory.mktemp("redis")
    socket = folder / "socket"
    process = subprocess.Popen(
        [program, "--port", "0", "--unixsocket", str(socket), "--save", "", "--dir", str(folder)],
        stdout=subprocess.DEVNULL,
    )
    client = redis.Redis(unix_socket_path=str(socket))
    for _ in range(200):
        try:
            client.ping()
            break
        except redis.ConnectionError:
            time.sleep(0.05)
    client.close()
    yield {"unix_socket_path": str(socket)}
    process.terminate()
    process.wait()


def sample() -> TensorDict:
    return TensorDict(
        {
            "z": torch.arange(24.0).reshape(4, 3, 2),
            "n": {"b": torch.arange(4), "deep.er": {"c": torch.ones(4).bfloat16()}},
            "s": "text",
            "stack": NonTensorStack("p", "q", "r", "s"),
            "number": NonTensorData(1 + 2j, batch_size=[4]),
            "empty": torch.zeros(4, 0),
        },
        batch_size=[4],
    )


@pytest.fixture
def stored(server):
    made = sample().to_store(**server)
    yield made
    made.clear_redis()
    made.close()


def test_every_kind_of_entry_comes_back_in_order(stored):
    assert list(stored.keys()) == ["z", "n", "s", "stack", "number", "empty"]
    local = stored.to_local()
    assert torch.equal(local["z"], sample()["z"]) and torch.equal(local["n", "b"], torch.arange(4))
    assert local["n", "deep.er", "c"].dtype is torch.bfloat16 and local["empty"].shape == (4, 0)
    assert local["s"] == "text" and list(local["stack"]) == ["p", "q", "r", "s"] and local["number"] == 1 + 2j


@pytest.mark.parametrize(
    "index",
    [0, -1, slice(1, 3), slice(None, None, 2), torch.tensor([3, 1, 3]), torch.tensor([True, False, True, False]), None],
)
def test_an_index_selects_what_it_would_in_memory(stored, index):
    part, whole = stored[index], sample()[index]
    assert torch.equal(part["z"], whole["z"]) and torch.equal(part["n", "b"], whole["n", "b"])
    assert part.batch_size == whole.batch_size


def test_an_index_fetches_the_bytes_of_its_rows_alone(server):
    stored = TensorDictStore.from_schema({"big": ([1000], torch.float32)}, batch_size=[500], **server)
    client = stored._connection.client
    stored[7] = TensorDict({"big": torch.full((1000,), 7.0)})
    before = client.info("stats")["total_net_output_bytes"]
    assert stored[7]["big"].sum() == 7000 and stored.get_at("big", slice(6, 8)).sum() == 7000
    assert client.info("stats")["total_net_output_bytes"] - before < 40_000  # of the 2 MB that are there
    stored.clear_redis()


def test_writes_are_seen_by_another_client(server, stored):
    other = TensorDictStore.from_store(td_id=stored.td_id, **server)
    assert other.batch_size == (4,)
    stored["new", "entry"] = torch.ones(4)
    stored[1:3] = TensorDict({"n": {"b": torch.tensor([10, 20])}, "stack": NonTensorStack("x", "y")}, batch_size=[2])
    stored.set_at_("z", torch.zeros(2), (0, 1))
    stored[torch.tensor([3, 0])] = TensorDict({"n": {"b": torch.tensor([30, 40])}}, batch_size=[2])
    assert other["new", "entry"].sum() == 4
    assert other["n", "b"].tolist() == [40, 10, 20, 30]
    assert other["z"][0].tolist() == [[0, 1], [0, 0], [4, 5]]
    assert list(other["stack"]) == ["p", "x", "y", "s"]
    del stored["n"]
    assert "n" not in other and ("n", "b") not in other


def test_in_place_operations_are_written_back(stored):
    stored.zero_()
    assert stored["z"].sum() == 0
    stored.fill_("z", 3)
    assert stored["z"].unique().item() == 3


def test_another_process_opens_what_a_pickle_names(stored):
    data = pickle.dumps(stored)
    code = "import pickle, sys; td = pickle.load(sys.stdin.buffer); td['from_child'] = td['n', 'b'] + 1"
    subprocess.run([sys.executable, "-c", code], input=data, check=True)
    assert stored["from_child"].tolist() == [1, 2, 3, 4]


def test_an_unknown_id_and_a_silent_server_are_errors_with_the_address(server, tmp_path):
    with pytest.raises(KeyError, match="no-such-id"):
        TensorDictStore.from_store(td_id="no-such-id", **server)
    with pytest.raises(ConnectionError, match="start one"):
        TensorDictStore(unix_socket_path=str(tmp_path / "nobody"))


def test_what_is_cleared_leaves_nothing_on_the_server(server):
    stored = sample().to_store(**server)
    client = stored._connection.client
    assert list(client.scan_iter(match=f"*{stored.td_id}*"))
    stored.clear_redis()
    assert list(client.scan_iter(match=f"*{stored.td_id}*")) == []


def test_a_stack_of_differing_shapes_is_fetched_element_by_element(server):
    parts = [
        TensorDict({"a": torch.full((size, 2), float(size)), "n": {"b": torch.tensor(size)}, "s": f"s{size}"})
        for size in (1, 3, 2)
    ]
    stored = LazyStackedTensorDictStore.from_lazy_stack(LazyStackedTensorDict(*parts), **server)
    assert stored.batch_size == (3,) and set(stored.keys()) == {"a", "n", "s"}
    assert stored[1]["a"].shape == (3, 2) and stored[-1]["s"] == "s2" and stored["n", "b"].tolist() == [1, 3, 2]
    assert [td["a"].shape[0] for td in stored[:2].tensordicts] == [1, 3]
    with pytest.raises(RuntimeError):
        stored["a"]
    stored[0] = TensorDict({"a": torch.zeros(5, 2), "n": {"b": torch.tensor(5)}})
    stored[2] = TensorDict({"a": torch.zeros(2, 2), "n": {"b": torch.tensor(9)}})
    again = LazyStackedTensorDictStore.from_store(td_id=stored.td_id, **server)
    assert again[0]["a"].shape == (5, 2) and again[2]["a"].sum() == 0 and again["n", "b"].tolist() == [5, 3, 9]
    assert torch.equal(again.to_local()[1]["a"], parts[1]["a"])
    stored.clear_redis()

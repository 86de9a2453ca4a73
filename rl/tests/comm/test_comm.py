"""Requests find their answers: through mailboxes, as commands, in shared memory, over torch.distributed."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import queue
import signal
import threading
import time

import pytest
import torch
import torch.distributed as dist

from flambeau.data.tensordict import TensorDict
from flambeau.rl._comm import (
    CommandChannel,
    Mailbox,
    MailboxPeerClosedError,
    MappingRendezvous,
    SharedBlock,
    TCPStoreRendezvous,
    normalize_service_backend,
    service_backend,
    transport_backend,
    watch_process_liveness,
)
from flambeau.rl._comm.distributed import TorchDistributedTransport
from flambeau.rl._comm.replay_service import _DistributedReplayService
from flambeau.rl._comm.request_reply import ChannelServer, MetadataField, MetadataSpec
from flambeau.rl.data import LazyTensorStorage, ReplayBuffer, TensorDictPrioritizedReplayBuffer
from flambeau.rl.modules.inference_server import ThreadingTransport


def mailbox(**options):
    return Mailbox(queue.Queue(), queue.Queue, **options)


# Mailboxes and commands


def test_each_client_gets_its_own_answers_in_any_order():
    box = mailbox()
    one, other = box.client(), box.client()
    futures = [one.submit("a"), other.submit("b"), one.submit("c")]
    asked, callbacks, times = box.drain(10)
    assert asked == ["a", "b", "c"]
    assert all(each is not None for each in times)
    assert not futures[0].done()
    for text, callback in reversed(list(zip(asked, callbacks, strict=True))):
        assert box.resolve(callback, text.upper())
    assert [future.result(1) for future in futures] == ["A", "B", "C"]
    assert futures[0].result() == "A"  # again
    assert not box.resolve((99, 0), "nobody")


def test_what_the_server_rejects_is_raised_and_what_is_late_can_be_asked_for_again():
    box = mailbox()
    future = box.client().submit(1)
    with pytest.raises(queue.Empty):
        future.result(0.01)
    with pytest.raises(TimeoutError):
        future.result(0.01)
    _, (callback,), _ = box.drain(1)
    box.reject(callback, ArithmeticError("no"))
    with pytest.raises(ArithmeticError, match="no"):
        future.result(1)


def test_answers_that_nobody_waits_for_are_not_kept():
    box = mailbox()
    client = box.client()
    client.submit("forgotten")
    future = client.submit("wanted")
    _, callbacks, _ = box.drain(2)
    for callback in callbacks:
        box.resolve(callback, "answer")
    assert future.result(1) == "answer"
    assert client._early == {}


def test_clients_of_a_server_that_died_get_what_it_answered_before_and_an_error_else():
    alive = threading.Event()
    alive.set()
    box = mailbox(peer_alive=alive)
    client = box.client()
    answered, unanswered = client.submit(1), client.submit(2)
    _, callbacks, _ = box.drain(2)
    box.resolve(callbacks[0], "one")
    alive.clear()
    assert answered.result(5) == "one"
    assert unanswered.done()
    with pytest.raises(MailboxPeerClosedError):
        unanswered.result(5)
    with pytest.raises(MailboxPeerClosedError):
        client.submit(3)


def test_the_end_of_a_process_is_seen():
    process = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(60,))
    process.start()
    alive = threading.Event()
    alive.set()
    watcher = threading.Thread(target=watch_process_liveness, args=(process.sentinel, alive))
    watcher.start()
    process.kill()
    watcher.join(30)
    assert not alive.is_set()
    process.join()


def test_commands_are_carried_out_one_after_another():
    channel = CommandChannel(mailbox())
    client = channel.client()

    def serve():
        for _ in range(2):
            request = channel.receive(10)
            if request.verb == "double":
                channel.resolve(request, 2 * request.payload)
            else:
                channel.reject(request, KeyError(request.verb))

    thread = threading.Thread(target=serve)
    thread.start()
    assert client.call("double", 4, timeout=10) == 8
    with pytest.raises(KeyError, match="unknown"):
        client.call("unknown", timeout=10)
    thread.join()
    assert channel.receive(0.01) is None


def test_a_channel_that_is_closed_refuses_what_waits():
    channel = CommandChannel(mailbox())
    client = channel.client()
    errors = []

    def ask():
        try:
            client.call("never")
        except MailboxPeerClosedError as error:
            errors.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    time.sleep(0.1)
    channel.close()
    thread.join(10)
    assert len(errors) == 1
    with pytest.raises(RuntimeError, match="closed"):
        channel.client()


# Places to meet, and values that are shared


@pytest.mark.parametrize("kind", ["mapping", "store"])
def test_values_are_found_as_soon_as_they_are_there(kind):
    if kind == "mapping":
        place = MappingRendezvous({})
    else:
        place = TCPStoreRendezvous(dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False))
    with pytest.raises(TimeoutError, match="address"):
        place.wait("address", 0.05)
    threading.Timer(0.1, place.publish, args=("address", ("here", 7))).start()
    assert place.wait("address", 10) == ("here", 7)
    assert place.read("address") == ("here", 7)


def wait_and_answer(block, answers):
    value, version = block.wait(0, 60)
    answers.put((value.tolist(), version))


@pytest.mark.slow
def test_a_value_in_shared_memory_wakes_other_processes():
    context = multiprocessing.get_context("spawn")
    block = SharedBlock(torch.zeros(2).share_memory_(), context=torch.multiprocessing.get_context("spawn"))
    answers = context.Queue()
    process = torch.multiprocessing.get_context("spawn").Process(target=wait_and_answer, args=(block, answers))
    process.start()
    time.sleep(0.5)
    assert block.publish(torch.ones(2)) == 1
    assert answers.get(timeout=60) == ([1.0, 1.0], 1)
    process.join(60)


def test_a_value_that_cannot_be_written_into_is_replaced():
    block = SharedBlock(3)
    assert block.wait(0, 0.01) is None
    assert (block.publish(4), block.value, block.version) == (1, 4, 1)


# Names of backends


def test_defaults_hold_in_their_block_and_arguments_go_before_them():
    assert normalize_service_backend("multiprocessing") == "process"
    with pytest.raises(ValueError, match="nowhere"):
        normalize_service_backend("nowhere")
    with service_backend("process"), pytest.raises(ValueError, match="process"):
        ReplayBuffer()
    with service_backend("process"):
        assert ReplayBuffer(service_backend="direct").service_backend == "direct"
    assert ReplayBuffer().service_backend == "direct"
    with pytest.raises(ValueError, match="nowhere"), transport_backend("nowhere"):
        pass


# Serving


def test_numbers_beside_requests_have_their_names_and_kinds():
    spec = MetadataSpec((MetadataField("a", "int64"), MetadataField("b", "bool"), MetadataField("c", "float64")))
    given = {"a": -3, "b": True, "c": 0.1}
    assert spec.decode(spec.encode(given)) == given
    for wrong, error in (({"a": 1}, ValueError), (given | {"d": 1}, ValueError), (given | {"a": 0.5}, TypeError)):
        with pytest.raises(error):
            spec.encode(wrong)
    with pytest.raises(ValueError, match="int8"):
        MetadataField("a", "int8")


@pytest.mark.parametrize("name", ["max_batch_size", "min_batch_size", "stats_window_size"])
def test_servers_need_numbers_that_make_sense(name):
    with pytest.raises(ValueError, match=name):
        ChannelServer(ThreadingTransport(), list, **{name: 0})


def test_a_handler_that_answers_too_little_is_an_error_of_all():
    with ChannelServer(ThreadingTransport(), lambda messages: []) as server:
        with pytest.raises(RuntimeError, match="0 replies"):
            server.client()(TensorDict({}), timeout=10)
        assert server.stats()["errors"] == 1


def doubled(messages):
    replies = []
    for message in messages:
        if (message.payload["x"] < 0).any():
            raise ArithmeticError("negative")
        replies.append(TensorDict({"y": 2 * message.payload["x"] + message.metadata.get("more", 0)}))
    return replies


def over_distributed(**options):
    return TorchDistributedTransport(
        TensorDict({"x": torch.zeros(3)}), TensorDict({"y": torch.zeros(3)}), host="127.0.0.1", **options
    )


def test_requests_over_torch_distributed_are_answered_and_numbers_come_along():
    spec = MetadataSpec((MetadataField("more", "float64"),))
    with ChannelServer(over_distributed(metadata_spec=spec), doubled) as server:
        clients = [server.client(), pickle.loads(pickle.dumps(server.client()))]
        for at, client in enumerate(clients):
            answer = client(TensorDict({"x": torch.full((3,), float(at)), "extra": 1}), 30, metadata={"more": 0.5})
            assert answer["y"].tolist() == [2 * at + 0.5] * 3
        with pytest.raises(ArithmeticError, match="negative"):
            clients[0](TensorDict({"x": -torch.ones(3)}), 30, metadata={"more": 0.0})
        with pytest.raises(KeyError, match="x"):
            clients[0].submit(TensorDict({"z": torch.ones(3)}), metadata={"more": 0.0})
        with pytest.raises(ValueError, match="more"):
            clients[0].submit(TensorDict({"x": torch.ones(3)}))
        clients[1].close()
    with pytest.raises(MailboxPeerClosedError):
        clients[0](TensorDict({"x": torch.ones(3)}), 30, metadata={"more": 0.0})
    assert not dist.is_initialized()


def ask_from_elsewhere(client, answers, kill):
    answers.put(client(TensorDict({"x": torch.ones(3)}), 60)["y"].tolist())
    if kill:
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGKILL)
    client.close()


@pytest.mark.slow
def test_a_client_on_torch_distributed_that_is_killed_holds_up_nobody():
    context = torch.multiprocessing.get_context("spawn")
    transport = over_distributed()
    with ChannelServer(transport, doubled) as server:
        answers = context.Queue()
        processes = [
            context.Process(target=ask_from_elsewhere, args=(server.client(), answers, kill)) for kill in (True, False)
        ]
        for process in processes:
            process.start()
        assert [answers.get(timeout=60) for _ in processes] == [[2.0] * 3] * 2
        for process in processes:
            process.join(60)
        deadline = time.monotonic() + 30
        gone = []
        while not gone and time.monotonic() < deadline:
            gone = transport.gone_clients()
            time.sleep(0.1)
        assert gone == [0]
        assert server.client()(TensorDict({"x": torch.ones(3)}), 30)["y"].tolist() == [2.0] * 3


def test_a_replay_buffer_is_served_over_torch_distributed():
    buffer = TensorDictPrioritizedReplayBuffer(storage=LazyTensorStorage(10), alpha=1.0, beta=1.0, batch_size=4)
    rows = TensorDict({"value": torch.arange(5)}, [5])
    here = TensorDictPrioritizedReplayBuffer(storage=LazyTensorStorage(10), alpha=1.0, beta=1.0, batch_size=4)
    here.extend(rows)
    batch = here.sample()
    weighed = TensorDict({"index": batch["index"], "td_error": torch.ones(4)}, [4])
    service = _DistributedReplayService(buffer, extend_spec=rows, sample_spec=batch, priority_spec=weighed).start()
    try:
        client = pickle.loads(pickle.dumps(service.client()))
        assert client.extend(rows, timeout=30).tolist() == list(range(5))
        assert (len(client), client.write_count, client.batch_size) == (5, 5, 4)
        found = client.sample(timeout=30)
        assert (found["value"] == found["index"]).all()
        client.update_tensordict_priority(
            TensorDict({"index": torch.arange(4), "td_error": torch.tensor([0.0, 0, 0, 1e6])}, [4]), timeout=30
        )
        assert (client.sample(timeout=30)["index"] == 3).sum() >= 3
        with pytest.raises(ValueError, match="4 items"):
            client.sample(3)
    finally:
        service.shutdown()

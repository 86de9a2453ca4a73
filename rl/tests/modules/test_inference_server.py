"""Requests of many who act are answered in batches, each with its own answer, and nobody waits for ever."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time

import pytest
import torch
from torch import nn

from flambeau.data.tensordict import TensorDict
from flambeau.data.tensordict.nn import InteractionType, TensorDictModule, interaction_type, set_interaction_type
from flambeau.rl._comm import MailboxPeerClosedError
from flambeau.rl.modules.inference_server import (
    InferenceDeviceConfig,
    InferenceServer,
    InferenceServerConfig,
    MPTransport,
    PolicyClientModule,
    ProcessInferenceServer,
    ProcessSlotTransport,
    SharedMemoryTransport,
    SlotTransport,
    ThreadingTransport,
)

REQUEST = TensorDict({"observation": torch.zeros(4)})
RESPONSE = TensorDict({"action": torch.zeros(2), "policy_version": torch.zeros((), dtype=torch.int64)})


def policy():
    torch.manual_seed(0)
    return TensorDictModule(nn.Linear(4, 2), in_keys=["observation"], out_keys=["action"])


class Plus(nn.Module):
    """Adds one, after a while; refuses negative numbers."""

    def __init__(self, pause=0.0):
        super().__init__()
        self.pause = pause
        self.batches = []

    def forward(self, data):
        time.sleep(self.pause)
        self.batches.append(len(data))
        if (data["observation"] < 0).any():
            raise ArithmeticError("negative")
        return data.set("action", data["observation"][..., :2] + 1)


def request(value):
    return TensorDict({"observation": torch.full((4,), float(value))})


def in_process(kind, slots=4):
    if kind == "thread":
        return ThreadingTransport()
    if kind == "slot":
        return SlotTransport(slots)
    if kind == "slot, preallocated":
        return SlotTransport(slots, preallocate=True)
    if kind == "queue":
        return MPTransport()
    if kind == "shared memory":
        return SharedMemoryTransport(REQUEST, RESPONSE, num_slots=slots)
    return ProcessSlotTransport(REQUEST, RESPONSE, num_slots=slots)


KINDS = ["thread", "slot", "slot, preallocated", "queue", "shared memory", "process slot"]


@pytest.mark.parametrize("kind", KINDS)
def test_everyone_gets_the_answer_to_their_own_request(kind):
    answers = {}
    with InferenceServer(Plus(), in_process(kind), max_batch_size=3) as server:

        def act(number, client):
            answers[number] = [float(client(request(10 * number + at))["action"][0]) for at in range(10)]

        threads = [threading.Thread(target=act, args=each) for each in enumerate(server.clients(4))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert answers == {number: [10 * number + at + 1 for at in range(10)] for number in range(4)}
        assert server.stats()["requests"] == 40


@pytest.mark.parametrize("kind", KINDS)
def test_what_the_policy_raises_comes_to_those_who_asked_and_the_server_goes_on(kind):
    with InferenceServer(Plus(), in_process(kind)) as server:
        client = server.client()
        with pytest.raises(ArithmeticError, match="negative"):
            client(request(-1), timeout=30)
        assert float(client(request(1), timeout=30)["action"][0]) == 2


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_that_is_late_can_be_asked_for_again(kind):
    with InferenceServer(Plus(pause=0.5), in_process(kind)) as server:
        future = server.client().submit(request(3))
        with pytest.raises(TimeoutError):
            future.result(0.05)
        assert not future.done()
        assert float(future.result(30)["action"][0]) == 4
        assert future.done()


@pytest.mark.parametrize("kind", KINDS)
def test_nobody_waits_for_a_server_that_ended(kind):
    server = InferenceServer(Plus(pause=0.2), in_process(kind), max_batch_size=1).start()
    clients = server.clients(4)
    futures = [client.submit(request(at)) for at, client in enumerate(clients)]
    time.sleep(0.1)
    server.shutdown()
    outcomes = []
    for future in futures:
        try:
            outcomes.append(float(future.result(10)["action"][0]))
        except MailboxPeerClosedError:
            outcomes.append(None)
    # Every request is answered or refused, and those that were answered are right.
    assert outcomes[0] == 1 or None in outcomes
    assert all(each in (None, at + 1) for at, each in enumerate(outcomes))
    with pytest.raises(MailboxPeerClosedError):
        clients[0].submit(request(0)).result(10)


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_can_be_started_again(kind):
    server = InferenceServer(Plus(), in_process(kind)).start()
    client = server.client()
    server.shutdown()
    with server:
        assert float(client(request(3), timeout=30)["action"][0]) == 4


def test_requests_that_wait_are_answered_in_one_batch():
    model = Plus()
    server = InferenceServer(model, max_batch_size=4)
    client = server.client()
    futures = [client.submit(request(at)) for at in range(10)]
    with server:
        assert [float(future.result(30)["action"][0]) for future in futures] == list(range(1, 11))
    assert model.batches == [4, 4, 2]
    stats = server.stats(reset=True)
    assert (stats["requests"], stats["batches"]) == (10, 3)
    assert stats["p95_queue_ms"] >= stats["p50_queue_ms"] >= 0
    assert server.stats()["requests"] == 0


def test_a_batch_waits_for_its_least_size_but_not_for_ever():
    model = Plus()
    with InferenceServer(model, min_batch_size=2, timeout=0.2) as server:
        client = server.client()
        began = time.monotonic()
        client(request(1), timeout=30)
        assert time.monotonic() - began >= 0.2
        futures = [client.submit(request(at)) for at in range(2)]
        assert all(future.result(30) is not None for future in futures)
    assert model.batches[0] == 1
    assert sum(model.batches) == 3


def test_requests_of_different_shapes_are_answered_together():
    class Total(nn.Module):
        def forward(self, data):
            return data.set("action", torch.stack([each["observation"].sum() for each in data.unbind(0)]))

    server = InferenceServer(Total())
    futures = [server.client().submit(TensorDict({"observation": torch.ones(size)})) for size in (2, 3, 5)]
    with server:
        assert [float(future.result(30)["action"]) for future in futures] == [2, 3, 5]


def test_what_is_asked_is_not_written_to():
    with InferenceServer(policy()) as server:
        asked = request(1)
        answer = server.client()(asked)
        assert set(asked.keys()) == {"observation"}
        assert set(answer.keys()) == {"observation", "action", "policy_version"}


@pytest.mark.parametrize("kind", ["thread", "queue", "shared memory", "process slot"])
def test_how_the_policy_acts_travels_with_the_request(kind):
    kinds = list(InteractionType)

    class Spy(nn.Module):
        def forward(self, data):
            number = -1.0 if interaction_type() is None else float(kinds.index(interaction_type()))
            return data.set("action", torch.full((len(data), 2), number))

    with InferenceServer(Spy(), in_process(kind)) as server:
        told, asks = (PolicyClientModule(each, **named) for each, named in zip(
            server.clients(2), ({"interaction_type": InteractionType.RANDOM}, {}), strict=True
        ))  # fmt: skip
        for ambient in (InteractionType.MODE, InteractionType.MEAN):
            with set_interaction_type(ambient):
                futures = [told.submit(request(0)), asks.submit(request(0))]
                numbers = [float(future.result(30)["action"][0]) for future in futures]
            assert numbers == [kinds.index(InteractionType.RANDOM), kinds.index(ambient)]


def test_answers_say_the_version_of_the_policy():
    server = InferenceServer(policy(), policy_version=5)
    with server:
        client = server.client()
        assert int(client(request(0))["policy_version"]) == 5
        server.update_model(lambda module: module.module.bias.data.add_(1))
        assert int(client(request(0))["policy_version"]) == server.policy_version == 6
        server.update_model(lambda module: None, mark_weight_update=False)
        assert server.stats()["weight_updates"] == 1
    with InferenceServer(policy(), policy_version_key=None) as server:
        assert set(server.client()(request(0)).keys()) == {"observation", "action"}


def test_a_weight_scheme_brings_new_weights_between_batches():
    from flambeau.rl.weight_update import MultiProcessWeightSyncScheme

    mine, served = policy(), policy()
    scheme = MultiProcessWeightSyncScheme()
    scheme.init_on_sender(model_id="policy", model=mine, num_workers=1)
    scheme.connect()
    import copy

    with InferenceServer(served, weight_sync=copy.copy(scheme)) as server:
        mine.module.bias.data.fill_(7.0)
        scheme.send()
        answer = server.client()(request(0), timeout=30)
        assert answer["action"].tolist() == [7.0, 7.0]
        assert int(answer["policy_version"]) >= 1


def test_no_more_requests_are_on_their_way_than_allowed():
    with InferenceServer(Plus(pause=0.05)) as server:
        module = PolicyClientModule(server, max_inflight=1)
        first = module.submit(request(1))
        began = time.monotonic()
        second = module.submit(request(2))  # waits for the first
        assert time.monotonic() - began > 0.02 or first.done()
        assert [float(each.result(30)["action"][0]) for each in (first, second)] == [2, 3]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "policy_factory"),
        ({"model": Plus(), "policy_factory": Plus}, "not both"),
        ({"model": Plus(), "max_batch_size": 0}, "max_batch_size"),
        ({"model": Plus(), "min_batch_size": 0}, "min_batch_size"),
        ({"model": Plus(), "timeout": -1.0}, "timeout"),
        ({"model": Plus(), "stats_window_size": 0}, "stats_window_size"),
        ({"model": Plus(), "static_batch_size": 2}, "static_batch_size"),
        ({"model": Plus(), "static_batch_size": 64}, "GPU"),
        ({"model": Plus(), "transport": "process"}, "service_backend='thread'"),
        ({"model": Plus(), "service_backend": "nowhere"}, "nowhere"),
        ({"model": Plus(), "service_backend": "rpc"}, "rpc"),
        ({"model": Plus(), "service_backend": "process"}, "policy_factory"),
        ({"model": Plus(), "server_config": InferenceServerConfig(), "timeout": 1.0}, "server_config"),
        ({"model": Plus(), "device_config": InferenceDeviceConfig(storing_device="cpu")}, "storing_device"),
        ({"model": Plus(), "device_config": InferenceDeviceConfig(), "device": "cpu"}, "device_config"),
    ],
)
def test_arguments_that_contradict_one_another_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        InferenceServer(**arguments)


@pytest.mark.parametrize("kind", ["shared memory", "process slot"])
def test_rows_of_memory_refuse_what_does_not_fit(kind):
    client = in_process(kind).client()
    with pytest.raises(KeyError, match="observation"):
        client.submit(TensorDict({"other": torch.zeros(4)}))
    with pytest.raises(ValueError, match=r"expected \(4,\)"):
        client.submit(TensorDict({"observation": torch.zeros(5)}))


def test_a_slot_has_one_request_on_its_way():
    client = in_process("process slot").client()
    client.submit(request(1))
    with pytest.raises(RuntimeError, match="on its way"):
        client.submit(request(2))


@pytest.mark.parametrize("kind", ["slot", "process slot"])
def test_there_are_no_more_clients_than_slots(kind):
    transport = in_process(kind, slots=1)
    transport.client()
    with pytest.raises(RuntimeError, match="slots have a client"):
        transport.client()


# Processes


def ask(client, values, answers):
    answers.put([float(client(request(value), timeout=60)["action"][0]) for value in values])


def ask_and_be_killed(client):
    client.submit(request(1))
    time.sleep(0.3)  # what sends it is a thread
    os.kill(os.getpid(), signal.SIGKILL)


def between_processes(kind):
    return in_process({"queue": "queue", "shared memory": "shared memory", "slot": "process slot"}[kind], slots=3)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["queue", "shared memory", "slot"])
def test_a_server_in_a_process_answers_processes_also_after_one_was_killed(kind):
    context = multiprocessing.get_context("spawn")
    transport = between_processes(kind)
    server = ProcessInferenceServer(policy_factory=Plus, transport=transport, mp_context="spawn")
    clients = server.clients(3)
    with server:
        victim = context.Process(target=ask_and_be_killed, args=(clients[0],))
        victim.start()
        victim.join(60)
        answers = context.Queue()
        others = [context.Process(target=ask, args=(client, range(20), answers)) for client in clients[1:]]
        for each in others:
            each.start()
        assert [answers.get(timeout=60) for _ in others] == [list(range(1, 21))] * 2
        for each in others:
            each.join(60)
        assert server.health()["server_alive"]
        assert server.stats()["requests"] == 41
        if kind == "slot":  # the server looks for such processes, once a second
            deadline = time.monotonic() + 20
            while server.stats()["gone_clients"] < 1 and time.monotonic() < deadline:
                time.sleep(0.2)
            assert server.stats()["gone_clients"] >= 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["queue", "shared memory", "slot"])
def test_clients_of_a_server_whose_process_is_killed_get_an_error_at_once(kind):
    server = ProcessInferenceServer(policy_factory=Sleeper, transport=between_processes(kind), mp_context="spawn")
    client = server.client()
    with server:
        future = client.submit(request(1))
        time.sleep(0.3)
        os.kill(server.health(timeout=30)["pid"], signal.SIGKILL)
        began = time.monotonic()
        with pytest.raises(MailboxPeerClosedError):
            future.result(60)
        assert time.monotonic() - began < 30
        assert not server.is_alive
        assert server.health()["exitcode"] == -signal.SIGKILL
        with pytest.raises(RuntimeError, match="exit code -9"):
            server.stats()


class Sleeper(Plus):
    def __init__(self):
        super().__init__(pause=60.0)


def broken():
    raise OSError("no policy here")


def killed():
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_a_policy_that_cannot_be_made_is_reported_with_its_traceback():
    with pytest.raises(RuntimeError, match="no policy here"):
        ProcessInferenceServer(policy_factory=broken, transport=MPTransport()).start()
    with pytest.raises(RuntimeError, match="exit code -9"):
        ProcessInferenceServer(policy_factory=killed, transport=MPTransport()).start()


@pytest.mark.slow
def test_weights_are_written_into_the_process():
    mine = policy()
    mine.module.bias.data.fill_(3.0)
    with InferenceServer(policy_factory=policy, service_backend="process", num_clients=1) as server:
        pass  # a server can be started again
    server = InferenceServer(policy_factory=policy, service_backend="process", transport="process")
    client = server.client()
    assert (server.service_backend, server.transport_kind) == ("process", "process")
    with server:
        assert server.update_model_weights(TensorDict.from_module(mine)) == {"updated": True}
        answer = client(request(0), timeout=60)
        assert answer["action"].tolist() == [3.0, 3.0]
        assert int(answer["policy_version"]) == server.policy_version == 1


class Unsendable(Exception):
    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")
        self.lock = threading.Lock()


class Awkward(Plus):
    """Raises what cannot be pickled, or answers with it."""

    def forward(self, data):
        if (data["observation"] == 1).any():
            raise Unsendable("no", "never")
        return super().forward(data).set_non_tensor("lock", threading.Lock())


def test_what_cannot_be_sent_is_an_error_of_whoever_asked():
    with InferenceServer(Awkward(), MPTransport()) as server:
        client = server.client()
        with pytest.raises(RuntimeError, match="no and never"):
            client(request(1), timeout=30)
        with pytest.raises((TypeError, RuntimeError), match="pickle"):
            client(request(2), timeout=30)
        with pytest.raises(TypeError, match="pickle"):
            client.submit(request(3).set_non_tensor("lock", threading.Lock()))

"""On a Ray cluster of this machine: buffers, servers of actions, transforms, evaluations and services by name."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import nn

from flambeau.data.tensordict import TensorDict
from flambeau.data.tensordict.nn import TensorDictModule
from flambeau.rl._comm.ray_runtime import _RayActorLiveness
from flambeau.rl.collectors.distributed import RayEvalWorker
from flambeau.rl.data import LazyTensorStorage, ReplayBuffer, TensorDictReplayBuffer
from flambeau.rl.envs import PendulumEnv
from flambeau.rl.envs.transforms import TransformedEnv
from flambeau.rl.envs.transforms.module import ModuleTransform, RayModuleTransform
from flambeau.rl.modules.inference_server import InferenceServer
from flambeau.rl.services import RayService, get_services

ray = pytest.importorskip("ray")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::FutureWarning", "ignore::DeprecationWarning"),
]
FREE = {"num_cpus": 0}


@pytest.fixture(scope="module", autouse=True)
def cluster():
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def rows(count, start=0):
    return TensorDict({"value": torch.arange(start, start + count)}, [count])


def linear():
    torch.manual_seed(0)
    return TensorDictModule(nn.Linear(4, 2), in_keys=["observation"], out_keys=["action"])


# Replay buffers


@pytest.fixture
def buffer():
    made = TensorDictReplayBuffer(
        storage=partial(LazyTensorStorage, 10), batch_size=4, service_backend="ray",
        service_backend_options={"remote_config": FREE},
    )  # fmt: skip
    yield made
    made.shutdown()


def test_a_buffer_in_an_actor_does_what_one_here_does(buffer):
    here = TensorDictReplayBuffer(storage=LazyTensorStorage(10), batch_size=4)
    for each in (here, buffer):
        assert each.extend(rows(8)).tolist() == list(range(8))
        assert int(each.add(rows(1, 8)[0])) == 8
        assert (len(each), each.write_count, each.batch_size) == (9, 9, 4)
        assert each[:]["value"].tolist() == list(range(9))
        assert each.sample().shape == (4,)
        assert each.stats()["size"] == 9
        each.append_transform(lambda data: data.set("twice", 2 * data["value"]))
        assert (each.sample()["twice"] == 2 * each.sample(4)["value"]).shape == (4,)
        each.empty()
        assert len(each) == 0
    assert (buffer.service_backend, buffer.transport_kind, buffer.is_alive) == ("ray", "ray", True)


def test_actors_write_through_clients_that_cannot_end_the_buffer(buffer):
    @ray.remote(num_cpus=0)
    def write(client, start):
        client.extend(rows(3, start))
        return len(client)

    client = buffer.client()
    assert not hasattr(client, "shutdown")
    ray.get([write.remote(client, start) for start in (0, 3)])
    assert sorted(buffer[:]["value"].tolist()) == list(range(6))


def test_data_may_go_over_torch_distributed():
    buffer = TensorDictReplayBuffer(
        storage=partial(LazyTensorStorage, 10), batch_size=4, service_backend="ray", transport="distributed",
        service_backend_options={"remote_config": FREE},
    )  # fmt: skip
    client = buffer.client()
    assert client.extend(rows(5), timeout=60).tolist() == list(range(5))
    batch = client.sample(timeout=60)
    assert (batch["value"] == batch["index"]).all()
    assert (len(client), client.write_count, buffer.transport_kind) == (5, 5, "distributed")
    with pytest.raises(ValueError, match="expected"):
        client.extend(rows(3), timeout=60)
    buffer.shutdown()


def test_a_checkpoint_of_the_actor_loads_here(buffer, tmp_path):
    buffer.extend(rows(6))
    buffer.dumps(tmp_path / "saved")
    here = TensorDictReplayBuffer(storage=LazyTensorStorage(10), batch_size=4)
    here.loads(tmp_path / "saved")
    assert here[:]["value"].tolist() == list(range(6))


def test_a_buffer_that_was_shut_down_says_so(buffer):
    buffer.shutdown()
    assert not buffer.is_alive
    with pytest.raises(RuntimeError, match="shut down"):
        buffer.sample()


def test_what_fails_in_the_actor_is_raised_here():
    with pytest.raises(Exception, match="max_size"):
        ReplayBuffer(
            storage=partial(LazyTensorStorage, 0), service_backend="ray",
            service_backend_options={"remote_config": FREE},
        )  # fmt: skip


# Servers of actions


def test_a_server_in_an_actor_answers_and_takes_weights():
    server = InferenceServer(
        policy_factory=linear, service_backend="ray", service_backend_options={"remote_config": FREE}
    )
    with server:
        client = server.client()
        request = TensorDict({"observation": torch.ones(4)})
        expected = linear()(request.clone())["action"]
        torch.testing.assert_close(client(request, timeout=60)["action"], expected)
        other = linear()
        other.module.bias.data.fill_(5.0)
        server.update_model_weights(TensorDict.from_module(other))
        answer = client(request, timeout=60)
        torch.testing.assert_close(answer["action"], other(request.clone())["action"])
        assert int(answer["policy_version"]) == server.policy_version == 1
        assert server.stats()["requests"] == 2
        ray.kill(server._actor)
        with pytest.raises(RuntimeError, match="ended"):
            client(request, timeout=60)
    assert not server.is_alive


# Transforms


class Doubling(nn.Module):
    def __init__(self):
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(2.0))

    def forward(self, angle):
        return self.factor * angle


def doubling():
    return TensorDictModule(Doubling(), in_keys=["th"], out_keys=["twice"])


def test_a_module_in_an_actor_transforms_what_an_environment_gives():
    transform = ModuleTransform(
        module_factory=doubling, no_grad=True, service_backend="ray", num_cpus=0,
        observation_spec_transform=with_twice,
    )  # fmt: skip
    assert isinstance(transform, RayModuleTransform)
    assert transform.in_keys == ["th"]
    env = TransformedEnv(PendulumEnv(), transform)
    assert transform.parent is not None
    rollout = env.rollout(3)
    torch.testing.assert_close(rollout["next", "twice"], 2 * rollout["next", "th"])
    transform.update_weights({"module.factor": torch.tensor(3.0)})
    rollout = env.rollout(2)
    torch.testing.assert_close(rollout["next", "twice"], 3 * rollout["next", "th"])
    transform.close()
    with pytest.raises(RuntimeError, match="closed"):
        env.rollout(2)


def with_twice(spec):
    return spec.clone().set("twice", spec["th"].clone()) or spec


# Evaluations


def test_an_evaluation_in_an_actor_is_that_of_here():
    def policy_maker(env):
        return TensorDictModule(lambda th: torch.zeros(*th.shape, 1), in_keys=["th"], out_keys=["action"])

    worker = RayEvalWorker(None, PendulumEnv, policy_maker, num_gpus=0, num_cpus=0, name="an evaluation")
    assert worker.poll() is None
    worker.submit(None, max_steps=5)
    other = RayEvalWorker.from_name("an evaluation")
    found = worker.poll(timeout=60)
    assert found is not None
    assert found["reward"] < 0
    assert worker.poll() is None
    other.submit(None, max_steps=2)
    assert other.poll(timeout=60)["reward"] < 0
    worker.shutdown()
    worker.shutdown()
    with pytest.raises(RuntimeError, match="shut down"):
        worker.submit(None, 3)


# Services by name


class Counter:
    def __init__(self, start=0):
        self.value = start

    def add(self, amount):
        self.value += amount
        return self.value


class Running:
    """A service that stays whoever's it is."""

    def start(self):
        return self

    def shutdown(self, timeout=None):
        raise AssertionError("nobody but its owner ends it")

    def client(self):
        return {"the": "client"}

    @property
    def is_alive(self):
        return True


def test_what_one_process_registers_all_others_find():
    services = get_services(namespace="a test")
    try:
        actor = services.register("counter", Counter, start=5, num_cpus=0)
        assert ray.get(actor.add.remote(1)) == 6
        services.register_with_options("other", Counter, {"num_cpus": 0}, start=1)

        @ray.remote(num_cpus=0)
        def elsewhere():
            found = RayService(namespace="a test")
            return ray.get(found["counter"].add.remote(10)), found.list()

        assert ray.get(elsewhere.remote()) == (16, ["counter", "other"])
        assert "counter" in services
        assert "nothing" not in services
        with pytest.raises(ValueError, match="counter"):
            services.register("counter", Counter)
        with pytest.raises(KeyError, match="nothing"):
            services["nothing"]
        with pytest.raises(TypeError, match="client"):
            services.get_client("counter")
        assert services.register("running", Running()) == services.get_client("running") == {"the": "client"}
    finally:
        services.reset()
    assert services.list() == []
    assert not _RayActorLiveness(actor).is_set()


def test_a_service_that_cannot_be_made_leaves_no_name():
    services = get_services(namespace="another test")
    with pytest.raises(Exception, match="unexpected"):
        services.register("counter", Counter, unexpected=1, num_cpus=0)
    assert services.list() == []
    with pytest.raises(ValueError, match="nowhere"):
        get_services("nowhere")

"""Batches of environments: the same in one process and in several, and faults that are reported, never waited for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
import torch

from flambeau.data.tensordict import TensorDict
from flambeau.rl.data import Bounded, Categorical, Composite, NonTensor, Unbounded
from flambeau.rl.envs import EnvBase, EnvCreator, GymEnv, ParallelEnv, PendulumEnv, SerialEnv, check_env_specs
from flambeau.rl.errors import EnvWorkerError


class Fickle(EnvBase):
    """Counts its steps up to `length`, and does at the step `at` what `fault` says."""

    def __init__(self, length=3, fault=None, at=2, **options):
        super().__init__(**options)
        self.observation_spec = Composite(count=Unbounded((1,)))
        self.action_spec = Categorical(2)
        self.reward_spec = Unbounded((1,))
        self.length, self.fault, self.at, self.count = length, fault, at, 0

    def _given(self):
        return TensorDict({"count": torch.tensor([float(self.count)])})

    def _reset(self, tensordict, start=0, **_):
        self.count = start
        return self._given()

    def _step(self, tensordict):
        self.count += 1
        if self.count == self.at and self.fault is not None:
            self.fault()
        done = torch.tensor([self.count >= self.length])
        return self._given().update({"reward": torch.ones(1), "done": done})

    def _set_seed(self, seed):
        self.seed_given = seed

    def generator(self):
        return (number for number in range(3))

    def answer(self, number):
        return number + self.count


class Words(EnvBase):
    """Gives words, and as many numbers as they have letters."""

    def __init__(self):
        super().__init__()
        self.observation_spec = Composite(word=NonTensor(()), letters=Unbounded((-1,)))
        self.action_spec = Bounded(-1, 1, (1,))
        self.reward_spec = Unbounded((1,))

    def _given(self):
        word = "a" * (1 + self.count)
        return TensorDict({"word": word, "letters": torch.ones(len(word))})

    def _reset(self, tensordict, **_):
        self.count = 0
        return self._given()

    def _step(self, tensordict):
        self.count += 1
        return self._given().update({"reward": torch.ones(1), "done": torch.tensor([self.count > 2])})

    def _set_seed(self, seed):
        pass


def raises():
    raise ValueError("the wheel came off")


def forked(makers, **options):
    return ParallelEnv(len(makers), makers, mp_start_method="fork", **options)


def cart_pole():
    return GymEnv("CartPole-v1")


@pytest.fixture(params=["serial", "parallel"])
def batch(request):
    made = []

    def make(count, maker, **options):
        kind = SerialEnv if request.param == "serial" else ParallelEnv
        made.append(kind(count, maker, **options | ({} if kind is SerialEnv else {"mp_start_method": "fork"})))
        return made[-1]

    yield make
    for env in made:
        env.close(raise_if_closed=False)


@pytest.mark.parametrize("make", [Fickle, PendulumEnv, cart_pole])
def test_specs_hold_for_what_batches_give(batch, make):
    check_env_specs(batch(2, make))


def test_processes_give_what_one_process_gives():
    rollouts = []
    for env in (SerialEnv(2, cart_pole), forked([cart_pole] * 2)):
        with env:
            env.set_seed(1)
            torch.manual_seed(0)
            rollouts.append(env.rollout(80, break_when_any_done=False))
    assert rollouts[0]["next", "done"].any()
    assert (rollouts[0] == rollouts[1]).all()


def test_a_batch_of_gyms_environments_gives_what_they_give_on_their_own(batch):
    env, single = batch(1, cart_pole), cart_pole()
    env.set_seed(3)
    single.set_seed(3)
    torch.manual_seed(0)
    together = env.rollout(50, break_when_any_done=False)
    actions = together["action"][0]
    alone = single.rollout(50, actions=actions, break_when_any_done=False)
    assert (together[0] == alone).all()


def test_entries_that_ended_begin_anew_and_the_others_go_on(batch):
    env = batch(2, [lambda: Fickle(2), lambda: Fickle(9)])
    steps = env.rollout(5, break_when_any_done=False)
    assert steps["next", "count"].squeeze(-1).tolist() == [[1, 2, 1, 2, 1], [1, 2, 3, 4, 5]]
    assert steps["count"].squeeze(-1).tolist() == [[0, 1, 0, 1, 0], [0, 1, 2, 3, 4]]


def test_keys_that_a_policy_writes_survive_steps_and_are_zero_where_an_episode_begins(batch):
    env = batch(2, [lambda: Fickle(1), lambda: Fickle(9)])
    data = env.rand_action(env.reset()).set("memory", torch.ones(2, 3))
    _, root = env.step_and_maybe_reset(data)
    assert root["memory"].sum(-1).tolist() == [0.0, 3.0]


def test_what_a_step_gave_is_not_written_over_by_the_next(batch):
    env = batch(2, cart_pole)
    first = env.rand_step(env.reset())
    kept = first.clone()
    env.rand_step(env.step_mdp(first))
    assert (first == kept).all()


def test_masks_say_what_a_reset_begins_anew(batch):
    env = batch(3, Fickle)
    data = env.rollout(2)[:, -1]["next"]
    fresh = env.reset(data.set("_reset", torch.tensor([[False], [True], [False]])))
    assert fresh["count"].flatten().tolist() == [2, 0, 2]
    fresh = env.reset(TensorDict({"_reset": torch.tensor([[False], [False], [True]])}, [3]))
    assert fresh["count"].flatten().tolist() == [2, 0, 0]


def test_a_mask_says_what_takes_a_step(batch):
    env = batch(2, Fickle)
    data = env.rand_action(env.reset()).set("_step", torch.tensor([False, True]))
    assert env.step(data)["next", "count"].flatten().tolist() == [0, 1]
    assert data["next", "reward"].flatten().tolist() == [0, 1]


def test_arguments_of_resets_reach_the_environments(batch):
    env = batch(2, Fickle)
    assert env.reset(start=4)["count"].flatten().tolist() == [4, 4]
    assert env.reset(list_of_kwargs=[{"start": 1}, {"start": 2}])["count"].flatten().tolist() == [1, 2]


def test_seeds_follow_one_another(batch):
    env = batch(2, Fickle)
    following = env.set_seed(5)
    first, second = env.seed_given
    single = Fickle()
    assert (first, second) == (5, single.set_seed(5))
    assert following == single.set_seed(second)


def test_methods_and_attributes_of_the_environments_are_those_of_all(batch):
    env = batch(2, [lambda: Fickle(3), lambda: Fickle(4)])
    env.reset(start=2)
    assert env.length == [3, 4]
    assert env.answer(10) == [12, 12]
    with pytest.raises(AttributeError, match="nothing"):
        env.nothing


def test_each_environment_has_its_own_arguments(batch):
    env = batch(2, Fickle, create_env_kwargs=[{"length": 1}, {"length": 2}])
    assert env.rollout(2, break_when_any_done=False)["next", "done"].squeeze(-1).tolist() == [
        [True, True],
        [False, True],
    ]


def test_specs_may_differ_between_environments(batch):
    def wide():
        env = Fickle()
        env.set_spec_lock_(False)
        env.observation_spec = Composite(count=Unbounded((2,)))
        given = env._given
        env._given = lambda: given().set("count", given()["count"].expand(2).clone())
        return env

    env = batch(2, [Fickle, wide])
    steps = env.rollout(3)
    assert [part["next", "count"].shape for part in steps.unbind(0)] == [torch.Size([3, 1]), torch.Size([3, 2])]


@pytest.mark.parametrize("options", [{}, {"use_buffers": False}, {"share_individual_td": True}])
def test_words_and_values_of_any_size_travel_too(batch, options):
    env = batch(2, Words, **options)
    step = env.rand_step(env.reset())
    assert step["next", "word"] == ["aa", "aa"]
    assert [part["next", "letters"].tolist() for part in step.unbind(0)] == [[1.0, 1.0], [1.0, 1.0]]
    rolled = env.rollout(5, break_when_any_done=False)
    assert [part["word"] for part in rolled[1].unbind(0)] == ["a", "aa", "aaa", "a", "aa"]


@pytest.mark.parametrize("options", [{"use_buffers": False}, {"share_individual_td": True}, {"memmap": True}])
def test_memory_of_any_kind_gives_the_same(batch, options):
    env = batch(2, Fickle, **options)
    assert env.rollout(3)["next", "count"].squeeze(-1).tolist() == [[1, 2, 3]] * 2


def test_environments_work_on_their_device_and_deliver_to_another(batch):
    env = batch(2, lambda: Fickle(device="cpu"), device="meta")
    given = env._reset()
    assert given.device == given["count"].device == torch.device("meta")


def test_a_batch_can_be_started_again(batch):
    env = batch(2, Fickle)
    env.rollout(2)
    env.close()
    assert env.is_closed
    assert env.rollout(2).batch_size == torch.Size([2, 2])


def test_lambdas_reach_processes_that_are_spawned():
    length = 2
    make = lambda: __import__("flambeau.rl.envs").rl.envs.CartPoleEnv(max_steps=length)  # noqa: E731
    with ParallelEnv(1, make, mp_start_method="spawn") as env:
        assert env.rollout(9).batch_size == torch.Size([1, 2])


def test_environments_made_by_a_creator_share_their_state():
    class Stateful(Fickle):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.zeros(()))

        def _step(self, tensordict):
            self.total += 1
            return super()._step(tensordict)

    creator = EnvCreator(Stateful)
    with ParallelEnv(2, creator, mp_start_method="fork") as env:
        env.rollout(2)
        assert creator.state_dict()["total"] == 4


def test_facts_can_be_found_out_in_a_worker():
    with ParallelEnv(1, Fickle, mp_start_method="fork", metadata_from_workers=True) as env:
        assert env.rollout(2).batch_size == torch.Size([1, 2])
    with pytest.raises(EnvWorkerError, match="wheel"):
        ParallelEnv(1, raises, mp_start_method="fork", metadata_from_workers=True)


# Faults


def test_an_environment_that_raises_is_reported_with_its_traceback():
    env = forked([Fickle, lambda: Fickle(9, raises)])
    with pytest.raises(EnvWorkerError, match=r"environment 1 raised ValueError: the wheel came off") as caught:
        env.rollout(5, break_when_any_done=False)
    assert "in raises" in str(caught.value)
    assert isinstance(caught.value.__cause__, ValueError)
    assert env.is_closed


def test_an_environment_that_cannot_be_made_is_reported():
    made = []

    def second():
        made.append(1)
        if len(made) > 1:
            raises()
        return Fickle()

    with pytest.raises(EnvWorkerError, match="wheel came off"):
        forked([second]).reset()


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (lambda: os._exit(3), "ended with code 3"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "ended by SIGKILL"),
        (lambda: os.kill(os.getpid(), signal.SIGSEGV), r"(?s)ended by SIGSEGV.*_step"),
    ],
)
def test_a_process_that_dies_is_reported(fault, message):
    env = forked([Fickle, lambda: Fickle(9, fault)])
    with pytest.raises(EnvWorkerError, match=message):
        env.rollout(5, break_when_any_done=False)


def test_an_environment_that_hangs_is_reported_with_where_it_is(monkeypatch):
    monkeypatch.setenv("BATCHED_PIPE_TIMEOUT", "0.5")
    env = forked([lambda: Fickle(9, lambda: time.sleep(1000))])
    with pytest.raises(EnvWorkerError, match=r"(?s)environment 0 has not answered for 0.5 s.*_step"):
        env.rollout(5)


def test_a_method_that_raises_leaves_the_environments_as_they_are():
    with forked([Fickle]) as env:
        env.reset(start=2)
        with pytest.raises(EnvWorkerError, match="TypeError"):
            env.answer("one")
        with pytest.raises(EnvWorkerError, match="pickle"):
            env.generator()
        assert env.answer(1) == [3]


def test_processes_end_when_the_main_process_is_killed():
    program = (
        "import os, signal\nfrom flambeau.rl.envs import CartPoleEnv, ParallelEnv\n"
        "env = ParallelEnv(2, CartPoleEnv, mp_start_method='fork')\nenv.reset()\n"
        "print(*[process.pid for process in env._workers.processes], flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False)
    workers = [int(number) for number in done.stdout.split()]
    assert len(workers) == 2
    until = time.monotonic() + 10
    while any(_runs(pid) for pid in workers):
        assert time.monotonic() < until
        time.sleep(0.02)


def _runs(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def test_processes_end_with_the_program():
    program = (
        "from flambeau.rl.envs import CartPoleEnv, ParallelEnv\n"
        "env = ParallelEnv(2, CartPoleEnv, mp_start_method='fork')\nenv.reset()\nprint('done')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("done\n", "", 0)


def test_what_does_not_fit_is_refused():
    with pytest.raises(RuntimeError, match="2 entries, for num_workers=3"):
        SerialEnv(3, [Fickle, Fickle])
    with pytest.raises(TypeError, match="must be a function that makes an environment"):
        SerialEnv(1, Fickle())
    with pytest.raises(TypeError, match="no EnvBase"):
        SerialEnv(1, lambda: 3)
    with SerialEnv(2, Fickle) as env, pytest.raises(RuntimeError, match="batch size"):
        env.step(TensorDict({}, [3]))


def test_a_value_of_another_shape_than_its_spec_is_refused(batch):
    def wrong():
        env = Fickle()
        env._given = lambda: TensorDict({"count": torch.zeros(2)})
        return env

    with pytest.raises(RuntimeError, match=r"'count' with the shape \(2,\)"):
        batch(1, wrong).reset()

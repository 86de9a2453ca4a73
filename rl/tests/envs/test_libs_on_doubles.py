"""Adapters of libraries that do not install beside the others: on doubles that have the libraries' public interface.

Each double has the names, arguments and results that the library documents, and nothing else.
"""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch

from flambeau.data.tensordict import TensorDict
from flambeau.rl.envs import check_env_specs, libs


def provide(monkeypatch, name, **content):
    module = ModuleType(name)
    module.__dict__.update(content)
    module.__spec__ = SimpleNamespace(name=name, loader=None)
    monkeypatch.setitem(sys.modules, name, module)


def check_unseeded(env):
    """An environment says that it takes no seed, and keeps to its specs."""
    with pytest.warns(UserWarning, match="set_seed has no effect"):
        check_env_specs(env)


# SMACv2: `StarCraft2Env` of oxwhirl/smacv2


class StarCraft2Env:
    """Three agents with five actions; the last action is never allowed; over after four steps."""

    marine_id, zealot_id = 48, 73

    def __init__(self, map_name, seed=None, **kwargs):
        self.map_name, self.seed_given, self.options = map_name, seed, kwargs
        self.agents = {0: SimpleNamespace(unit_type=48), 1: SimpleNamespace(unit_type=73)}
        self.taken, self.closed = [], False

    def get_env_info(self):
        return {"state_shape": 6, "obs_shape": 4, "n_actions": 5, "n_agents": 3, "episode_limit": 4}

    def reset(self, episode_config=None):
        self.taken = []
        return self.get_obs(), self.get_state()

    def step(self, actions):
        assert all(self.get_avail_agent_actions(at)[action] for at, action in enumerate(actions))
        self.taken.append(list(actions))
        over = len(self.taken) == 4
        info = {"battle_won": True, "dead_allies": 0, "dead_enemies": 2} if over else {}
        return 1.5, over, info

    def get_obs(self):
        return [np.full(4, at + len(self.taken), dtype=np.float32) for at in range(3)]

    def get_state(self):
        return np.full(6, len(self.taken), dtype=np.float32)

    def get_avail_agent_actions(self, agent):
        return [1, 1, 1, 1, 0]

    def get_avail_actions(self):
        return [self.get_avail_agent_actions(at) for at in range(3)]

    def render(self, mode="human"):
        return np.zeros((2, 2, 3)) if mode == "rgb_array" else None

    def close(self):
        self.closed = True


@pytest.fixture
def smac(monkeypatch):
    provide(monkeypatch, "smacv2")
    provide(monkeypatch, "smacv2.env", StarCraft2Env=StarCraft2Env)


@pytest.mark.parametrize("categorical", [True, False])
def test_a_team_takes_actions_that_are_allowed(smac, categorical):
    env = libs.SMACv2Env("MMM2", seed=3, categorical_actions=categorical)
    check_unseeded(env)
    rollout = env.rollout(10)
    assert rollout.shape == (4,)
    assert rollout["next", "reward"].flatten().tolist() == [1.5] * 4
    assert rollout["next", "info", "dead_enemies"].tolist() == [0, 0, 0, 2]
    assert rollout["next", "terminated"].flatten().tolist() == [False] * 3 + [True]
    action = rollout["agents", "action"] if categorical else rollout["agents", "action"].long().argmax(-1)
    assert env._env.taken == action.tolist()
    assert env._env.seed_given == 3


def test_units_have_names(smac):
    env = libs.SMACv2Env("MMM2")
    assert [env.get_agent_type(at) for at in range(2)] == ["marine", "zealot"]
    env.close()
    assert env._env is None or env._env.closed


# Melting Pot: a substrate, which is a dm_env.Environment whose specs and values are lists, one item a player


def spec(shape, dtype, count=None):
    return SimpleNamespace(shape=shape, dtype=np.dtype(dtype), num_values=count)


class Substrate:
    def __init__(self):
        self.now, self.taken = 0, []

    def observation_spec(self):
        one = {"RGB": spec((8, 8, 3), "uint8"), "READY": spec((), "float64"), "WORLD.RGB": spec((4, 6, 3), "uint8")}
        return [one, one]

    def action_spec(self):
        return [spec((), "int64", 7), spec((), "int64", 7)]

    def _timestep(self):
        one = [
            {"RGB": np.full((8, 8, 3), self.now, np.uint8), "READY": np.float64(at),
             "WORLD.RGB": np.full((4, 6, 3), self.now, np.uint8)}
            for at in range(2)
        ]  # fmt: skip
        reward = [np.float64(self.now), np.float64(-self.now)]
        return SimpleNamespace(observation=one, reward=reward, last=lambda: self.now == 5)

    def reset(self):
        self.now = 0
        return self._timestep()

    def step(self, actions):
        self.now += 1
        self.taken.append(list(actions))
        return self._timestep()


@pytest.fixture
def pot(monkeypatch):
    made = []

    def build_from_config(config, *, roles):
        made.append((config.name, tuple(roles)))
        return Substrate()

    provide(monkeypatch, "meltingpot")
    get_config = lambda name: SimpleNamespace(name=name, default_player_roles=("a", "b"))  # noqa: E731
    provide(monkeypatch, "meltingpot.substrate", get_config=get_config, build_from_config=build_from_config)
    return made


@pytest.mark.parametrize(("options", "steps"), [({}, 5), ({"max_steps": 3}, 3), ({"categorical_actions": False}, 5)])
def test_players_see_act_and_are_rewarded(pot, options, steps):
    env = libs.MeltingpotEnv("clean_up", **options)
    check_unseeded(env)
    env._env.taken.clear()
    rollout = env.rollout(10)
    assert pot == [("clean_up", ("a", "b"))]
    assert rollout.shape == (steps,)
    assert rollout["next", "agents", "reward"].squeeze(-1).tolist() == [[at, -at] for at in range(1, steps + 1)]
    assert rollout["agents", "observation", "READY"].shape == (steps, 2, 1)
    assert rollout["next", "RGB"].shape == (steps, 4, 6, 3)
    action = rollout["agents", "action"]
    assert env._env.taken == (action if action.ndim == 2 else action.long().argmax(-1)).tolist()
    assert env.get_rgb_image().tolist() == rollout["next", "RGB"][-1].tolist()


def test_players_may_be_alone(pot):
    env = libs.MeltingpotEnv("clean_up", group_map={"one": ["player_1"], "other": ["player_0"]})
    check_unseeded(env)
    assert env.rollout(1)["next", "one", "reward"].tolist() == [[[-1.0]]]


# Procgen: `ProcgenEnv`, a vector environment of baselines' kind


class ProcgenVector:
    """Games that end after three and four steps, and begin anew by themselves."""

    observation_space = None
    action_space = SimpleNamespace(n=15)

    def __init__(self, num_envs, env_name, **options):
        self.num_envs, self.env_name, self.options = num_envs, env_name, options
        self.at = np.zeros(num_envs, int)
        self.resets = 0

    def _observation(self):
        return {"rgb": np.broadcast_to(self.at[:, None, None, None], (self.num_envs, 64, 64, 3)).astype(np.uint8)}

    def reset(self):
        self.at[:] = 0
        self.resets += 1
        return self._observation()

    def step(self, actions):
        assert actions.dtype == np.int32
        assert actions.shape == (self.num_envs,)
        self.at += 1
        done = self.at >= 3 + np.arange(self.num_envs)
        self.at[done] = 0
        return self._observation(), done.astype(np.float32), done, [{}] * self.num_envs

    def close(self):
        pass


@pytest.fixture
def procgen(monkeypatch):
    provide(monkeypatch, "procgen", ProcgenEnv=ProcgenVector)


@pytest.mark.parametrize("categorical", [True, False])
def test_games_go_on_by_themselves(procgen, categorical):
    env = libs.ProcgenEnv("coinrun", num_envs=2, seed=5, num_levels=7, categorical_actions=categorical)
    check_unseeded(env)
    assert env._env.options == {"rand_seed": 5, "num_levels": 7}
    before = env._env.resets
    rollout = env.rollout(5, break_when_any_done=False)
    assert env._env.resets == before + 1
    assert rollout["observation"][:, :, 0, 0, 0].tolist() == [[0, 1, 2, 0, 1], [0, 1, 2, 3, 0]]
    assert rollout["next", "done"].squeeze(-1).int().tolist() == [[0, 0, 1, 0, 0], [0, 0, 0, 1, 0]]


def test_unknown_games_are_refused(procgen):
    with pytest.raises(ValueError, match="coinrun"):
        libs.ProcgenEnv("pong")


# Safety-Gymnasium: environments of gymnasium whose step has six results


@pytest.fixture
def safety(monkeypatch):
    gymnasium = pytest.importorskip("gymnasium")

    class Task(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(-1, 1, (3,), np.float64)
        action_space = gymnasium.spaces.Box(-1, 1, (2,), np.float64)

        def __init__(self, **options):
            self.options, self.at = options, 0

        def reset(self, *, seed=None, options=None):
            self.at = 0
            return np.zeros(3), {}

        def step(self, action):
            self.at += 1
            return np.full(3, self.at / 10), 1.0, 0.5 * self.at, False, self.at == 4, {"cost_sum": 0.0}

    provide(monkeypatch, "safety_gymnasium", make=lambda name, **options: Task(name=name, **options))


def test_costs_are_written_beside_rewards(safety):
    env = libs.SafetyGymnasiumEnv("SafetyPointGoal1-v0", camera_name="human")
    check_env_specs(env)
    rollout = env.rollout(10)
    assert rollout["next", "cost"].flatten().tolist() == [0.5, 1.0, 1.5, 2.0]
    assert rollout["next", "truncated"].flatten().tolist() == [False] * 3 + [True]
    assert env._env.unwrapped.options == {"name": "SafetyPointGoal1-v0", "camera_name": "human"}


# OpenML: the table is read as `OpenMLExperienceReplay` does


@pytest.mark.parametrize("size", [None, 4, (2, 3)])
def test_right_actions_are_rewarded(monkeypatch, size):
    from flambeau.rl.envs.libs import openml

    rows = TensorDict({"X": torch.randn(6, 3, dtype=torch.float64), "y": torch.tensor([0, 1, 2, 0, 1, 2])}, [6])
    asked = []
    monkeypatch.setattr(openml, "OpenMLExperienceReplay", lambda *given, **options: asked.append(given) or rows)
    env = libs.OpenMLEnv("adult_num", batch_size=size)
    check_env_specs(env)
    assert asked == [("adult_num", 1)]
    env.set_seed(0)
    first = env.reset()
    right = env.step(first.clone().set("action", first["y"]))["next"]
    wrong = env.step(first.clone().set("action", (first["y"] + 1) % 3))["next"]
    assert (right["reward"] == 1).all()
    assert (wrong["reward"] == 0).all()
    assert right["terminated"].all()


@pytest.mark.parametrize(
    ("make", "library"),
    [
        (lambda: libs.SMACv2Env("MMM2"), "smacv2"),
        (lambda: libs.MeltingpotEnv("clean_up"), "meltingpot"),
        (lambda: libs.ProcgenEnv("coinrun"), "procgen"),
        (lambda: libs.SafetyGymnasiumEnv("SafetyPointGoal1-v0"), "safety_gymnasium"),
    ],
)
def test_a_library_that_is_missing_is_named(monkeypatch, make, library):
    import importlib.util

    if importlib.util.find_spec(library) is not None:
        pytest.skip(f"{library} is here")
    with pytest.raises(ImportError, match=library):
        make()

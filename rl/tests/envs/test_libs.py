"""Environments of other libraries, where these are installed: they keep to their specs, and begin anew by mask."""

from __future__ import annotations

import importlib.util
import os
import warnings

import pytest
import torch

from flambeau.data.tensordict import TensorDict
from flambeau.rl.envs import check_env_specs, get_available_libraries, libs
from flambeau.rl.envs.utils import MarlGroupMapType

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("MUJOCO_GL", "disable")

# What other libraries warn of is theirs.
pytestmark = pytest.mark.filterwarnings("ignore")


def needs(module):
    return pytest.mark.skipif(importlib.util.find_spec(module) is None, reason=f"needs {module}")


def zoo(name, parallel, **kwargs):
    return libs.PettingZooEnv(f"classic/{name}", parallel=parallel, **kwargs)


EVERY = [
    pytest.param(lambda: libs.DMControlEnv("cartpole", "swingup"), marks=needs("dm_control"), id="dm_control"),
    pytest.param(
        lambda: libs.DMControlEnv("cheetah", "run", frame_skip=2), marks=needs("dm_control"), id="dm_control, frames"
    ),
    pytest.param(lambda: libs.MOGymEnv("deep-sea-treasure-v0"), marks=needs("mo_gymnasium"), id="mo_gymnasium"),
    pytest.param(lambda: libs.VmasEnv("balance", num_envs=2, n_agents=3), marks=needs("vmas"), id="vmas"),
    pytest.param(
        lambda: libs.VmasEnv("balance", num_envs=2, n_agents=3, continuous_actions=False),
        marks=needs("vmas"),
        id="vmas, numbers",
    ),
    pytest.param(
        lambda: libs.VmasEnv("balance", num_envs=2, n_agents=3, continuous_actions=False, categorical_actions=False),
        marks=needs("vmas"),
        id="vmas, one-hot",
    ),
    pytest.param(lambda: libs.VmasEnv("simple_tag", num_envs=2), marks=needs("vmas"), id="vmas, two groups"),
    pytest.param(lambda: zoo("rps_v2", True), marks=needs("pettingzoo"), id="pettingzoo, at once"),
    pytest.param(
        lambda: zoo("rps_v2", True, categorical_actions=False, use_mask=True),
        marks=needs("pettingzoo"),
        id="pettingzoo, one-hot",
    ),
    pytest.param(lambda: libs.OpenSpielEnv("kuhn_poker"), marks=needs("pyspiel"), id="openspiel, chance"),
    pytest.param(
        lambda: libs.OpenSpielEnv("tic_tac_toe", categorical_actions=True), marks=needs("pyspiel"), id="openspiel"
    ),
    pytest.param(lambda: libs.OpenSpielEnv("goofspiel"), marks=needs("pyspiel"), id="openspiel, at once"),
    pytest.param(lambda: libs.LBForagingEnv("Foraging-8x8-2p-1f-v3"), marks=needs("lbforaging"), id="lbforaging"),
    pytest.param(lambda: libs.BraxEnv("fast"), marks=[needs("brax"), pytest.mark.slow], id="brax"),
    pytest.param(
        lambda: libs.BraxEnv("fast", batch_size=[2]), marks=[needs("brax"), pytest.mark.slow], id="brax, batch"
    ),
    pytest.param(lambda: libs.JumanjiEnv("Snake-v1"), marks=[needs("jumanji"), pytest.mark.slow], id="jumanji"),
    pytest.param(
        lambda: libs.JumanjiEnv("Snake-v1", batch_size=[2]),
        marks=[needs("jumanji"), pytest.mark.slow],
        id="jumanji, batch",
    ),
    pytest.param(lambda: libs.MultiThreadedEnv(2, "Pendulum-v1"), marks=needs("envpool"), id="envpool"),
]


@pytest.fixture(params=EVERY)
def env(request):
    made = request.param()
    yield made
    made.close()


def test_it_keeps_to_its_specs(env):
    check_env_specs(env)
    rollout = env.rollout(4, break_when_any_done=False)
    assert rollout.batch_size == (*env.batch_size, 4)
    assert env.libname and env.git_url and env.available_envs


def test_entries_begin_anew_by_mask(env):
    if not env.batch_size:
        pytest.skip("it is a single environment")
    root = env.step_mdp(env.rollout(3)[..., -1])
    mask = torch.tensor([[True], [False]])
    fresh = env.reset(root.clone().set("_reset", mask))
    for key in env.observation_keys:
        torch.testing.assert_close(fresh[1].get(key), root[1].get(key))


# A library at a time


@needs("dm_control")
def test_a_seed_tells_where_dm_control_begins():
    env = libs.DMControlEnv("cartpole", "swingup")
    firsts = []
    for _ in range(2):
        env.set_seed(3)
        firsts.append(env.reset()["position"])
    torch.testing.assert_close(*firsts)


@needs("mo_gymnasium")
def test_rewards_of_several_objectives():
    rollout = libs.MOGymEnv("deep-sea-treasure-v0").rollout(3, break_when_any_done=False)
    assert rollout["next", "reward"].shape == (3, 2)
    assert (rollout["next", "reward"][:, 1] == -1).all()


@needs("vmas")
def test_agents_of_vmas_may_be_grouped():
    env = libs.VmasEnv("balance", num_envs=2, n_agents=3, group_map=MarlGroupMapType.ONE_GROUP_PER_AGENT)
    assert set(env.group_map) == {"agent_0", "agent_1", "agent_2"}
    assert env.rollout(2)["agent_1", "observation"].shape == (2, 2, 1, 16)


@needs("vmas")
def test_vmas_truncates_after_its_last_step():
    env = libs.VmasEnv("balance", num_envs=2, n_agents=2, max_steps=3)
    assert env.rollout(10).batch_size == (2, 3)


@needs("pettingzoo")
def test_agents_take_turns():
    env = zoo("tictactoe_v3", False, use_mask=True)
    assert set(env.group_map) == {"player_1", "player_2"}

    def legal(td):
        for group in env.group_map:
            td.set((group, "action"), td[group, "action_mask"].long().argmax(-1))
        return td

    rollout = env.rollout(9, legal)
    assert rollout["player_1", "mask"].flatten().tolist()[:4] == [True, False, True, False]
    # The first has 1, 3, 5 and 7 in the end, which are three in a row with 3, 5 and 7.
    assert len(rollout) == 7
    assert rollout["next", "player_1", "reward"].sum() == 1 and rollout["next", "player_2", "reward"].sum() == -1
    with pytest.raises(ValueError, match="use_mask=True"):
        zoo("tictactoe_v3", False)


@needs("pyspiel")
def test_a_game_ends_with_a_winner():
    env = libs.OpenSpielEnv("tic_tac_toe", categorical_actions=True)
    rollout = env.rollout(9)
    assert rollout["next", "done"][-1]
    assert rollout["next", "agents", "reward"].sum() == 0
    assert rollout["current_player"].tolist() == [step % 2 for step in range(len(rollout))]


@needs("pyspiel")
def test_moves_that_are_not_allowed_are_named():
    env = libs.OpenSpielEnv("tic_tac_toe", categorical_actions=True)
    first = env.reset()
    actions = first.clone().update(env.full_action_spec.zero())
    root = env.step_mdp(env.step(actions))
    assert len(env.all_actions()) == 8
    with pytest.raises(RuntimeError, match=r"player_1 may not take action 0; those that it may are \[1, 2"):
        env.step(root.update(env.full_action_spec.zero()))


@needs("pyspiel")
def test_a_game_goes_on_from_a_state():
    env = libs.OpenSpielEnv("tic_tac_toe", return_state=True)
    root = env.step_mdp(env.rand_step(env.reset()))
    state = root["state"]
    env.reset()
    again = env.reset(TensorDict({"state": root.get("state")}, []))
    assert again["state"] == state
    torch.testing.assert_close(again["agents", "observation"], root["agents", "observation"])


@pytest.mark.slow
@needs("brax")
def test_brax_steps_from_the_state_that_it_is_given():
    env = libs.BraxEnv("inverted_pendulum")
    env.set_seed(0)
    root = env.rand_action(env.reset())
    first, second = (env.step(root.clone())["next", "observation"] for _ in range(2))
    torch.testing.assert_close(first, second)


@pytest.mark.slow
@needs("jumanji")
def test_jumanji_steps_from_the_state_that_it_is_given():
    env = libs.JumanjiEnv("Snake-v1", batch_size=[2], categorical_action_encoding=False)
    env.set_seed(0)
    root = env.rand_action(env.reset())
    first, second = (env.step(root.clone())["next", "grid"] for _ in range(2))
    torch.testing.assert_close(first, second)
    assert root["action"].shape == (2, 4)


@needs("envpool")
def test_a_pool_truncates_and_goes_on():
    env = libs.MultiThreadedEnv(2, "Pendulum-v1", create_env_kwargs={"max_episode_steps": 3})
    truncated = env.rollout(7, break_when_any_done=False)["next", "truncated"].squeeze(-1)
    assert truncated.tolist() == [[False, False, True, False, False, True, False]] * 2
    firsts = []
    for _ in range(2):
        env.set_seed(5)
        firsts.append(env.reset()["observation"])
    torch.testing.assert_close(*firsts)


# Without a library


@pytest.mark.parametrize("name", sorted(name for name in libs.__all__ if name.endswith("Wrapper")))
def test_what_is_no_environment_of_the_library_is_refused(name):
    with pytest.raises(TypeError, match=r"takes|needs|has no|spaces"):
        getattr(libs, name)(env=object())


@pytest.mark.parametrize(
    ("module", "make"),
    [
        ("dm_control", lambda: libs.DMControlEnv("cartpole", "swingup")),
        ("mo_gymnasium", lambda: libs.MOGymEnv("minecart-v0")),
        ("vmas", lambda: libs.VmasEnv("balance", num_envs=1)),
        ("pettingzoo", lambda: libs.PettingZooEnv("classic/rps_v2", parallel=True)),
        ("pyspiel", lambda: libs.OpenSpielEnv("chess")),
        ("lbforaging", lambda: libs.LBForagingEnv("Foraging-8x8-2p-1f-v3")),
        ("brax", lambda: libs.BraxEnv("fast")),
        ("jumanji", lambda: libs.JumanjiEnv("Snake-v1")),
        ("envpool", lambda: libs.MultiThreadedEnv(1, "Pendulum-v1")),
    ],
)
def test_a_library_that_is_missing_is_named(module, make):
    if importlib.util.find_spec(module) is not None:
        pytest.skip(f"{module} is installed")
    with pytest.raises(ImportError, match=f"{module}.*pip install"):
        make()


def test_libraries_that_are_installed_are_listed():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "gymnasium" in get_available_libraries()

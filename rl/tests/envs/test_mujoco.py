"""Environments of MuJoCo models: their specs, physics, states, rewards and macro actions."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

from flambeau.data.tensordict import TensorDict
from flambeau.rl.envs import SerialEnv, TransformedEnv, check_env_specs

pytest.importorskip("mujoco", reason="needs mujoco; `pip install 'flambeau-rl[mujoco]'`")

from flambeau.rl.envs.custom.mujoco import (
    AntEnv,
    HopperEnv,
    HumanoidEnv,
    HumanoidMacroAction,
    MujocoEnv,
    RobotMacroAction,
    SatelliteAttitudeTransform,
    SatelliteEnv,
    SatelliteMacroAction,
    URScriptPrimitiveTransform,
    Walker2dEnv,
)

ALL = [HopperEnv, Walker2dEnv, AntEnv, HumanoidEnv, SatelliteEnv]
BALL = """<mujoco><option timestep="0.01"/><worldbody><body name="ball" pos="0 0 1"><freejoint/>
<geom name="ball" size="0.1"/><site name="top" pos="0 0 0.1"/></body></worldbody></mujoco>"""


class Falling(MujocoEnv):
    """A ball, which is rewarded for its height."""

    RESET_NOISE_SCALE = 0.0

    def _compute_reward(self, state, action, next_state):
        return next_state["qpos"][:, 2:3]

    def _compute_done(self, state, next_state):
        return next_state["qpos"][:, 2:3] < 0.5


@pytest.fixture
def ball(tmp_path):
    path = tmp_path / "ball.xml"
    path.write_text(BALL)
    return path


def stepped(env, action=None):
    td = env.reset()
    return env.step(td.set("action", env.action_spec.zero() if action is None else action))["next"]


@pytest.mark.parametrize("cls", ALL)
@pytest.mark.parametrize("num_envs", [1, 3])
def test_they_keep_to_their_specs(cls, num_envs):
    check_env_specs(cls(num_envs=num_envs, seed=0))


@pytest.mark.parametrize("cls", ALL)
def test_a_state_that_is_brought_back_goes_on_the_same(cls):
    env = cls(num_envs=2, seed=0)
    env.rollout(3, break_when_any_done=False)
    state, actions = env.get_state(), env.action_spec.rand()
    begun = env.reset(state.clone(), set_state=True).set("action", actions)
    state.update(begun.select(*env.full_state_spec.keys()))
    first = env.step(begun.clone())["next"]
    env.rollout(3, break_when_any_done=False)
    env.reset(state, set_state=True)
    torch.testing.assert_close(env.step(begun.clone())["next"]["reward"], first["reward"])


@pytest.mark.parametrize("cls", ALL)
def test_the_seed_decides_on_all(cls):
    one, other = (cls(seed=3) for _ in range(2))
    torch.manual_seed(0)
    first = one.rollout(4, break_when_any_done=False)
    torch.manual_seed(0)
    assert (first == other.rollout(4, break_when_any_done=False)).all()


def test_what_falls_does_so_by_gravity(ball):
    env = Falling(xml_path=ball, frame_skip=10)
    height = stepped(env)["reward"].item()
    assert height == pytest.approx(1 - 9.81 * 0.1**2 / 2, abs=0.006)
    assert env.get_state()["time"].item() == pytest.approx(0.1)


def test_positions_and_contacts_are_those_of_the_present_state(ball):
    env = Falling(xml_path=ball, frame_skip=10)
    stepped(env)
    state = env.get_state()
    assert env.site_positions(["top"])[0, 0, 2].item() == pytest.approx(state["qpos"][0, 2].item() + 0.1, abs=1e-6)
    assert not env.geom_contacts(["ball"]).any()
    state["qpos"][0, 2] = 0.05
    env.reset(state, set_state=True)
    assert env.geom_contacts(["ball", "floor"]).all()


def test_it_ends_by_the_state_or_by_the_number_of_steps(ball):
    env = Falling(xml_path=ball, frame_skip=10, max_episode_steps=2)
    rollout = env.rollout(9)
    assert rollout["next", "truncated"].flatten().tolist() == [False, True]
    assert not rollout["next", "terminated"].any()
    env = Falling(xml_path=ball, frame_skip=10)
    assert env.rollout(99)["next", "terminated"].flatten()[-1]


def test_a_mask_resets_some_and_leaves_the_others(ball):
    env = Falling(xml_path=ball, num_envs=2, frame_skip=10)
    stepped(env)
    env.reset(TensorDict({"_reset": torch.tensor([[True], [False]])}, [2]))
    assert env.get_state()["time"].tolist() == pytest.approx([0.0, 0.1])


def test_parts_of_an_environment_go_on_by_themselves_and_come_back():
    env = SatelliteEnv(num_envs=3, seed=0)
    env.reset()
    before = env.get_state()
    part = env[1:]
    assert part.batch_size == torch.Size([2])
    part.rollout(3, auto_reset=False, tensordict=TensorDict({}, [2]))
    assert (env.get_state() == before).all()
    env[:2] = part
    after = env.get_state()
    assert (after[:2] == part.get_state()).all()
    assert (after[2] == before[2]).all()


def test_several_of_the_native_engine_are_a_vectorised_environment():
    env = HopperEnv(backend="mujoco", num_envs=2, parallel=False, seed=0)
    assert isinstance(env, SerialEnv)
    assert env.rollout(2, break_when_any_done=False)["observation"].shape == (2, 1, 2, 11)


def test_running_pays_falling_does_not():
    env = HopperEnv(seed=0, reset_noise_scale=0.0)
    env.reset()
    state = env.get_state()
    state["qvel"][0, 0] = 2.0
    begun = env.reset(state, set_state=True).set("action", env.action_spec.zero())
    assert env.step(begun)["next", "reward"].item() == pytest.approx(3.0, abs=0.3)
    state["qpos"][0, 1:3] = torch.tensor([2.0, 0.5])
    begun = env.reset(state, set_state=True).set("action", env.action_spec.zero())
    fallen = env.step(begun)["next"]
    assert fallen["terminated"].item()
    assert fallen["reward"].item() < 2.1


@pytest.mark.parametrize("num_cmgs", [4, 6])
def test_the_steering_law_turns_a_satellite_to_its_target(num_cmgs):
    env = SatelliteEnv(num_cmgs=num_cmgs, seed=1)
    target = torch.tensor([[0.9848, 0.0, 0.1736, 0.0]])  # 20 degrees
    td = env.reset(TensorDict({"target_quat": target, "init_bus_quat": torch.tensor([[1.0, 0, 0, 0]])}, [1]))
    law = SatelliteAttitudeTransform(num_cmgs=num_cmgs)
    assert td["quat_err"].norm().item() == pytest.approx(0.349, abs=1e-3)
    for _ in range(300):
        td = env.step_mdp(env.step(td.set("action", law.attitude_action_target(td, target))))
    assert td["quat_err"].norm().item() < 0.1


def test_macro_actions_are_executed_in_one_step():
    env = SatelliteEnv(seed=0)
    env = TransformedEnv(env, env.make_attitude_transform())
    td = env.reset()
    td["action"] = SatelliteMacroAction.slew_attitude(td["target_quat"], steps=2, settle_steps=1)
    assert env.step(td)["next", "reward"].shape == (1, 3, 1)
    env = HumanoidEnv(seed=0)
    env = TransformedEnv(env, env.make_control_transform())
    td = env.reset().set("action", HumanoidMacroAction.reach_control(torch.zeros(1, 21), steps=4))
    assert env.step(td)["next", "reward"].shape == (1, 4, 1)


def arm(action):
    return TensorDict({"action": action, "robot_qpos": torch.zeros(1, 6), "gripper_qpos": torch.ones(1, 2)}, [1])


def test_an_arm_moves_its_joints_step_by_step():
    moves = RobotMacroAction.reach_joints(joints=torch.ones(1, 6), steps=4, settle_steps=1, gripper="closed")
    sequence = URScriptPrimitiveTransform(close_gripper_ctrl=9.0).inv(arm(moves))["action"][0]
    torch.testing.assert_close(sequence[:, 0], torch.tensor([0.25, 0.5, 0.75, 1.0, 1.0]))
    assert (sequence[:, 6] == 9).all()


def test_grippers_close_step_by_step_while_joints_are_held():
    sequence = URScriptPrimitiveTransform(close_gripper_ctrl=9.0).inv(arm(RobotMacroAction.close_gripper(steps=2)))
    assert sequence["action"][0, :, 6].tolist() == [5.0, 9.0]
    assert (sequence["action"][0, :, :6] == 0).all()


def test_solvers_get_what_they_take_and_are_refused_else():
    asked = []

    def straight(pose, start, *, waypoints=None):
        asked.append(waypoints)
        found = torch.cat([pose[..., :6], start[..., 6:]], -1)
        return found if waypoints is None else found.unsqueeze(-2).expand(1, waypoints, 7)

    transform = URScriptPrimitiveTransform(cartesian_solver=straight)
    pose = {"position": torch.full((1, 3), 0.5), "steps": 3}
    sequence = transform.inv(arm(RobotMacroAction.reach_pose(**pose, path="cartesian")))["action"]
    assert asked == [None, 3]
    assert (sequence[0, :, :3] == 0.5).all()
    with pytest.raises(TypeError, match="orientation_mask"):
        transform.inv(arm(RobotMacroAction.reach_pose(**pose, orientation_mask=(1.0, 1.0, 0.0))))


def test_home_is_where_the_environment_says():
    with pytest.raises(RuntimeError, match="robot_home_qpos"):
        URScriptPrimitiveTransform().inv(arm(RobotMacroAction.RESET))


def test_an_actuator_without_bounds_takes_any_control(tmp_path):
    path = tmp_path / "pushed.xml"
    path.write_text(BALL.replace("<freejoint/>", '<joint name="x" type="slide"/>').replace(
        "</worldbody>", '</worldbody><actuator><motor joint="x"/></actuator>'))  # fmt: skip
    spec = Falling(xml_path=path).action_spec
    assert spec.is_in(torch.full((1, 1), 1e6))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"pixels_only": True}, ValueError, "from_pixels"),
        ({"backend": "bullet"}, ValueError, "bullet"),
        ({"xml_path": "no/such.xml"}, FileNotFoundError, "no/such.xml"),
        ({"backend": "mujoco", "num_envs": 2, "num_workers": 2}, ValueError, "num_workers"),
    ],
)
def test_what_is_wrong_is_said(arguments, error, message):
    with pytest.raises(error, match=message):
        HopperEnv(**arguments)


def test_names_that_the_model_lacks_are_said():
    with pytest.raises(KeyError, match="no geom named 'wing'"):
        HopperEnv(seed=0).geom_contacts(["wing"])


PICTURE = """
import torch
from flambeau.rl.envs.custom.mujoco import SatelliteEnv
pixels = SatelliteEnv(seed=0, from_pixels=True, render_every=2).rollout(3)["pixels"][0]
assert pixels.dtype == torch.uint8 and pixels.shape == (3, 64, 64, 3), pixels.shape
assert (pixels[0, 0, 0] == torch.tensor([0, 0, 13])).all(), pixels[0, 0, 0]
assert pixels[0].unique().numel() > 20
assert SatelliteEnv(seed=0, num_envs=2).render(width=32, height=16).shape == (2, 16, 32, 3)
print("drawn")
"""


@pytest.mark.slow
def test_pictures_show_the_model():
    """In a process of its own: MuJoCo chooses OpenGL when it is first imported."""
    environ = {**os.environ, "MUJOCO_GL": "egl"}
    run = [sys.executable, "-W", "ignore", "-c", PICTURE]
    done = subprocess.run(run, env=environ, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode and "EGL" in done.stderr and "AssertionError" not in done.stderr:
        pytest.skip("no EGL on this machine: " + done.stderr.splitlines()[-1])
    assert done.stdout.strip() == "drawn", done.stderr

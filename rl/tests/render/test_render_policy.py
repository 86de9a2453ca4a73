"""Rendering of policies: configurations, policies and environments by name, recorded episodes, and what is written."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from flambeau.data.tensordict import TensorDict
from flambeau.rl.envs import CartPoleEnv
from flambeau.rl.envs.custom import ToyVLAEnv
from flambeau.rl.render import (
    RenderConfig,
    TensorDictPolicyAdapter,
    call_with_supported_kwargs,
    checkpoint_hash,
    extract_qpos_trajectory,
    import_from_string,
    infer_state_dict,
    load_checkpoint,
    make_render_env,
    parse_nested_key,
    render_policy,
    save_render_checkpoint,
)
from flambeau.rl.render.backends import MujocoStateReader, NullRenderBackend, RenderBackend, TensorDictPixelsBackend
from flambeau.rl.render.cli import build_parser, config_from_args, main


class Reach(nn.Module):
    """Goes where the state says the target is."""

    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.zeros(()))

    def forward(self, state):
        return self.gain * state[..., 2:4]


def make_policy(spec):
    return Reach()


def make_env(spec):
    return ToyVLAEnv(action_dim=2, success_steps=2, from_pixels=True, render_size=16, seed=0)


@pytest.fixture
def checkpoint(tmp_path):
    return save_render_checkpoint(tmp_path / "policy.pt", {"gain": torch.ones(())}, env_metadata={"env_name": "toy"})


def config(checkpoint, **changes):
    made = {"max_steps": 4, "obs_key": "observation.state", "out": checkpoint.parent / "out.jsonl", "format": "jsonl"}
    return RenderConfig(checkpoint, make_policy, make_env, **{**made, **changes})


def test_the_policy_has_the_parameters_of_its_checkpoint(checkpoint):
    result = render_policy(config(checkpoint))
    episode = result.trajectories[0]
    assert episode["next", "success"].flatten().tolist() == [False, True]  # it reaches the target at once
    assert result.metadata["trajectories"][0]["num_steps"] == 2
    assert result.metadata["checkpoint"]["sha256"] == checkpoint_hash(checkpoint)


def test_frames_are_of_all_states_from_the_first_to_the_last(checkpoint):
    result = render_policy(config(checkpoint, num_trajs=2))
    assert [[bundle.step for bundle in frames] for frames in result.frames] == [[0, 1, 2]] * 2
    first, last = (result.frames[0][step].frames["default"] for step in (0, 2))
    assert first.shape == (16, 16, 3)
    assert not (first == last).all()  # the mark of the action has moved


def test_pictures(checkpoint, tmp_path):
    result = render_policy(config(checkpoint, format="frames", out=tmp_path / "pictures"))
    names = [path.relative_to(tmp_path / "pictures").as_posix() for path in result.frame_paths]
    assert names == [f"traj_000/default/{step:06d}.png" for step in range(3)]
    assert (tmp_path / "pictures" / "metadata.json").is_file()


@pytest.mark.parametrize("kind", ["mp4", "gif"])
def test_films(checkpoint, tmp_path, kind):
    pytest.importorskip("av")
    result = render_policy(config(checkpoint, format=kind, out=tmp_path / f"film.{kind}", save_frames=True))
    assert (tmp_path / f"film.{kind}").stat().st_size > 100
    assert len(result.frame_paths) == 4


def test_tables_of_steps(checkpoint, tmp_path):
    render_policy(config(checkpoint))
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [line["type"] for line in lines] == ["metadata", "step", "step"]
    assert lines[2]["data"]["next.success"] == [True]
    render_policy(config(checkpoint, format="npz", out=tmp_path / "out.npz"))
    arrays = np.load(tmp_path / "out.npz")
    assert arrays["traj_000/action"].shape == (2, 2)
    assert arrays["traj_000/frames/default"].shape == (3, 16, 16, 3)


def test_notebooks_have_what_was_recorded(checkpoint, tmp_path):
    render_policy(config(checkpoint, format="ipynb", out=tmp_path / "run.ipynb", notebook_rollout_mode="both"))
    notebook = json.loads((tmp_path / "run.ipynb").read_text())
    code = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert len(code) == 4
    for source in code:
        compile(source, "cell", "exec")
    assert set(torch.load(tmp_path / "run" / "rollouts" / "traj_000.pt")) >= {"action", "next.reward"}
    assert list((tmp_path / "run").glob("*.gif"))


def test_what_is_there_is_not_replaced_unless_told(checkpoint):
    render_policy(config(checkpoint))
    with pytest.raises(FileExistsError, match="overwrite"):
        render_policy(config(checkpoint))
    render_policy(config(checkpoint, overwrite=True))


def test_a_film_of_nothing_is_an_error_that_says_why(checkpoint, tmp_path):
    with pytest.raises(RuntimeError, match="render_mode"):
        render_policy(config(checkpoint, format="gif", out=tmp_path / "a.gif", render_backend="null"))


def test_episodes_of_native_and_of_gymnasiums_environments(checkpoint):
    pytest.importorskip("gymnasium")
    import gymnasium

    def act(state):
        return torch.nn.functional.one_hot((state[..., 2] > 0).long(), 2)

    for maker in (lambda spec: CartPoleEnv(seed=0), lambda spec: gymnasium.make("CartPole-v1")):
        changed = config(checkpoint, obs_key="observation", overwrite=True, auto_load_policy=False)
        changed.env, changed.policy = maker, lambda spec: act
        assert len(render_policy(changed).trajectories[0]) == 4


def test_checkpoints_are_read_without_running_code(tmp_path):
    class Harm:
        def __reduce__(self):
            return (Path(tmp_path / "harmed").touch, ())

    torch.save({"state_dict": Harm()}, tmp_path / "bad.pt")
    with pytest.raises(pickle.UnpicklingError):
        load_checkpoint(tmp_path / "bad.pt")
    assert not (tmp_path / "harmed").exists()


@pytest.mark.parametrize("kind", [None, "archive", "directory"])
def test_checkpoints_come_back(tmp_path, kind):
    net = nn.Linear(2, 2)
    path = save_render_checkpoint(tmp_path / "c", net, env_metadata={"env_name": "x"}, frames=3, format=kind)
    found = load_checkpoint(path)
    assert (found["env_name"], found["frames"]) == ("x", 3)
    net.load_state_dict(infer_state_dict(found))


def test_the_state_of_a_simulation_is_recorded_beside_the_data(checkpoint):
    pytest.importorskip("mujoco")
    from flambeau.rl.envs import HopperEnv

    changed = config(checkpoint, auto_load_policy=False, mujoco_qpos_key="qpos", render_backend="null")
    changed.env = lambda spec: HopperEnv(seed=0)
    changed.policy = lambda spec: TensorDictPolicyAdapter(lambda seen: torch.zeros(1, 3), "observation", "action")
    episode = render_policy(changed).trajectories[0]
    assert episode["qpos"].shape == (1, 4, 6)
    assert (episode["next", "qpos"][:, :-1] == episode["qpos"][:, 1:]).all()
    assert len(extract_qpos_trajectory(episode)) == 4


def test_states_are_read_from_gymnasiums_data():
    data = SimpleNamespace(qpos=np.array([0.0, 1.0]), qvel=np.array([2.0]), time=0.5, act=np.array([]))
    state = MujocoStateReader().capture(SimpleNamespace(data=data))
    assert sorted(state.keys()) == ["qpos", "qvel", "time"]
    with pytest.raises(TypeError, match="no state of MuJoCo"):
        MujocoStateReader().capture(SimpleNamespace())


def test_functions_get_what_they_ask_for():
    parts = {"device": "cpu", "seed": 1}
    assert call_with_supported_kwargs(lambda: "none", "spec", parts) == "none"
    assert call_with_supported_kwargs(lambda spec: spec, "spec", parts) == "spec"
    assert call_with_supported_kwargs(lambda seed, device: (seed, device), "spec", parts) == (1, "cpu")
    assert call_with_supported_kwargs(lambda **given: given, "spec", parts) == parts


def test_functions_are_found_in_modules_and_in_files(tmp_path):
    (tmp_path / "making.py").write_text("class Maker:\n    make = staticmethod(lambda: 3)\n")
    assert import_from_string(f"{tmp_path}/making.py:Maker.make")() == 3
    assert import_from_string("os:path.join") is __import__("os").path.join
    with pytest.raises(ImportError, match="no module"):
        import_from_string("no_such_module:x")
    with pytest.raises(ValueError, match=r"package\.module:name"):
        import_from_string("os.path")


def test_the_command_reads_what_the_configuration_has(tmp_path, capsys, checkpoint):
    words = [str(checkpoint), "--policy", "a:b", "--env", "c:d", "--out", "x.gif", "--camera", "left,right"]
    made = config_from_args(build_parser().parse_args([*words, "--no-deterministic", "--env-kwargs", '{"a": 1}']))
    assert (made.format, made.camera, made.deterministic, made.env_kwargs) == (
        "gif",
        ["left", "right"],
        False,
        {"a": 1},
    )
    assert main([*words, "--dry-run"]) == 0
    assert json.loads(capsys.readouterr().out)["policy"] == "a:b"
    place = f"{__file__}:"
    made = [str(checkpoint), "--policy", place + "make_policy", "--env", place + "make_env", "--max-steps", "3"]
    assert main([*made, "--obs-key", "observation.state", "--out", str(tmp_path / "c.jsonl")]) == 0
    assert (tmp_path / "c.jsonl").is_file()


def test_keys_and_backends():
    assert parse_nested_key("a.b") == ("a", "b")
    assert isinstance(NullRenderBackend(), RenderBackend)
    made = RenderConfig("p.pt", "p:make", "e:make", camera="top")
    data = TensorDict({"next": {"pixels": torch.zeros(2, 2, 3, dtype=torch.uint8)}}, [])
    found = TensorDictPixelsBackend().capture(None, data, made, step=3, trajectory_index=1)
    assert (list(found.frames), found.step) == (["top"], 3)


def test_the_environment_ends_after_the_steps_of_the_configuration(checkpoint):
    made = config(checkpoint, max_steps=2)
    made.env = lambda spec: ToyVLAEnv(seed=spec.seed)
    assert make_render_env(made).rollout(9)["next", "truncated"].flatten().tolist() == [False, True]

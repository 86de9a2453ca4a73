"""Runs: settings, folders, results; and that a run which was cut off goes on as if it had not been."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from flambeau.core.cli import main
from flambeau.data.tensordict import TensorDict
from flambeau.rl.envs import check_env_specs
from flambeau.rl.envs.custom import GymPendulumEnv
from flambeau.rl.runs import RunSettings, episode_returns, make_env, train
from flambeau.rl.runs.algorithms import ALGORITHMS, algorithm
from flambeau.rl.runs.algorithms._parts import LookAhead
from flambeau.rl.runs.curves import draw_curves
from flambeau.rl.runs.environments import NATIVE, UnknownEnvironmentError
from flambeau.rl.runs.progress import Progress
from flambeau.rl.runs.speed import measure
from flambeau.rl.runs.training import RunError, chosen_settings, load_policy

SMALL = {
    "a2c": {"frames": 256, "envs": 4, "steps": 8, "cells": (8,)},
    "ppo": {"frames": 256, "envs": 4, "steps": 8, "batch_size": 16, "epochs": 2, "cells": (8,)},
    "dqn": {"frames": 256, "envs": 2, "batch_frames": 16, "updates": 2, "batch_size": 8, "start": 32, "cells": (8,)},
}
OFF_POLICY = {"frames": 128, "envs": 2, "batch_frames": 16, "updates": 2, "batch_size": 8, "start": 32, "cells": (8,)}
ENVS = {"dqn": "CartPole-v1", "ppo": "CartPole-v1", "a2c": "CartPole-v1"}


def small(name: str, folder: Path, env: str | None = None, **options) -> RunSettings:
    return RunSettings(
        name,
        env or ENVS.get(name, "Pendulum-v1"),
        out=str(folder),
        options={**SMALL.get(name, OFF_POLICY), **options},
        logger="none",
        evaluations=4,
        evaluation_episodes=2,
        test_episodes=2,
        checkpoints=4,
    )


def parameters(folder: Path) -> dict[str, torch.Tensor]:
    return torch.load(folder / "policy.pt", weights_only=True)


def assert_same(first: Path, second: Path) -> None:
    ours, theirs = parameters(first), parameters(second)
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        assert torch.equal(value, theirs[name]), name

    def numbers(folder):
        return [(row["frames"], row["return"]) for row in json.loads((folder / "evaluation.json").read_text())]

    assert numbers(first) == numbers(second)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_trains_and_leaves_a_policy(tmp_path, name):
    result = train(small(name, tmp_path / "run"), progress=False)
    assert result.rows[-1]["frames"] == result.frames
    facts = json.loads((tmp_path / "run" / "result.json").read_text())
    assert facts["return"] == result.mean
    assert (tmp_path / "run" / "curve.png").read_bytes()[:4] == b"\x89PNG"
    policy, env = load_policy(tmp_path / "run")
    returns = episode_returns(env, policy, episodes=2, seed=2_000_003)
    assert float(returns.mean()) == result.mean


def train_cut_off_and_go_on(run: RunSettings, monkeypatch) -> None:
    look = Progress.look

    def cut_off(self, frames, total):
        if frames > total * 0.8:
            raise KeyboardInterrupt
        return look(self, frames, total)

    with monkeypatch.context() as patch:
        patch.setattr(Progress, "look", cut_off)
        with pytest.raises(KeyboardInterrupt):
            train(run, progress=False)
    assert not (Path(run.out) / "policy.pt").exists()
    assert any((Path(run.out) / "checkpoints").iterdir())
    train(run, resume=True, progress=False)


@pytest.mark.parametrize("name", ["ppo", "dqn", "sac", "td3"])
def test_a_run_that_was_cut_off_goes_on_as_if_it_had_not_been(tmp_path, name, monkeypatch):
    train(small(name, tmp_path / "whole"), progress=False)
    train_cut_off_and_go_on(small(name, tmp_path / "cut"), monkeypatch)
    assert_same(tmp_path / "whole", tmp_path / "cut")


def test_environments_of_gymnasium_go_on_as_well(tmp_path, monkeypatch):
    import gymnasium

    gymnasium.register("FlambeauPole-v0", "gymnasium.envs.classic_control:CartPoleEnv", max_episode_steps=30)
    try:
        train(small("dqn", tmp_path / "whole", "FlambeauPole-v0"), progress=False)
        train_cut_off_and_go_on(small("dqn", tmp_path / "cut", "FlambeauPole-v0"), monkeypatch)
    finally:
        del gymnasium.registry["FlambeauPole-v0"]
    assert_same(tmp_path / "whole", tmp_path / "cut")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ppo", "dqn", "sac"])
def test_a_run_that_was_killed_goes_on_as_if_it_had_not_been(tmp_path, name):
    settings = small(name, tmp_path, frames=2048)
    words = [sys.executable, "-m", "flambeau.core.cli", "rl", "train", name, "--env", settings.env, "--logger", "csv"]
    for key, value in settings.options.items():
        words += ["--set", f"{key}={','.join(map(str, value)) if isinstance(value, tuple) else value}"]
    words += ["--evaluations", "4", "--checkpoints", "16", "--quiet"]
    subprocess.run([*words, "--out", str(tmp_path / "whole")], check=True, capture_output=True, cwd=tmp_path)

    killed = [*words, "--out", str(tmp_path / "killed")]
    process = subprocess.Popen(killed, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=tmp_path)
    folder = tmp_path / "killed" / "checkpoints"
    while process.poll() is None and not (folder.is_dir() and any(folder.glob("checkpoint-*"))):
        time.sleep(0.005)
    time.sleep(0.1)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "killed" / "policy.pt").exists()
    subprocess.run([*killed, "--resume"], check=True, capture_output=True, cwd=tmp_path)
    assert_same(tmp_path / "whole", tmp_path / "killed")


def test_a_run_that_has_ended_is_not_trained_further(tmp_path):
    first = train(small("dqn", tmp_path / "run"), progress=False)
    again = train(small("dqn", tmp_path / "run"), resume=True, progress=False)
    assert (again.frames, again.mean) == (first.frames, first.mean)


def test_folders_are_not_mixed_up(tmp_path):
    train(small("dqn", tmp_path / "run"), progress=False)
    with pytest.raises(RunError, match="holds a run; go on with it by --resume"):
        train(small("dqn", tmp_path / "run"), progress=False)
    with pytest.raises(RunError, match="with other settings"):
        train(small("dqn", tmp_path / "run", lr=0.5), resume=True, progress=False)
    with pytest.raises(RunError, match="no run that has ended"):
        load_policy(tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lr": "fast"}, "setting lr is of type float; got 'fast'"),
        ({"learning": 1}, "dqn has no setting 'learning'"),
        ({"frames": "1.5"}, "setting frames is of type int"),
    ],
)
def test_settings_are_checked(options, message):
    with pytest.raises(RunError, match=message):
        chosen_settings(RunSettings("dqn", "CartPole-v1", options=options))


def test_settings_may_be_texts():
    settings = chosen_settings(
        RunSettings("dqn", "CartPole-v1", options={"cells": "8,16", "frames": "1e3", "lr": "0.5"})
    )
    assert (settings.cells, settings.frames, settings.lr) == ((8, 16), 1000, 0.5)


def test_steps_that_look_ahead_end_with_their_episodes():
    ends = torch.tensor([[0, 0, 1, 0], [0, 0, 0, 0]], dtype=torch.bool).unsqueeze(-1)
    steps = TensorDict(
        {"next": {"observation": torch.arange(8.0).reshape(2, 4, 1), "reward": torch.ones(2, 4, 1)}}, [2, 4]
    )
    steps["next", "done"] = steps["next", "terminated"] = ends
    found = LookAhead(2, 0.5, 3)(steps.reshape(-1))
    assert found["steps_to_next_obs"].tolist() == [3, 2, 1, 1, 3, 3, 2, 1]
    assert found["next", "observation"].flatten().tolist() == [2, 2, 2, 3, 6, 7, 7, 7]
    assert found["next", "terminated"].flatten().tolist() == [True, True, True, *[False] * 5]
    assert found["next", "reward"].flatten().tolist() == [1.75, 1.5, 1, 1, 1.75, 1.75, 1.5, 1]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_settings_for_environments_are_settings(name):
    module = algorithm(name)
    for preset in module.PRESETS.values():
        assert preset.keys() <= {field.name for field in dataclasses.fields(module.Settings)}


@pytest.mark.parametrize(
    ("name", "env", "message"),
    [("dqn", "Pendulum-v1", "dqn chooses among actions"), ("sac", "CartPole-v1", "sac takes")],
)
def test_algorithms_say_which_actions_they_take(tmp_path, name, env, message):
    with pytest.raises(ValueError, match=message):
        train(small(name, tmp_path, env), progress=False)


def test_unknown_environments_are_named_with_those_that_are_near():
    with pytest.raises(UnknownEnvironmentError, match=r"knows no environment 'CartPole-v11'.*CartPole-v1"):
        make_env("CartPole-v11", 1, 0)


@pytest.mark.parametrize("env", NATIVE)
def test_environments_of_several_have_the_same_keys(env):
    root = make_env(env, 3, 0).reset()
    assert root.batch_size == (3,)
    assert {"observation", "episode_reward", "done"} <= set(root.keys())


def test_the_first_episode_of_each_environment_counts():
    returns = episode_returns(
        "CartPole-v1", lambda td: td.set("action", torch.tensor([[1, 0]] * 5)), episodes=5, seed=0
    )
    assert returns.shape == (5,)
    assert 8 <= float(returns.min()) <= float(returns.max()) <= 11  # pushed to one side, a pole falls within moments


def test_the_pendulum_moves_as_gymnasiums_does():
    import gymnasium

    theirs = gymnasium.make("Pendulum-v1")
    seen, _ = theirs.reset(seed=0)
    env = GymPendulumEnv([1], dtype=torch.float64, seed=0)
    root = env.reset()
    angle, velocity = theirs.unwrapped.state
    root["state"] = torch.tensor([[angle, velocity]], dtype=torch.float64)
    root["observation"] = torch.as_tensor(seen).double().unsqueeze(0)
    for number in range(200):
        torque = 3 * (-1) ** (number // 30)
        seen, reward, terminated, truncated, _ = theirs.step([torque])
        following = env.step(root.set("action", torch.tensor([[float(torque)]])))["next"]
        torch.testing.assert_close(following["observation"][0], torch.as_tensor(seen).double(), rtol=0, atol=1e-5)
        assert float(following["reward"]) == pytest.approx(float(reward), abs=1e-4)
        assert (bool(following["terminated"]), bool(following["truncated"])) == (terminated, truncated)
        root = following.exclude("reward")


def test_the_pendulum_keeps_its_specs():
    check_env_specs(GymPendulumEnv([2], seed=0))


def test_curves_are_drawn(tmp_path):
    rows = [{"frames": frames, "return": frames / 10, "std": 1.0} for frames in (0, 10, 20)]
    path = draw_curves([rows, rows], tmp_path / "curve.png", title="two runs", threshold=1.5)
    assert path.read_bytes()[:4] == b"\x89PNG"


def test_speed_is_measured_along_several_paths():
    rows = measure("CartPole-v1", [1, 4], seconds=0.01)
    assert [(row["path"], row["envs"]) for row in rows] == [
        ("steps", 1),
        ("collector", 1),
        ("steps", 4),
        ("collector", 4),
        ("gymnasium", 1),
    ]
    assert all(row["frames_per_second"] > 0 for row in rows)


def test_the_command_line_trains_goes_on_and_films(tmp_path, capsys):
    words = ["rl", "train", "dqn", "--env", "CartPole-v1", "--out", str(tmp_path / "run"), "--logger", "tensorboard"]
    for name, value in SMALL["dqn"].items():
        words += ["--set", f"{name}={','.join(map(str, value)) if isinstance(value, tuple) else value}"]
    assert main([*words, "--video", str(tmp_path / "run.gif"), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["frames"], printed["algorithm"]) == (256, "dqn")
    assert (tmp_path / "run.gif").read_bytes()[:3] == b"GIF"
    assert any((tmp_path / "run" / "logs").rglob("events*"))
    assert main(words) == 1
    assert "go on with it by --resume" in capsys.readouterr().err
    assert main([*words, "--resume"]) == 0


def test_the_command_line_names_what_is_wrong(capsys):
    assert main(["rl", "train", "dqn", "--env", "CartPole-v1", "--set", "lr"]) != 0
    assert "--set takes NAME=VALUE" in capsys.readouterr().err


def test_the_command_line_prints_frames_a_second(capsys):
    assert main(["rl", "bench", "--envs", "2", "--seconds", "0.01", "--json"]) == 0
    assert {row["path"] for row in json.loads(capsys.readouterr().out)} == {"steps", "collector", "gymnasium"}


def test_help_does_not_load_torch():
    code = (
        "import sys\nfrom flambeau.core.cli import main\n"
        "try:\n    main(['rl', 'train', '--help'])\nexcept SystemExit:\n    pass\n"
        "print('torch' in sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "--resume" in done.stdout
    assert done.stderr.strip() == "False"

"""Batches, losses and films, made of either library, for trainers, recorders and checkpoints."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import nn


class Batches:
    """A collector of five batches of ten steps; batch number i holds the value i."""

    init_random_frames = 0
    requested_frames_per_batch = 10
    policy = None

    def __init__(self, library: Any, count: int = 5) -> None:
        self.library, self.count, self.calls = library, count, []

    def __iter__(self) -> Any:
        for number in range(self.count):
            values = {"a": torch.full((10,), float(number)), ("next", "reward"): torch.full((10, 1), float(number))}
            yield self.library.TensorDict(values, [10])

    def set_seed(self, seed: int, static_seed: bool = False) -> int:
        self.calls.append(f"seed {seed}")
        return seed + 1

    def state_dict(self) -> dict[str, Any]:
        return {"c": 1}

    def load_state_dict(self, state: Any) -> None:
        self.calls.append(f"load {state}")

    def shutdown(self) -> None:
        self.calls.append("shutdown")

    def update_policy_weights_(self, *args: Any, **kwargs: Any) -> None:
        self.calls.append("weights")


class Logged:
    """A logger that keeps what it is told."""

    def __init__(self) -> None:
        self.rows: list[Any] = []

    def log_scalar(self, name: str, value: Any, step: int | None = None) -> None:
        self.rows.append((name, round(float(value), 5), step))

    def log_video(self, name: str, video: Any, step: int | None = None, **options: Any) -> None:
        self.rows.append((name, list(video.shape), video.flatten(0, 1)[:, 0, 0, 0].tolist(), step, options))


def loss(library: Any) -> Any:
    class Loss(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(1))

        def forward(self, batch: Any) -> Any:
            value = (self.weight * batch["a"].float().mean()).sum()
            return library.TensorDict({"loss_a": value, "loss_b": value * 0, "other": torch.ones(())}, [])

    return Loss()


def trainer(library: Any) -> Any:
    """Makes trainers; what is not given is as small as can be."""

    def make(**options: Any) -> Any:
        module = options.pop("loss_module", None) or loss(library)
        base = {
            "collector": Batches(library),
            "total_frames": 50,
            "frame_skip": 1,
            "optim_steps_per_batch": 2,
            "loss_module": module,
            "optimizer": torch.optim.SGD(module.parameters(), lr=0.1),
            "progress_bar": False,
            "log_interval": 10,
            "logger": Logged(),
        }
        return library.Trainer(**base | options)

    return make


def trained(library: Any) -> Any:
    """Registers hooks, trains, and tells what came of it."""

    def run(*hooks: Any, **options: Any) -> Any:
        made = trainer(library)(**options)
        for hook in hooks:
            hook = hook(made) if callable(hook) and not hasattr(hook, "register") else hook
            hook.register(made)
        made.train()
        weight = round(float(made.loss_module.weight.detach()), 5)
        state = {name: value for name, value in made.state_dict().items() if name not in ("optimizer", "replay_buffer")}
        return [made.logger.rows, weight, made.collected_frames, made._optim_count, made.collector.calls, state]

    return run


def batch(library: Any) -> Any:
    made = library.TensorDict({"a": torch.arange(20.0).reshape(2, 10)}, [2, 10])
    made["next", "reward"] = made["a"].unsqueeze(-1).clone()
    mask = torch.ones(2, 10, dtype=torch.bool)
    mask[1, 5:] = False
    made["collector", "mask"] = mask
    return made


def film(library: Any) -> Any:
    """Frame number i shows the value i, and the fifth is the last."""

    def make(size: tuple[int, ...] = (), shape: tuple[int, ...] = (4, 6, 3)) -> Any:
        class Film(library.EnvBase):
            def __init__(self) -> None:
                super().__init__(batch_size=size)
                frames = library.Unbounded((*size, *shape), dtype=torch.uint8)
                self.observation_spec = library.Composite(pixels=frames, shape=size)
                self.action_spec = library.Unbounded((*size, 1))
                self.reward_spec = library.Unbounded((*size, 1))
                self.number = 0

            def _frame(self) -> Any:
                return torch.full((*size, *shape), self.number, dtype=torch.uint8)

            def _reset(self, tensordict: Any, **_: Any) -> Any:
                self.number = 0
                return library.TensorDict({"pixels": self._frame()}, size)

            def _step(self, tensordict: Any) -> Any:
                self.number += 1
                values = {"pixels": self._frame(), "reward": torch.zeros(*size, 1)}
                values["done"] = torch.full((*size, 1), self.number >= 5)
                return library.TensorDict(values, size)

            def _set_seed(self, seed: Any) -> None:
                pass

            def render(self, **_: Any) -> Any:
                import numpy

                return numpy.full((4, 4, 3), self.number, numpy.uint8)

        return Film()

    return make


def recorded(library: Any) -> Any:
    """Films of an environment, as a logger is given them."""

    def run(size: tuple[int, ...] = (), shape: tuple[int, ...] = (4, 6, 3), **options: Any) -> Any:
        logger = library.CSVLogger("e", tempfile.mkdtemp())
        kept = Logged()
        logger.log_video = kept.log_video
        recorder = library.VideoRecorder(logger=logger, tag="t", **options)
        env = library.TransformedEnv(film(library)(size, shape), recorder)
        env.rollout(8)
        recorder.dump()
        recorder.dump()
        env.rollout(3)
        recorder.dump(suffix="s", step=4)
        return [kept.rows, recorder.skip, recorder.make_grid, recorder.iter, recorder.count, len(recorder.obs)]

    return run


def written(library: Any) -> Any:
    """What a logger leaves in its folder."""

    def run(*calls: Any, **options: Any) -> Any:
        folder = tempfile.mkdtemp()
        logger = library.CSVLogger("e", folder, **options)
        results = [call(logger) for call in calls]
        state = logger.state_dict() | {"log_dir": ""}
        logger.close()
        files = sorted(path for path in Path(folder).rglob("*") if path.is_file())
        content = {
            str(path.relative_to(folder)): path.read_text() if path.suffix in (".csv", ".txt") else "" for path in files
        }
        return [results, content, state, logger.is_alive]

    return run


class Holder:
    """Something with a state of any kind."""

    def __init__(self, state: Any = None) -> None:
        self.state = state

    def state_dict(self) -> Any:
        return self.state

    def load_state_dict(self, state: Any) -> None:
        self.state = state


def passed(library: Any) -> Any:
    """A state after it was saved and restored, and the files that hold it."""

    def run(state: Any, **options: Any) -> Any:
        folder = tempfile.mkdtemp()
        path = library.Checkpoint(x=Holder(state), **options).save(f"{folder}/c")
        back = Holder()
        result = library.Checkpoint(x=back, **options).load(path)
        manifest = library.Checkpoint.manifest(path)
        record = {key: value for key, value in manifest["components"]["x"].items() if key != "sizes"}
        return [
            back.state,
            result.loaded,
            record,
            manifest["format"],
            manifest["format_version"],
            manifest["container"],
        ]

    return run


def kept(library: Any) -> Any:
    """Which steps a rotation keeps, which is the latest, and which the best."""

    def run(rewards: list[float], **options: Any) -> Any:
        rotation = library.CheckpointRotation(tempfile.mkdtemp(), **options)
        for step, reward in enumerate(rewards):
            rotation.save(library.Checkpoint(step=step), step=step, metadata={"reward": reward})
        best = rotation.best()
        return [
            [path.name for path in rotation.checkpoints()],
            rotation.latest().name,
            None if best is None else best.name,
            rotation.load_latest(library.Checkpoint(step=-1)).values,
        ]

    return run

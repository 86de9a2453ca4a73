"""Environments whose physics are a MuJoCo model's."""

from __future__ import annotations

import functools
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Generator, Size, Tensor

from flambeau.data.tensordict import TensorDict, TensorDictBase
from flambeau.rl.data.tensor_specs import Binary, Bounded, Composite, Unbounded
from flambeau.rl.envs._keys import RESET
from flambeau.rl.envs.common import EnvBase
from flambeau.rl.envs.custom.mujoco._backends import PhysicsBackend, make_backend, resolve_xml_string

__all__ = ["MujocoEnv"]

_ASSETS = Path(__file__).parent / "assets"
_SEEN_FROM = {"name": "side", "pos": "0 -4 3", "xyaxes": "1 0 0 0 0.45 1", "fovy": "60"}
_LIGHT = {
    "name": "top", "pos": "0 0 4", "dir": "0 0 -1", "diffuse": "0.8 0.8 0.8", "ambient": "0.3 0.3 0.3",
    "directional": "true",
}  # fmt: skip
_FLOOR = {
    "name": "floor", "type": "plane", "size": "10 10 0.1", "rgba": "0.8 0.85 0.8 1", "conaffinity": "1", "condim": "3",
}  # fmt: skip


class _MujocoMeta(type):
    """Makes one environment, or with the engine "mujoco" a vectorised one of several."""

    def __call__(cls, *args: Any, num_workers: int = 1, parallel: bool | None = None, **kwargs: Any) -> Any:
        name = kwargs.get("backend")
        number = kwargs.get("num_envs", 1)
        if name != "mujoco":
            if name is not None and (num_workers > 1 or parallel is not None):
                raise ValueError(
                    f"{cls.__name__}: the engine {name!r} computes all environments at once; give num_envs, and "
                    "neither num_workers nor parallel."
                )
            return super().__call__(*args, **{**kwargs, "num_envs": max(number, num_workers)})
        if num_workers > 1 and number > 1:
            raise ValueError(f"{cls.__name__}: num_workers and num_envs mean the same for 'mujoco'; give one of them.")
        number = max(number, num_workers)
        if number == 1:
            return super().__call__(*args, **kwargs)
        return cls._several(number, parallel is not False, args, kwargs)

    def _several(cls, number: int, parallel: bool, args: Any, kwargs: dict[str, Any]) -> Any:
        from flambeau.rl.envs.batched_envs import ParallelEnv, SerialEnv

        first = kwargs.pop("seed", None)
        kwargs["num_envs"] = 1
        makers = [
            functools.partial(cls, *args, **kwargs, seed=None if first is None else first + rank)
            for rank in range(number)
        ]
        return (ParallelEnv if parallel else SerialEnv)(number, makers)


class MujocoEnv(EnvBase, metaclass=_MujocoMeta):
    """An environment whose physics are a MuJoCo model's.

    A subclass names the model and defines `_compute_reward` and `_compute_done`; observations, first states and
    controls are those of `_make_obs`, `_sample_initial_state` and `_prepare_ctrl` unless it redefines them.

    Args:
        xml_path: an MJCF file or its address; default: the class's `XML_PATH` or `XML_URL`.
        patch_xml: change the model as `_patch_xml` says; otherwise a file is read by MuJoCo itself, with what it
            includes.
        backend: the engine. Several environments of "mujoco" are a `ParallelEnv`, or a `SerialEnv` with
            `parallel=False`, of batch size (num_envs, 1). By default it is MuJoCo's library as well, which computes all
            environments one after the other in this process: batch size (num_envs,).
        num_envs: number of environments N.
        num_workers: another name for it.
        device: of observations, rewards and actions.
        seed: of first states.
        frame_skip: steps of physics in a step of the environment; default: `FRAME_SKIP`.
        reset_noise_scale: bound of uniform noise of first coordinates and velocities; default: `RESET_NOISE_SCALE`.
        max_episode_steps: episodes are truncated after so many steps.
        dtype: of observations, rewards and actions.
        compile_step: compile the step of an engine that is written in torch; MuJoCo's library is compiled.
        compile_kwargs: for `torch.compile`.
        from_pixels: give pictures at "pixels", (N, height, width, 3), uint8.
        pixels_only: give nothing else.
        render_width: of pictures, in pixels.
        render_height: of pictures, in pixels.
        render_every: steps from one picture to the next; the same is given in between.
        camera_id: number of the camera in the model.

    Raises:
        ImportError: the engine is not installed.
        ValueError: arguments contradict one another, or there is no such engine.

    Example:
        >>> from flambeau.rl.envs import HopperEnv
        >>> env = HopperEnv(num_envs=4, seed=0)
        >>> env.rollout(5, break_when_any_done=False)["observation"].shape
        torch.Size([4, 5, 11])

    References:
        E. Todorov, T. Erez, Y. Tassa, MuJoCo: A physics engine for model-based control, IROS 2012.
    """

    DEFAULT_BACKEND: ClassVar[str] = "mujoco"
    XML_PATH: str | None = None
    XML_URL: ClassVar[str | None] = None
    FRAME_SKIP: ClassVar[int] = 5
    RESET_NOISE_SCALE: ClassVar[float] = 0.01
    SKIP_QPOS: ClassVar[int] = 0
    RENDER_BACKGROUND: ClassVar[tuple[float, float, float] | None] = None
    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"], "render_fps": 30}
    batch_locked = True
    _has_frame_skip = True
    _supports_set_state = True
    # Attributes of a subclass that hold a row for each environment, which go where an environment goes.
    _rows: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self, *, xml_path: str | Path | None = None, patch_xml: bool = True, backend: str | None = None,
        num_envs: int = 1, device: Any = None, seed: int | None = None, frame_skip: int | None = None,
        reset_noise_scale: float | None = None, max_episode_steps: int = 1000, dtype: torch.dtype = torch.float32,
        compile_step: bool = False, compile_kwargs: dict[str, Any] | None = None, from_pixels: bool = False,
        pixels_only: bool = False, render_width: int = 64, render_height: int = 64, render_every: int = 1,
        camera_id: int = 0,
    ) -> None:  # fmt: skip
        if pixels_only and not from_pixels:
            raise ValueError(f"{type(self).__name__}: pixels_only=True needs from_pixels=True.")
        if num_envs < 1 or render_every < 1:
            raise ValueError(
                f"{type(self).__name__}: num_envs and render_every are at least 1; got {num_envs} and {render_every}."
            )
        super().__init__(device=device, batch_size=Size([num_envs]))
        self.num_envs = num_envs
        self.dtype = dtype
        self.frame_skip = self.FRAME_SKIP if frame_skip is None else frame_skip
        self.reset_noise_scale = self.RESET_NOISE_SCALE if reset_noise_scale is None else reset_noise_scale
        self.max_episode_steps = max_episode_steps
        self.backend_name = self.DEFAULT_BACKEND if backend is None else backend
        self.from_pixels, self.pixels_only = from_pixels, pixels_only
        self.render_width, self.render_height, self.render_every = render_width, render_height, render_every
        self.camera_id = camera_id
        self._pixels: Tensor | None = None
        self._pixels_age = 0
        self._backend: PhysicsBackend = make_backend(
            self.backend_name, self._load_xml(xml_path, patch_xml=patch_xml), num_envs=num_envs, device=self.device,
            compile_step=compile_step, compile_kwargs=compile_kwargs,
        )  # fmt: skip
        self._step_count = torch.zeros(num_envs, 1, dtype=torch.int64, device=self.device)
        self.set_seed(int(torch.empty((), dtype=torch.int64).random_()) if seed is None else seed)
        self._configure()
        self._make_specs()

    def _configure(self) -> None:
        """What a subclass reads from the model, once it is loaded."""

    # The model

    def _load_xml(self, xml_path: str | Path | None, *, patch_xml: bool = True) -> str | Path:
        source = next((one for one in (xml_path, self.XML_PATH, self.XML_URL) if one is not None), None)
        if source is None:
            raise ValueError(f"{type(self).__name__} has no model: give xml_path, or set XML_PATH or XML_URL.")
        if not str(source).startswith(("http://", "https://")) and not Path(source).expanduser().exists():
            inside = _ASSETS / str(source)
            source = inside if inside.exists() else source
        elif not patch_xml and not str(source).startswith("http"):
            return Path(source).expanduser().resolve()
        text = resolve_xml_string(source)
        return self._patch_xml(text) if patch_xml else text

    @classmethod
    def _patch_xml(cls, xml: str) -> str:
        """One camera and one light in the place of the model's own, and a floor where there is none."""
        root = ElementTree.fromstring(xml)
        for parent in root.iter():
            for child in [child for child in parent if child.tag in ("camera", "light") and parent.tag != "default"]:
                parent.remove(child)
        world = root.find("worldbody")
        if world is None:
            raise ValueError("A MuJoCo model has a <worldbody>; this one has none.")
        if not any(geom.get("type") == "plane" for geom in root.iter("geom")):
            world.insert(0, ElementTree.Element("geom", _FLOOR))
        world.insert(0, ElementTree.Element("light", _LIGHT))
        world.insert(0, ElementTree.Element("camera", _SEEN_FROM))
        return ElementTree.tostring(root, encoding="unicode")

    # What a subclass defines

    def _compute_reward(self, state: TensorDictBase, action: Tensor, next_state: TensorDictBase) -> Tensor:
        """Rewards of a step, (N, 1); the states have "qpos", "qvel" and "time"."""
        raise NotImplementedError(f"{type(self).__name__} defines no `_compute_reward`.")

    def _compute_done(self, state: TensorDictBase, next_state: TensorDictBase) -> Tensor:
        """Whether episodes end after a step, (N, 1), bool."""
        raise NotImplementedError(f"{type(self).__name__} defines no `_compute_done`.")

    def _make_obs(self, state: TensorDictBase) -> Tensor:
        """Observations (N, size): coordinates from the `SKIP_QPOS`-th on, and velocities."""
        return torch.cat([state["qpos"][:, self.SKIP_QPOS :], state["qvel"]], -1).to(self.dtype)

    def _make_obs_spec(self) -> Composite:
        size = self._backend.nq - self.SKIP_QPOS + self._backend.nv
        return Composite(observation=self._unbounded(size), shape=self.batch_size, device=self.device)

    def _sample_initial_state(self, n: int, tensordict: TensorDictBase | None = None) -> tuple[Tensor, Tensor]:
        """Coordinates and velocities at a reset, (n, nq) and (n, nv): those of the model, with uniform noise."""
        qpos = self._backend.qpos0 + self._noise(n, self._backend.nq)
        return qpos, self._noise(n, self._backend.nv)

    def _noise(self, n: int, size: int) -> Tensor:
        drawn = torch.rand(n, size, generator=self.rng, device=self.rng.device)
        return ((2 * drawn - 1) * self.reset_noise_scale).to(self._backend.qpos0.device)

    def _prepare_ctrl(self, action: Tensor) -> Tensor:
        """Controls (N, nu) of actions (N, size)."""
        return action

    def _on_reset(self, mask: Tensor, tensordict: TensorDictBase | None) -> None:
        """What else begins anew where the mask (N,) is True."""

    # Specs

    def _unbounded(self, *shape: int, dtype: torch.dtype | None = None) -> Unbounded:
        return Unbounded((self.num_envs, *shape), dtype=self.dtype if dtype is None else dtype, device=self.device)

    def _make_specs(self) -> None:
        spec = Composite(shape=self.batch_size, device=self.device) if self.pixels_only else self._make_obs_spec()
        if self.from_pixels:
            size = (self.num_envs, self.render_height, self.render_width, 3)
            spec["pixels"] = Bounded(0, 255, size, dtype=torch.uint8, device=self.device)
        self.observation_spec = spec
        self.action_spec = self._make_action_spec()
        self.reward_spec = self._unbounded(1)
        end = Binary(1, (self.num_envs, 1), dtype=torch.bool, device=self.device)
        self.full_done_spec = Composite(
            {name: end.clone() for name in ("done", "terminated", "truncated")}, shape=self.batch_size
        )

    def _make_action_spec(self) -> Any:
        low, high = (bound.to(self.dtype) for bound in (self._backend.actuator_lo, self._backend.actuator_hi))
        if not bool((low.isfinite() & high.isfinite()).all()):
            return self._unbounded(len(low))
        size = (self.num_envs, len(low))
        return Bounded(low.expand(size).clone(), high.expand(size).clone(), size, dtype=self.dtype, device=self.device)

    # States

    def _state_td(self) -> TensorDict:
        physics = self._backend
        state = {"qpos": physics.qpos, "qvel": physics.qvel, "time": physics.time}
        return TensorDict(state, self.batch_size, device=self.device)

    def get_state(self) -> TensorDict:
        """The state of the physics: "qpos" (N, nq), "qvel" (N, nv), "time" (N,), float32.

        `env.reset(state, set_state=True)` brings it back.
        """
        return self._state_td().detach().clone()

    def __getitem__(self, index: Any) -> Self:
        """Copies of some of the environments, which go on by themselves.

        Args:
            index: a number, a slice, a list of numbers or a mask.
        """
        rows = self._numbers(index)
        twin = object.__new__(type(self))
        EnvBase.__init__(twin, device=self.device, batch_size=Size([len(rows)]))
        for name, value in self.__dict__.items():
            twin.__dict__.setdefault(name, value)
        twin.num_envs = len(rows)
        twin._backend = self._backend.clone_batch(rows)
        twin.rng = Generator(device=self.rng.device)
        twin.rng.set_state(self.rng.get_state())
        for name in ("_step_count", *self._rows):
            setattr(twin, name, getattr(self, name)[rows])
        twin._pixels = None
        twin._make_specs()
        return twin

    def __setitem__(self, index: Any, source: MujocoEnv) -> None:
        """Overwrite some of the environments.

        Args:
            index: as for `env[index]`.
            source: as many environments of the same class.
        """
        rows = self._numbers(index)
        if type(source) is not type(self) or source.num_envs != len(rows):
            raise ValueError(
                f"{type(self).__name__}: {len(rows)} environments are overwritten by as many of the same class; got "
                f"{getattr(source, 'num_envs', 'no')} of {type(source).__name__}."
            )
        self._backend.set_batch(rows, source._backend)
        for name in ("_step_count", *self._rows):
            getattr(self, name)[rows] = getattr(source, name)
        self._pixels = None

    def _numbers(self, index: Any) -> Tensor:
        if isinstance(index, Tensor):
            index = index.cpu()
        return torch.arange(self.num_envs)[index].reshape(-1)

    # Contacts and positions

    def _ids(self, kind: Literal["geom", "site", "body", "joint"], names: Sequence[str]) -> list[int]:
        found = []
        for name in names:
            try:
                found.append(int(getattr(self._backend.mj_model, kind)(name).id))
            except KeyError as error:
                raise KeyError(f"The MuJoCo model has no {kind} named {name!r}.") from error
        return found

    def geom_contacts(self, geom_names: Sequence[str]) -> Tensor:
        """Whether geometries touch others.

        Args:
            geom_names: their names in the model.

        Returns:
            (N, number of names), bool.

        Raises:
            KeyError: the model has no such geometry.
        """
        return self._backend.geom_contacts(self._ids("geom", geom_names))

    def site_positions(self, site_names: Sequence[str]) -> Tensor:
        """Where sites are in the world.

        Args:
            site_names: their names in the model.

        Returns:
            (N, number of names, 3), float32, meters.

        Raises:
            KeyError: the model has no such site.
        """
        return self._backend.site_positions(self._ids("site", site_names))

    def render(self, *, width: int | None = None, height: int | None = None, camera_id: int | None = None) -> Tensor:
        """Pictures of all environments.

        Args:
            width: in pixels; default: `render_width`.
            height: in pixels; default: `render_height`.
            camera_id: number of the camera in the model; default: the environment's.

        Returns:
            (N, height, width, 3), uint8.
        """
        return self._backend.render(
            camera_id=self.camera_id if camera_id is None else camera_id,
            width=self.render_width if width is None else width,
            height=self.render_height if height is None else height,
            background=self.RENDER_BACKGROUND,
        )

    def _render_pixels(self) -> Tensor:
        if self._pixels is None or self._pixels_age >= self.render_every:
            self._pixels, self._pixels_age = self.render(), 0
        self._pixels_age += 1
        return self._pixels

    def _build_obs_dict(self, state: TensorDictBase) -> dict[str, Tensor]:
        found = {} if self.pixels_only else self._make_obs_dict(state)
        if self.from_pixels:
            found["pixels"] = self._render_pixels()
        return found

    def _make_obs_dict(self, state: TensorDictBase) -> dict[str, Tensor]:
        return {"observation": self._make_obs(state)}

    # Resets and steps

    def _reset(
        self, tensordict: TensorDictBase | None = None, set_state: bool | None = None, **kwargs: Any
    ) -> TensorDictBase:
        mask = torch.ones(self.num_envs, dtype=torch.bool)
        if tensordict is not None and (given := tensordict.get(RESET, None)) is not None:
            mask = given.reshape(self.num_envs).cpu()
        if set_state:
            qpos, qvel = self._given_state(tensordict)
        else:
            qpos, qvel = self._sample_initial_state(self.num_envs, tensordict)
        self._backend.reset_mask(mask, qpos, qvel)
        self._step_count[mask.to(self._step_count.device)] = 0
        self._on_reset(mask, tensordict)
        self._pixels = None
        return self._observed(self._state_td())

    def _given_state(self, tensordict: TensorDictBase | None) -> tuple[Tensor, Tensor]:
        found = [None if tensordict is None else tensordict.get(key, None) for key in ("qpos", "qvel")]
        if found[0] is None or found[1] is None:
            raise ValueError(
                f'{type(self).__name__}: a reset with set_state=True takes a tensordict with "qpos" and "qvel", as '
                "get_state gives it."
            )
        return found[0], found[1]

    def _observed(self, state: TensorDictBase) -> TensorDict:
        ends = torch.zeros(self.num_envs, 1, dtype=torch.bool, device=self.device)
        found = {**self._build_obs_dict(state), "done": ends, "terminated": ends.clone(), "truncated": ends.clone()}
        return TensorDict(found, self.batch_size, device=self.device)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        action = tensordict["action"]
        state = self._state_td()
        self._backend.step(self._prepare_ctrl(action), self.frame_skip)
        following = self._state_td()
        self._step_count += 1
        self._after_step(following)
        reward = self._compute_reward(state, action, following).to(self.dtype).reshape(self.num_envs, 1)
        terminated = self._compute_done(state, following).reshape(self.num_envs, 1)
        truncated = self._step_count >= self.max_episode_steps
        found = self._build_obs_dict(following)
        found |= {"reward": reward, "done": terminated | truncated, "terminated": terminated, "truncated": truncated}
        return TensorDict(found, self.batch_size, device=self.device)

    def _after_step(self, state: TensorDictBase) -> None:
        """What a subclass keeps of a step, before it is rewarded."""

    def _set_seed(self, seed: int | None) -> None:
        self.rng = Generator(device="cpu" if self.device is None else self.device)
        if seed is not None:
            self.rng.manual_seed(seed)

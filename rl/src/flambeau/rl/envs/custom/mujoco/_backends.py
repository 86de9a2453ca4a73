"""Engines that compute the physics of MuJoCo models."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flambeau.rl.envs.libs._backends import backend

__all__ = ["NativeBackend", "PhysicsBackend", "make_backend", "resolve_xml_string"]

_TIMEOUT_S = 60


def resolve_xml_string(path_or_url: str | Path) -> str:
    """The text of a model.

    Args:
        path_or_url: a file, or an address that begins with http:// or https://.

    Raises:
        FileNotFoundError: there is no such file.
    """
    text = str(path_or_url)
    if text.startswith(("http://", "https://")):
        with urllib.request.urlopen(text, timeout=_TIMEOUT_S) as response:
            found: bytes = response.read()
        return found.decode()
    path = Path(text).expanduser()
    if not path.is_file():
        raise FileNotFoundError(f"There is no MuJoCo model at {path}; give the path or address of an MJCF file.")
    return path.read_text()


class PhysicsBackend:
    """The states of several simulations of one model, and how they go on.

    Args:
        source: the model, as XML (`str`) or as a file (`Path`), which may include others.
        num_envs: number of simulations N.
        device: of what it gives.

    Attributes:
        mj_model: the compiled model, a `mujoco.MjModel`.
        nq: number of coordinates.
        nv: number of velocities.
        nu: number of actuators.
        timestep: seconds of a step.
        qpos0: coordinates of the model as it is written, (nq,), float32.
        actuator_lo: least controls (nu,), float32; -inf where an actuator has no bounds.
        actuator_hi: greatest ones.
    """

    def __init__(self, source: str | Path, *, num_envs: int, device: Any) -> None:
        mujoco = backend("mujoco", type(self).__name__, "pip install 'flambeau-rl[mujoco]'")
        read = mujoco.MjModel.from_xml_path if isinstance(source, Path) else mujoco.MjModel.from_xml_string
        self.mj_model: Any = read(str(source))
        self.num_envs = num_envs
        self.device = device
        self._describe()
        self._begin()

    def _describe(self) -> None:
        model = self.mj_model
        self.nq, self.nv, self.nu = int(model.nq), int(model.nv), int(model.nu)
        self.timestep = float(model.opt.timestep)
        self.qpos0 = self._tensor(model.qpos0)
        bounded = model.actuator_ctrllimited.astype(bool)
        low, high = model.actuator_ctrlrange[:, 0], model.actuator_ctrlrange[:, 1]
        self.actuator_lo = self._tensor(np.where(bounded, low, -np.inf))
        self.actuator_hi = self._tensor(np.where(bounded, high, np.inf))

    def _tensor(self, values: Any) -> Tensor:
        return torch.tensor(np.asarray(values), dtype=torch.float32, device=self.device)

    # What an engine defines

    def _begin(self) -> None:
        """Make the states."""
        raise NotImplementedError(f"{type(self).__name__} defines no `_begin`.")

    def reset_mask(self, mask: Tensor, qpos: Tensor, qvel: Tensor) -> None:
        """Begin some simulations anew.

        Args:
            mask: which, (N,), bool.
            qpos: coordinates (N, nq).
            qvel: velocities (N, nv).
        """
        raise NotImplementedError(f"{type(self).__name__} defines no `reset_mask`.")

    def step(self, ctrl: Tensor, frame_skip: int) -> None:
        """Go on.

        Args:
            ctrl: controls (N, nu).
            frame_skip: number of steps.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no `step`.")

    def data(self, index: int) -> Any:
        """A `mujoco.MjData` of one simulation, for pictures, contacts and positions.

        Args:
            index: of the simulation.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no `data`.")

    def clone_batch(self, index: Tensor) -> PhysicsBackend:
        """Copies of some simulations.

        Args:
            index: their numbers (M,).
        """
        raise NotImplementedError(f"{type(self).__name__} defines no `clone_batch`.")

    def set_batch(self, index: Tensor, source: PhysicsBackend) -> None:
        """Overwrite some simulations.

        Args:
            index: their numbers (M,).
            source: M simulations of the same model.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no `set_batch`.")

    @property
    def qpos(self) -> Tensor:
        """Coordinates (N, nq), float32."""
        raise NotImplementedError(f"{type(self).__name__} defines no `qpos`.")

    @property
    def qvel(self) -> Tensor:
        """Velocities (N, nv), float32."""
        raise NotImplementedError(f"{type(self).__name__} defines no `qvel`.")

    @property
    def time(self) -> Tensor:
        """Seconds since the resets, (N,), float32."""
        raise NotImplementedError(f"{type(self).__name__} defines no `time`.")

    # What follows from that

    def reset(self, qpos: Tensor, qvel: Tensor) -> None:
        """Begin all simulations anew.

        Args:
            qpos: coordinates (N, nq).
            qvel: velocities (N, nv).
        """
        self.reset_mask(torch.ones(self.num_envs, dtype=torch.bool), qpos, qvel)

    def geom_contacts(self, geom_ids: Sequence[int]) -> Tensor:
        """Whether geometries touch others.

        Args:
            geom_ids: their numbers in the model.

        Returns:
            (N, number of geometries), bool.
        """
        touching = np.zeros((self.num_envs, len(geom_ids)), dtype=bool)
        for row in range(self.num_envs):
            contact = self.data(row).contact
            pairs = contact.geom[contact.dist <= 0]
            touching[row] = np.isin(geom_ids, pairs)
        return torch.from_numpy(touching).to(self.device)

    def site_positions(self, site_ids: Sequence[int]) -> Tensor:
        """Where sites are in the world.

        Args:
            site_ids: their numbers in the model.

        Returns:
            (N, number of sites, 3), float32, meters.
        """
        return self._tensor(np.stack([self.data(row).site_xpos[list(site_ids)] for row in range(self.num_envs)]))

    def render(
        self, *, camera_id: int = 0, width: int = 64, height: int = 64,
        background: tuple[float, float, float] | None = None,
    ) -> Tensor:  # fmt: skip
        """Pictures of all simulations.

        Args:
            camera_id: number of the camera in the model; -1 for a free one.
            width: in pixels.
            height: in pixels.
            background: colour where there is nothing, red, green and blue in [0, 1]; default: as the model says.

        Returns:
            (N, height, width, 3), uint8.

        Raises:
            Exception: of the driver, where OpenGL is not to be had. The environment variable `MUJOCO_GL`, read when
                mujoco is first imported, chooses it: glfw, egl or osmesa.
        """
        import mujoco

        model: Any = self.mj_model
        model.vis.global_.offwidth = max(int(model.vis.global_.offwidth), width)
        model.vis.global_.offheight = max(int(model.vis.global_.offheight), height)
        pictures = np.empty((self.num_envs, height, width, 3), dtype=np.uint8)
        with mujoco.Renderer(model, height, width) as renderer:
            for row in range(self.num_envs):
                renderer.update_scene(self.data(row), camera=camera_id)
                pictures[row] = renderer.render()
                if background is not None:
                    renderer.enable_segmentation_rendering()
                    empty = renderer.render()[..., 0] < 0
                    renderer.disable_segmentation_rendering()
                    pictures[row][empty] = np.round(np.multiply(background, 255)).astype(np.uint8)
        return torch.from_numpy(pictures).to(self.device)

    def set_static_body_pose(self, body_name: str, position: Tensor, quaternion: Tensor) -> None:
        """Move a body that has no joint and no mass, such as a mark to be seen; only the first row counts.

        Args:
            body_name: of the body.
            position: (..., 3).
            quaternion: (..., 4).
        """
        body = self.mj_model.body(body_name)
        body.pos[:] = position.reshape(-1, 3)[0].double().cpu().numpy()
        body.quat[:] = quaternion.reshape(-1, 4)[0].double().cpu().numpy()


class NativeBackend(PhysicsBackend):
    """MuJoCo's own library, one simulation after the other."""

    def _begin(self) -> None:
        import mujoco

        self._mujoco: Any = mujoco
        self._data = [mujoco.MjData(self.mj_model) for _ in range(self.num_envs)]
        for data in self._data:
            mujoco.mj_forward(self.mj_model, data)

    def reset_mask(self, mask: Tensor, qpos: Tensor, qvel: Tensor) -> None:
        """Begin some simulations anew, see `PhysicsBackend`."""
        positions, velocities = qpos.double().cpu().numpy(), qvel.double().cpu().numpy()
        for row in mask.nonzero().flatten().tolist():
            data = self._data[row]
            self._mujoco.mj_resetData(self.mj_model, data)
            data.qpos[:], data.qvel[:] = positions[row], velocities[row]
            self._mujoco.mj_forward(self.mj_model, data)

    def step(self, ctrl: Tensor, frame_skip: int) -> None:
        """Go on, see `PhysicsBackend`."""
        controls = ctrl.double().cpu().numpy()
        for data, control in zip(self._data, controls, strict=True):
            data.ctrl[:] = control
            self._mujoco.mj_step(self.mj_model, data, nstep=frame_skip)

    def data(self, index: int) -> Any:
        """The data of one simulation, with positions and contacts of its present coordinates."""
        data = self._data[index]
        # A step ends with new coordinates, and leaves positions and contacts of the ones before.
        self._mujoco.mj_fwdPosition(self.mj_model, data)
        return data

    def clone_batch(self, index: Tensor) -> NativeBackend:
        """Copies of some simulations, see `PhysicsBackend`."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin._data = [self._copied(self._data[row], self._mujoco.MjData(self.mj_model)) for row in index.tolist()]
        twin.num_envs = len(twin._data)
        return twin

    def set_batch(self, index: Tensor, source: PhysicsBackend) -> None:
        """Overwrite some simulations, see `PhysicsBackend`."""
        assert isinstance(source, NativeBackend)
        for row, data in zip(index.tolist(), source._data, strict=True):
            self._copied(data, self._data[row])

    def _copied(self, data: Any, target: Any) -> Any:
        self._mujoco.mj_copyData(target, self.mj_model, data)
        return target

    @property
    def qpos(self) -> Tensor:
        """Coordinates, see `PhysicsBackend`."""
        return self._tensor(np.stack([data.qpos for data in self._data]))

    @property
    def qvel(self) -> Tensor:
        """Velocities, see `PhysicsBackend`."""
        return self._tensor(np.stack([data.qvel for data in self._data]))

    @property
    def time(self) -> Tensor:
        """Seconds since the resets, see `PhysicsBackend`."""
        return self._tensor([data.time for data in self._data])


_BACKENDS: dict[str, Callable[..., PhysicsBackend]] = {"mujoco": NativeBackend}


def make_backend(
    name: str, source: str | Path, *, num_envs: int, device: Any, compile_step: bool = False,
    compile_kwargs: dict[str, Any] | None = None,
) -> PhysicsBackend:  # fmt: skip
    """An engine by its name.

    Args:
        name: "mujoco".
        source: the model, as XML (`str`) or as a file (`Path`).
        num_envs: number of simulations.
        device: of what it gives.
        compile_step: has no effect on a library that is compiled.
        compile_kwargs: likewise.

    Raises:
        ImportError: what it needs is not installed.
        ValueError: there is no such engine.
    """
    if name not in _BACKENDS:
        raise ValueError(f"MujocoEnv: backend is {name!r}, expected one of {sorted(_BACKENDS)}.")
    return _BACKENDS[name](source, num_envs=num_envs, device=device)

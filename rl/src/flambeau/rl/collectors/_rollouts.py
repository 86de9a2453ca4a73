"""Steps of a policy in an environment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from flambeau.data.tensordict import TensorDictBase
from flambeau.rl.collectors._receiving import ReceivesWeights
from flambeau.rl.collectors._recording import IDS, Recording, truncate_last
from flambeau.rl.collectors.utils import _TrajectoryPool
from flambeau.rl.envs.utils import ExplorationType, set_exploration_type

VERSION = "policy_version"


class RollsOut(ReceivesWeights):
    """A collector that takes the steps of a batch, and knows which trajectories they belong to."""

    env: Any
    n_env: int
    frames_per_batch: int
    init_random_frames: int
    policy_device: torch.device | None
    storing_device: torch.device | None
    exploration_type: ExplorationType
    interruptor: Any
    extend_buffer: bool
    return_same_td: bool
    reset_at_each_iter: bool
    set_truncated: bool
    track_traj_ids: bool
    _act: Callable[[Any], Any]
    _array_steps: Any
    _extras: Any
    _ids: Any
    _is_random: bool
    _recording: Recording
    _root: Any
    _traj_pool_val: _TrajectoryPool | None
    _truncations: list[Any]

    # Numbers of trajectories

    @property
    def _traj_pool(self) -> _TrajectoryPool:
        if self._traj_pool_val is None:
            self._traj_pool_val = _TrajectoryPool()
        pool: _TrajectoryPool = self._traj_pool_val
        return pool

    def _new_ids(self, where: Tensor | None) -> Any:
        """Numbers of trajectories, new ones where new episodes began; None where they are not tracked."""
        if not self.track_traj_ids:
            return None
        if where is None:
            return self._traj_pool.get_traj_and_increment(self.n_env).reshape(self.env.batch_size)
        ids: Tensor = self._ids.clone()
        ids[where] = self._traj_pool.get_traj_and_increment(int(where.sum()))
        return ids

    # Rollouts

    def _acted(self, policy: Any, root: Any) -> Any:
        """A root with actions, on the environment's device."""
        device = self.policy_device
        moved = device is not None and root.device != device
        if moved:
            root = root.to(device)
        root = policy(root)
        if moved or (self.env.device is not None and root.device != self.env.device):
            root = root.clear_device_() if self.env.device is None else root.to(self.env.device)
        return root

    @torch.no_grad()
    def rollout(self) -> TensorDictBase:
        """The steps of one batch; with a replay buffer that takes them one by one, they go there as well."""
        if self.reset_at_each_iter:
            self._root = self.env.reset()
            self._ids = self._new_ids(None)
        self.take_weights()
        random = self._frames < self.init_random_frames
        with set_exploration_type(self.exploration_type):
            arrays = self._array_steps
            at_once = arrays is not None and (arrays.reads is not None or not (random or self._is_random))
            if at_once and not self._one_by_one:
                steps, ids = self._quick_steps(random)
            else:
                steps, ids = self._steps(self._random if random else self._act)
        count = steps.batch_size[-1]
        batch = self._recording.batch(steps, ids, self.return_same_td)
        if self.set_truncated:
            truncate_last(batch, self._truncations, count - 1)
        return batch

    def _random(self, root: Any) -> Any:
        root = self.env.rand_action(root)
        return root if self._extras is None else root.update(self._extras)

    @property
    def _one_by_one(self) -> bool:
        """Whether steps go to the replay buffer as they come."""
        return self.replay_buffer is not None and not self.extend_buffer

    def _quick_steps(self, random: bool) -> tuple[Any, Tensor | None]:
        """Steps between arrays."""
        root, count, version = self._root, self.frames_per_batch, self._version
        if random or self._is_random:
            steps, self._root, ended = self._array_steps.random(root, count, self._stopped())
            if self._extras is not None:
                steps.update(self._extras.expand(steps.batch_size).clone())
                self._root.update(self._extras)
        else:
            steps, self._root, ended = self._array_steps.policys(root, self._act, count, self._stopped())
        if version is not None:
            _set_version(steps, version)
        if not self.track_traj_ids:
            return steps, None
        ids = torch.empty(steps.batch_size, dtype=torch.int64)
        begin = 0
        for at in ended:
            ids[begin : at + 1] = self._ids
            self._ids = self._new_ids(None)
            begin = at + 1
        ids[begin:] = self._ids
        return steps, ids

    def _stopped(self) -> Callable[[], bool] | None:
        """What is done after each step, which says whether it was the last; None for nothing."""
        interruptor = self.interruptor
        if not self._receivers:
            return None if interruptor is None else interruptor.collection_stopped

        def stopped() -> bool:
            self.take_weights()
            return interruptor is not None and interruptor.collection_stopped()

        return stopped

    def _steps(self, policy: Any) -> tuple[Any, Tensor | None]:
        env, root, stopped = self.env, self._root, self._stopped()
        storing = self.storing_device
        moves = storing is not None and storing != env.device and storing.type != "cpu"
        steps: list[Any] = []
        ids: list[Tensor] = []
        for _ in range(self.frames_per_batch):
            step, root = env.step_and_maybe_reset(self._acted(policy, root))
            if self._version is not None:
                _set_version(step, self._version)
            steps.append(step.to(storing) if moves else step)
            if self.track_traj_ids:
                ids.append(self._ids)
            if self._one_by_one:
                self._add(step)
            if self.track_traj_ids:
                ended = self._ended(step.get("next"))
                if ended is not None:
                    self._ids = self._new_ids(ended)
            if stopped is not None and stopped():
                break
        self._root = root
        return self._recording.stacked(steps), torch.stack(ids, -1) if self.track_traj_ids else None

    def _ended(self, following: Any) -> Tensor | None:
        """Where an episode ended; None for nowhere."""
        found: Tensor | None = None
        size = self.env.batch_size
        for key in self.env.done_keys:
            end = following.get(key)
            if bool(end.any()):
                end = end.reshape(*size, -1).any(-1)
                found = end if found is None else found | end
        return found

    def _add(self, step: Any) -> None:
        step = step.copy()
        for key in [key for key in list(step.keys()) if key.startswith("_")]:
            del step[key]
        if self._recording.left_out:
            step = step.exclude(*self._recording.left_out)
        if self.track_traj_ids:
            step.set(IDS, self._ids)
        self.replay_buffer.add(step)

    def reset(self, index: Any = None, **kwargs: Any) -> None:
        """Begin new episodes.

        Args:
            index: a mask or index of the environments that do; default: all.
            kwargs: passed on to the environment.
        """
        with torch.no_grad():
            if index is None:
                self._root = self.env.reset(**kwargs)
                self._ids = self._new_ids(None)
                return
            size = self.env.batch_size
            mask = torch.zeros(size, dtype=torch.bool)
            mask[index] = True
            root = self._root.copy()
            for key, (done, *_) in zip(self.env.reset_keys, self.env.done_keys_groups, strict=True):
                end = root.get(done)
                root.set(key, mask.reshape(*size, *[1] * (end.ndim - len(size))).expand(end.shape).to(end.device))
            self._root = self.env.reset(root, **kwargs)
            self._ids = self._new_ids(mask)


def _set_version(steps: Any, version: Any) -> None:
    """Write the version of the policy that chose the actions."""
    steps.set(VERSION, torch.full(steps.batch_size, version, dtype=torch.int64))

"""`BaseCollector`: what all collectors are."""

from __future__ import annotations

from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from torch.utils.data import IterableDataset

from flambeau.data.tensordict import TensorDictBase
from flambeau.rl.collectors._profiling import ProfileConfig

__all__ = ["BaseCollector", "ProfileConfig"]

Hook = Callable[..., None]


class BaseCollector(IterableDataset[Any]):
    """Lets policies act in environments, and gives what happened in batches.

    Args:
        pre_collect_hook: called before each batch is collected.
        post_collect_hook: called with each batch that was collected, before it is processed.
    """

    total_frames: float
    requested_frames_per_batch: int
    closed = True
    verbose = False
    trajs_per_batch: int | None = None
    trajs_per_write: int | None = None
    traj_format = "padded"
    _weight_updater: Any = None
    _frames = 0
    _iter = -1
    _profile_config: ProfileConfig | None = None

    def __init__(self, *, pre_collect_hook: Hook | None = None, post_collect_hook: Hook | None = None) -> None:
        self._iterator: Iterator[Any] | None = None
        self._pre_collect_hook = pre_collect_hook
        self._post_collect_hook = post_collect_hook

    # Batches

    @abstractmethod
    def iterator(self) -> Iterator[TensorDictBase]:
        """Batches, until there were `total_frames` steps."""

    def __iter__(self) -> Iterator[TensorDictBase]:
        """Batches; it shuts the collector down where it is left by an error."""
        try:
            yield from self.iterator()
        except BaseException as error:
            # A loop that was left with `break` ends in GeneratorExit, and may go on with another iterator.
            if not isinstance(error, GeneratorExit) and not self.closed:
                self.shutdown(raise_on_error=False)
            raise

    def next(self) -> Any:
        """The next batch; None where there is none."""
        if self._iterator is None:
            self._iterator = iter(self)
        return next(self._iterator, None)

    def __len__(self) -> int:
        if self.total_frames == float("inf"):
            raise TypeError("This collector has no end: give it total_frames= to have a length.")
        return int(-(self.total_frames // -self.requested_frames_per_batch))

    def start(self) -> None:
        """Collect in the background into the replay buffer.

        Raises:
            RuntimeError: this collector does not, or has no replay buffer.
        """
        raise RuntimeError(f"{type(self).__name__} does not collect in the background; iterate over it.")

    def pause(self, *args: Any, **kwargs: Any) -> AbstractContextManager[None]:
        """A context in which nothing is collected in the background.

        Args:
            args: of the collector.
            kwargs: of the collector.

        Raises:
            RuntimeError: this collector does not collect in the background.
        """
        raise RuntimeError(f"{type(self).__name__} does not collect in the background; there is nothing to pause.")

    @abstractmethod
    def shutdown(self, timeout: float | None = None, close_env: bool = True, raise_on_error: bool = True) -> None:
        """Close environments, and end processes.

        Args:
            timeout: seconds that they have to end.
            close_env: close environments.
            raise_on_error: raise what goes wrong.
        """

    def async_shutdown(self, timeout: float | None = None, close_env: bool = True) -> None:
        """Shut down a collector that was started in the background.

        Args:
            timeout: seconds that it has to end.
            close_env: close environments.
        """
        self.shutdown(timeout=timeout, close_env=close_env)

    def __enter__(self) -> Any:
        """The collector, which is shut down at the end of a `with` block."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Shut it down."""
        if not self.closed:
            self.shutdown()

    # Profiles

    @property
    def profile_config(self) -> ProfileConfig | None:
        """What is profiled; None for nothing."""
        return self._profile_config

    def enable_profile(
        self,
        *,
        workers: list[int] | None = None,
        num_rollouts: int = 3,
        warmup_rollouts: int = 1,
        save_path: str | Path | None = None,
        activities: list[str] | None = None,
        record_shapes: bool = True,
        profile_memory: bool = False,
        with_stack: bool = True,
        with_flops: bool = False,
        on_trace_ready: Callable[..., None] | None = None,
    ) -> None:
        """Profile the next batches, see `ProfileConfig`.

        Args:
            workers: numbers of the workers that are profiled; default: the first.
            num_rollouts: batches in all.
            warmup_rollouts: batches that are not recorded.
            save_path: file of the trace.
            activities: "cpu", "cuda", "xpu", "mtia"; default: the first two.
            record_shapes: record shapes of arguments.
            profile_memory: record allocations.
            with_stack: record where in the source operators were called.
            with_flops: estimate floating point operations.
            on_trace_ready: called with the profiler at the end, instead of writing a file.

        Raises:
            ValueError: there are fewer batches than those that are not recorded, or an activity is unknown.
        """
        self._set_profile(
            ProfileConfig(
                workers=[0] if workers is None else list(workers),
                num_rollouts=num_rollouts,
                warmup_rollouts=warmup_rollouts,
                save_path=save_path,
                activities=["cpu", "cuda"] if activities is None else list(activities),
                record_shapes=record_shapes,
                profile_memory=profile_memory,
                with_stack=with_stack,
                with_flops=with_flops,
                on_trace_ready=on_trace_ready,
            )
        )

    def disable_profile(self) -> None:
        """End the profile."""
        self._set_profile(None)

    def _set_profile(self, config: ProfileConfig | None) -> None:
        self._profile_config = config

    # Facts

    @property
    def worker_idx(self) -> int | None:
        """The number of the worker that this collector is in; None in the main process."""
        return self.__dict__.get("_worker_idx")

    @worker_idx.setter
    def worker_idx(self, value: int | None) -> None:
        self.__dict__["_worker_idx"] = value

    @property
    def pre_collect_hook(self) -> Hook | None:
        """What is called before each batch."""
        return self._pre_collect_hook

    @property
    def post_collect_hook(self) -> Hook | None:
        """What is called with each batch."""
        return self._post_collect_hook

    def set_post_collect_hook(self, hook: Hook | None) -> None:
        """Set what is called with each batch; None for nothing."""
        self._post_collect_hook = hook

    def stats(self) -> dict[str, int | float | bool]:
        """How many steps and batches there were."""
        facts: dict[str, int | float | bool] = {"frames": self._frames, "batches": self._iter + 1}
        if self.total_frames != float("inf"):
            facts["total_frames"] = int(self.total_frames)
            facts["completed"] = self._frames >= self.total_frames
        facts["requested_frames_per_batch"] = self.requested_frames_per_batch
        return facts

    @abstractmethod
    def set_seed(self, seed: int, static_seed: bool = False) -> int:
        """Set the seed of the environments, and return the next one.

        Args:
            seed: any number.
            static_seed: the same for all.
        """

    @abstractmethod
    def state_dict(self) -> OrderedDict[str, Any]:
        """Policies, environments, and how far the collector has come."""

    @abstractmethod
    def load_state_dict(self, state_dict: OrderedDict[str, Any]) -> None:
        """Go on from what `state_dict` gave."""

    # Attributes and methods by name

    def get_distant_attr(self, attr: str) -> Any:
        """What stands at a dotted path, such as "env.batch_size"."""
        found: Any = self
        for name in attr.split("."):
            found = getattr(found, name)
        return found

    def cascade_execute(self, attr_path: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method at a dotted path, such as "env.set_seed"; what is no method is returned.

        Args:
            attr_path: the path.
            args: for the method.
            kwargs: for the method.
        """
        found = self.get_distant_attr(attr_path)
        return found(*args, **kwargs) if callable(found) else found

    def map_fn(
        self,
        method_name: str,
        list_of_args: list[tuple[Any, ...]] | None = None,
        list_of_kwargs: list[dict[str, Any]] | None = None,
    ) -> list[Any]:
        """Call a method once for each set of arguments.

        Args:
            method_name: a dotted path.
            list_of_args: arguments by place, one tuple a call.
            list_of_kwargs: arguments by name, one dictionary a call.

        Raises:
            ValueError: there are not as many of the one as of the other.
        """
        count = max(len(list_of_args or ()), len(list_of_kwargs or ())) or 1
        args = list_of_args or [()] * count
        kwargs = list_of_kwargs or [{}] * count
        if len(args) != len(kwargs):
            raise ValueError(f"list_of_args has {len(args)} entries, list_of_kwargs {len(kwargs)}; give as many.")
        return [self.cascade_execute(method_name, *each, **named) for each, named in zip(args, kwargs, strict=True)]

    # Weights

    @property
    def weight_updater(self) -> Any:
        """What brings new weights to the policies; None where there is none."""
        return self._weight_updater

    @weight_updater.setter
    def weight_updater(self, value: Any) -> None:
        if value is not None and callable(value) and not hasattr(value, "push_weights"):
            value = value()
        if value is not None:
            value.register_collector(self)
        self._weight_updater = value

    def init_updater(self, *args: Any, **kwargs: Any) -> None:
        """Let the weight updater get ready, see `WeightUpdaterBase.init`."""
        self.weight_updater.init(*args, **kwargs)

    @abstractmethod
    def update_policy_weights_(
        self,
        policy_or_weights: Any = None,
        *,
        weights: Any = None,
        policy: Any = None,
        worker_ids: Any = None,
        model_id: str | None = None,
        weights_dict: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Give the policies that act new weights.

        Args:
            policy_or_weights: a module, a tensordict of weights, or a state_dict; default: those of the policy that the
                collector was made with.
            weights: weights, by this name.
            policy: a module, by this name.
            worker_ids: workers, or devices, that get them; default: all.
            model_id: which model gets them; default: "policy".
            weights_dict: weights by model.
            kwargs: passed on to the weight updater.
        """

    def receive_weights(self, policy_or_weights: Any = None) -> None:
        """Take new weights, see `update_policy_weights_`.

        Args:
            policy_or_weights: a module, a tensordict of weights, or a state_dict.
        """
        self.update_policy_weights_(policy_or_weights)

    def register_scheme_receiver(
        self, weight_recv_schemes: dict[str, Any], *, synchronize_weights: bool = True
    ) -> None:
        """Take weights by schemes.

        Args:
            weight_recv_schemes: schemes by model.
            synchronize_weights: begin with the sender's.

        Raises:
            RuntimeError: this collector takes none by schemes.
        """
        raise RuntimeError(f"{type(self).__name__} takes no weights by schemes; use update_policy_weights_.")

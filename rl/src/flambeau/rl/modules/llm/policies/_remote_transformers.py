"""A transformers policy in an actor of Ray."""

from __future__ import annotations

from typing import Any, cast

__all__ = ["RemoteTransformersWrapper"]

_VALUES = (
    "batching", "device", "dist_params_keys", "dist_sample_keys", "generate", "in_keys", "inplace", "layout",
    "log_prob_keys", "log_probs_key", "masks_key", "num_samples", "out_keys", "pad_output", "text_key", "tokens_key",
)  # fmt: skip


class _Actor:
    """What runs in the actor."""

    def __init__(self, model: Any, kwargs: dict[str, Any]) -> None:
        from flambeau.rl.modules.llm.policies.transformers_wrapper import TransformersWrapper

        self.policy = TransformersWrapper(model, **kwargs)

    def call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        found = self.policy(*args, **kwargs) if name == "__call__" else getattr(self.policy, name)(*args, **kwargs)
        return found.detach() if hasattr(found, "detach") else found

    def value(self, name: str) -> Any:
        return getattr(self.policy, name)


class RemoteTransformersWrapper:
    """A `TransformersWrapper` in an actor of Ray, used as if it were here.

    Args:
        model: the name of a model, which the actor loads; or one itself, which is sent to it.
        max_concurrency: how many calls run at a time.
        validate_model: refuse what is neither a name nor a module.
        actor_name: of the actor; one of this name that exists is used as it is.
        num_gpus: that the actor reserves.
        num_cpus: likewise.
        **kwargs: of `TransformersWrapper`.

    Raises:
        ImportError: Ray is not installed.
        TypeError: the model is neither a name nor a module.
        ray.exceptions.RayTaskError: of a call: what the policy raised, with the traceback from the actor.
    """

    def __init__(
        self, model: Any, max_concurrency: int = 16, validate_model: bool = True, actor_name: str | None = None,
        num_gpus: int = 1, num_cpus: int = 1, **kwargs: Any,
    ) -> None:  # fmt: skip
        try:
            import ray
        except ImportError as error:
            raise ImportError(
                "RemoteTransformersWrapper needs Ray, which is not installed. Run: pip install flambeau-rl[ray]"
            ) from error
        if validate_model and not (isinstance(model, str) or callable(getattr(model, "generate", None))):
            raise TypeError(
                f"model is a {type(model).__name__}, expected the name of a model of transformers, or one itself."
            )
        if not ray.is_initialized():
            ray.init()
        options: dict[str, Any] = {
            "max_concurrency": max_concurrency, "num_gpus": num_gpus, "num_cpus": num_cpus,
        }  # fmt: skip
        if actor_name is not None:
            options |= {"name": actor_name, "get_if_exists": True}
        self._ray = ray
        self._actor = cast("Any", ray.remote(_Actor).options(**options).remote(model, kwargs))
        ray.get(self._actor.value.remote("in_keys"))  # a model that does not load raises here

    def _call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        return self._ray.get(self._actor.call.remote(name, args, kwargs))

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"RemoteTransformersWrapper has no attribute {name!r}.")

    def __call__(self, tensordict: Any, **kwargs: Any) -> Any:
        """See `TransformersWrapper.forward`; in place, too, where the policy works in place."""
        found = self._call("__call__", tensordict, **kwargs)
        if self.inplace is True and found.batch_size == tensordict.batch_size:
            return tensordict.update(found)
        return found

    def __enter__(self) -> RemoteTransformersWrapper:
        return self

    def __exit__(self, exc_type: Any, exc_val: Any, exc_tb: Any) -> None:
        self.cleanup_batching()
        self._ray.kill(self._actor)

    def get_dist(self, tensordict: Any, **kwargs: Any) -> Any:
        """See `LLMWrapperBase.get_dist`; without gradients."""
        return self._call("get_dist", tensordict, **kwargs)

    def get_dist_with_prompt_mask(self, tensordict: Any, **kwargs: Any) -> Any:
        """The distributions with what stands behind the prompt counting; without gradients."""
        return self._call("_get_dist_with_prompt_mask", tensordict, **kwargs)

    def log_prob(self, data: Any, **kwargs: Any) -> Any:
        """See `LLMWrapperBase.log_prob`; without gradients."""
        return self._call("log_prob", data, **kwargs)

    def get_new_version(self, **kwargs: Any) -> Any:
        """A `TransformersWrapper` here, with a copy of the model and other arguments."""
        return self._call("get_new_version", **kwargs)

    def cleanup_batching(self) -> None:
        """Cancel the calls that wait."""
        self._call("cleanup_batching")

    def get_batching_state(self) -> Any:
        """See `LLMWrapperBase.get_batching_state`."""
        return self._call("get_batching_state")

    @property
    def collector(self) -> None:
        """None: an actor has no reference to a collector here."""
        return None


def _remote_value(name: str) -> property:
    def read(self: RemoteTransformersWrapper) -> Any:
        return self._ray.get(self._actor.value.remote(name))

    read.__doc__ = f"`{name}` of the policy in the actor."
    return property(read)


for _name in _VALUES:
    setattr(RemoteTransformersWrapper, _name, _remote_value(_name))
del _name

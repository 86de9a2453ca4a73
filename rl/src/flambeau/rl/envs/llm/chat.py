"""Conversations as environments: a model speaks, and what it said becomes part of the next prompt."""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable
from typing import Any, Literal, Self

import torch
from torch import Size

from flambeau.data.tensordict import NonTensorStack, TensorDict, TensorDictBase, lazy_stack
from flambeau.rl.data.llm import History
from flambeau.rl.data.tensor_specs import Categorical, Composite, NonTensor
from flambeau.rl.envs.common import EnvBase
from flambeau.rl.envs.llm.transforms.dataloading import DataLoadingPrimer
from flambeau.rl.envs.llm.transforms.tokenizer import IncrementalTokenizer
from flambeau.rl.envs.transforms import Compose, TransformedEnv
from flambeau.rl.modules.llm.policies import ChatHistory, Text, Tokens

__all__ = ["ChatEnv", "DatasetChatEnv"]

InputMode = Literal["history", "text", "tokens"]
_CONTAINERS: dict[str, Any] = {"history": ChatHistory, "text": Text, "tokens": Tokens}


class _ChatMeta(type(EnvBase)):  # type: ignore[misc]
    def __call__(cls, *, with_tokenizer: bool = False, **kwargs: Any) -> Any:
        env = super().__call__(**kwargs)
        if not with_tokenizer:
            return env
        if env.tokenizer is None:
            raise ValueError("with_tokenizer=True keeps tokens beside conversations; give the tokenizer as well.")
        return TransformedEnv(env, IncrementalTokenizer(env.tokenizer))


class ChatEnv(EnvBase, metaclass=_ChatMeta):
    """A conversation with a model. It has no reward and no end: transforms give them, and run tools.

    An episode begins with what stands at `data_key`: what a user says, or a conversation. The policy reads it at
    (mode, "prompt"), and writes it with its response at (mode, "full"), which is the next prompt.

    Args:
        input_mode: what prompts are: conversations ("history"), texts in the format of a chat template ("text"), or
            tokens of those ("tokens").
        batch_size: how many conversations; default: (1,).
        system_prompt: is put before every conversation.
        tokenizer: writes texts and tokens.
        template_kwargs: of `History.apply_chat_template`.
        system_role: who says the system prompt.
        user_role: who says what is at `data_key`.
        policy_role: who the policy is.
        data_key: of texts, conversations or lists of messages; default: "query".
        device: of masks and tokens.
        with_tokenizer: keep tokens beside conversations, by `IncrementalTokenizer`.

    Raises:
        ValueError: another input mode.

    Example:
        >>> from flambeau.data.tensordict import TensorDict
        >>> env = ChatEnv(batch_size=(1,), system_prompt="Be brief.")
        >>> env.reset(TensorDict({"query": ["Hello"]}, [1]))["history"].prompt.content
        [['Be brief.', 'Hello']]
    """

    data_key = "query"
    response_key = ("text", "response")
    text_key = ("text", "prompt")

    def __init__(
        self,
        *,
        input_mode: InputMode = "history",
        batch_size: tuple[int, ...] | Size | None = None,
        system_prompt: str | None = None,
        tokenizer: Any = None,
        template_kwargs: dict[str, Any] | None = None,
        system_role: str = "system",
        user_role: str = "user",
        policy_role: str | None = "assistant",
        data_key: str | None = None,
        device: Any = None,
    ) -> None:
        if input_mode not in _CONTAINERS:
            raise ValueError(f"input_mode is 'history', 'text' or 'tokens'; got {input_mode!r}.")
        super().__init__(batch_size=Size((1,) if batch_size is None else batch_size), device=device)
        self.input_mode = input_mode
        self.system_prompt = system_prompt
        self.tokenizer = tokenizer
        self.template_kwargs = dict(template_kwargs or {})
        self.system_role = system_role
        self.user_role = user_role
        self.policy_role = policy_role
        if data_key is not None:
            self.data_key = data_key
        self._make_specs()

    def _make_specs(self) -> None:
        shape = self.batch_size
        self.full_observation_spec = Composite({self.input_mode: self._container_spec("prompt")}, shape=shape)
        self.full_action_spec = Composite({self.input_mode: self._container_spec("full")}, shape=shape)
        self.full_state_spec = Composite({self.data_key: NonTensor(example_data="a string", shape=shape)}, shape=shape)
        self.full_reward_spec = Composite(shape=shape)
        end = Categorical(2, (*shape, 1), dtype=torch.bool, device=self.device)
        self.full_done_spec = Composite(done=end, terminated=end.clone(), shape=shape)

    def _container_spec(self, part: str) -> Composite:
        spec: Composite = _CONTAINERS[self.input_mode].default_spec(shape=self.batch_size, keys=[part])
        spec.shape = self.batch_size
        return spec

    @classmethod
    def from_dataloader(
        cls,
        dataloader: Any,
        *,
        repeats: int | None = None,
        device: Any = None,
        group_repeats: bool = False,
        batch_size: tuple[int, ...] | Size | None = None,
        primers: Composite | None = None,
        tokenizer: Any = None,
        template_kwargs: dict[str, Any] | None = None,
        input_mode: InputMode = "history",
        data_key: str | None = None,
        system_prompt: str | None = None,
    ) -> DatasetChatEnv:
        """An environment whose conversations begin with what a data loader gives.

        Args:
            dataloader: gives dictionaries with `data_key`.
            repeats: begin so many conversations with each.
            device: as for the constructor.
            group_repeats: those are one batch.
            batch_size: how many conversations; default: the loader's.
            primers: specs of what the loader gives; default: those of its first batch.
            tokenizer: as for the constructor.
            template_kwargs: as for the constructor.
            input_mode: as for the constructor.
            data_key: as for the constructor.
            system_prompt: as for the constructor.
        """
        return DatasetChatEnv.from_dataloader(
            dataloader, repeats=repeats, device=device, group_repeats=group_repeats, batch_size=batch_size,
            primers=primers, tokenizer=tokenizer, template_kwargs=template_kwargs, input_mode=input_mode,
            data_key=data_key, system_prompt=system_prompt,
        )  # fmt: skip

    @classmethod
    def with_tokenizer(cls, tokenizer: Any, **kwargs: Any) -> TransformedEnv:
        """An environment that keeps tokens beside conversations.

        Args:
            tokenizer: makes them.
            kwargs: of the constructor.
        """
        return cls(tokenizer=tokenizer, with_tokenizer=True, **kwargs)  # type: ignore[call-arg,return-value]

    def _set_seed(self, seed: int | None) -> None:
        """Nothing is random."""

    # Beginnings

    def _conversations(self, given: Any, size: Size) -> Any:
        """What is at `data_key` as a history of the batch, with the system prompt."""
        if size:
            parts = given.unbind(0) if hasattr(given, "unbind") else given
            return lazy_stack([self._conversations(part, size[1:]) for part in parts])
        history = given if isinstance(given, History) else self._read(getattr(given, "data", given))
        if not history.ndim:
            history = history.unsqueeze(0)
        if self.system_prompt is not None:
            history = lazy_stack([History(role=self.system_role, content=self.system_prompt), *history.unbind(0)])
        return history

    def _read(self, given: Any) -> History:
        if isinstance(given, str):
            return lazy_stack([History(role=self.user_role, content=given)])  # type: ignore[no-any-return]
        if isinstance(given, list) and given:
            made: History = History.from_chats(given)
            return made
        raise TypeError(
            f"What is at {self.data_key!r} is a text, a History or a list of messages; got {type(given).__name__}."
        )

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        given = None if tensordict is None else tensordict.get(self.data_key, None)
        if tensordict is None or given is None:
            raise RuntimeError(
                f"{type(self).__name__}.reset begins conversations with what is at {self.data_key!r}; give a "
                "tensordict with it, or add a DataLoadingPrimer."
            )
        history = self._conversations(given, self.batch_size)
        made = ChatHistory(prompt=history, batch_size=self.batch_size)
        if self.input_mode == "history":
            prompt: Any = made
        else:
            prompt = self._written(history)
        return self._given({self.input_mode: prompt, self.data_key: given})

    def _written(self, history: History) -> Any:
        """A history as texts or tokens."""
        options = {"add_generation_prompt": True, **self.template_kwargs}
        if self.input_mode == "text":
            texts = history.apply_chat_template(tokenizer=self.tokenizer, tokenize=False, **options)
            return Text(prompt=NonTensorStack.from_list(texts), batch_size=self.batch_size)
        tokens = history.apply_chat_template(tokenizer=self.tokenizer, **options | _AS_TOKENS)
        rows = [Tokens(prompt=row["input_ids"], padded=False, batch_size=()) for row in tokens.unbind(0)]
        return lazy_stack(rows)

    def _given(self, entries: dict[str, Any]) -> TensorDictBase:
        end = torch.zeros(*self.batch_size, 1, dtype=torch.bool, device=self.device)
        made = TensorDict({}, self.batch_size, device=self.device)
        for key, value in entries.items():
            made.set(key, value)
        return made.update({"done": end, "terminated": end.clone()})

    # Turns

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        said = tensordict.get(self.input_mode, None)
        prompt = None if said is None else self._next_prompt(said)
        if prompt is None:
            raise RuntimeError(
                f"{type(self).__name__}.step reads prompt and response at ({self.input_mode!r}, 'full'), which the "
                "policy writes; there is none."
            )
        return self._given({self.input_mode: prompt})

    def _next_prompt(self, said: Any) -> Any:
        """What was said, as the next prompt; None where nothing was."""
        if self.input_mode == "tokens":
            rows = [row.full for row in said.unbind(0)]
            if any(row is None for row in rows):
                return None
            return lazy_stack([Tokens(prompt=row, padded=False, batch_size=()) for row in rows])
        full = said.full
        if full is None:
            return None
        # Messages that are added to the next prompt are not added to this step's.
        full = full.clone(False) if isinstance(full, History) else full
        return _CONTAINERS[self.input_mode](prompt=full, batch_size=self.batch_size)


_AS_TOKENS = {"tokenize": True, "return_dict": True, "return_tensors": "pt"}


class DatasetChatEnv(TransformedEnv):
    """Conversations that begin with the items of a data set of the Hugging Face Hub, or of a local folder.

    Args:
        dataset: its name or folder, as `datasets.load_dataset` takes it.
        shuffle: in a random order.
        name: of its configuration.
        split: which part; default: the first.
        num_envs: how many conversations at a time.
        repeats: begin so many with each item, for estimates of advantages.
        batch_size_dl: items that the data set gives at a time.
        seed: of the order; default: any.
        group_repeats: the conversations that begin alike are one batch.
        tokenizer: of the model; writes texts and tokens.
        device: of masks and tokens.
        template_kwargs: of `History.apply_chat_template`.
        apply_template: has no effect; `input_mode` says what prompts are.
        collate_fn: from a list of items to a dictionary of lists; default: as they are, with "text" as "query".
        input_mode: as for `ChatEnv`.
        data_key: as for `ChatEnv`.
        primers: specs of the items; default: those of the first.
        system_prompt: is put before every conversation; default: `SYSTEM_PROMPT`.
        ray_backend: items come from an actor of Ray, which many environments may share.
        dataloader_actor_name: its name.

    Raises:
        ImportError: datasets is not installed.
    """

    SYSTEM_PROMPT: str | None = None

    def __init__(
        self,
        *,
        dataset: str,
        shuffle: bool = True,
        name: str | None = None,
        split: Literal["train", "val", "test"] | None = None,
        num_envs: int = 1,
        repeats: int | None = None,
        batch_size_dl: int = 1,
        seed: int | None = None,
        group_repeats: bool = False,
        tokenizer: Any = None,
        device: Any = None,
        template_kwargs: dict[str, Any] | None = None,
        apply_template: bool | None = False,
        collate_fn: Callable[[Any], Any] | None = None,
        input_mode: InputMode = "history",
        data_key: str | None = None,
        primers: Composite | None = None,
        system_prompt: str | None = None,
        ray_backend: bool = False,
        dataloader_actor_name: str | None = None,
    ) -> None:
        make_loader = _LoaderMaker(
            dataset, name, split, shuffle, batch_size_dl, seed, _queries if collate_fn is None else collate_fn
        )
        self._begin(
            make_loader, num_envs, repeats, group_repeats, device, primers, tokenizer, template_kwargs, input_mode,
            data_key, system_prompt, ray_backend, dataloader_actor_name,
        )  # fmt: skip

    def _begin(
        self, make_loader: Callable[[], Any], num_envs: int | None, repeats: int | None, group_repeats: bool,
        device: Any, primers: Any, tokenizer: Any, template_kwargs: Any, input_mode: Any, data_key: str | None,
        system_prompt: str | None, ray_backend: bool = False, actor_name: str | None = None,
    ) -> None:  # fmt: skip
        shared: dict[str, Any] = {"actor_name": actor_name} if ray_backend else {}
        primer = DataLoadingPrimer(
            dataloader_factory=make_loader,
            repeats=repeats,
            device=device,
            group_repeats=group_repeats,
            batch_size=None if num_envs is None else (num_envs,),
            primers=primers,
            use_ray_service=ray_backend,
            **shared,
        )
        env = ChatEnv(
            batch_size=primer.primers.shape,
            system_prompt=self.SYSTEM_PROMPT if system_prompt is None else system_prompt,
            tokenizer=tokenizer,
            template_kwargs=template_kwargs,
            input_mode=input_mode,
            data_key=data_key,
            device=device,
        )
        super().__init__(env, Compose(primer))

    @classmethod
    def from_dataloader(
        cls,
        dataloader: Any,
        *,
        repeats: int | None = None,
        device: Any = None,
        group_repeats: bool = False,
        batch_size: tuple[int, ...] | Size | None = None,
        primers: Composite | None = None,
        tokenizer: Any = None,
        template_kwargs: dict[str, Any] | None = None,
        input_mode: InputMode = "history",
        data_key: str | None = None,
        system_prompt: str | None = None,
    ) -> Self:
        """An environment whose conversations begin with what a data loader gives.

        Args:
            dataloader: gives dictionaries with `data_key`.
            repeats: begin so many conversations with each.
            device: as for the constructor.
            group_repeats: those are one batch.
            batch_size: how many conversations; default: the loader's.
            primers: specs of what the loader gives; default: those of its first batch.
            tokenizer: as for the constructor.
            template_kwargs: as for the constructor.
            input_mode: as for the constructor.
            data_key: as for the constructor.
            system_prompt: as for the constructor.
        """
        made = cls.__new__(cls)
        number = None if batch_size is None else Size(batch_size).numel()
        made._begin(
            _Given(dataloader), number, repeats, group_repeats, device, primers, tokenizer, template_kwargs, input_mode,
            data_key, system_prompt,
        )  # fmt: skip
        return made

    def reset_dataloader(self) -> TransformedEnv:
        """Begin the data set anew, and return the environment."""
        transform: Any = self.transform
        inner: list[Any] = list(transform.transforms) if isinstance(transform, Compose) else [transform]
        for each in inner:
            if hasattr(each, "reset_dataloader"):
                each.reset_dataloader()
        return self


class _Given:
    """A loader that was made already."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader

    def __call__(self) -> Any:
        return self.loader


class _LoaderMaker:
    """Makes the loader of a data set; may be sent to another process."""

    def __init__(
        self, dataset: str, name: str | None, split: str | None, shuffle: bool, batch_size: int, seed: int | None,
        collate: Callable[[Any], Any],
    ) -> None:  # fmt: skip
        self.given = (dataset, name, split)
        self.shuffle = shuffle
        self.batch_size = batch_size
        self.seed = random.randrange(2**31) if seed is None else seed
        self.collate = collate

    def __call__(self) -> Any:
        dataset, name, split = self.given
        try:
            load = importlib.import_module("datasets").load_dataset
        except ImportError as error:
            raise ImportError(
                "Data sets of the Hub are read by datasets, which is not installed; pip install datasets."
            ) from error
        found = load(dataset, name, split=split)
        if split is None and hasattr(found, "keys"):
            found = found[next(iter(found.keys()))]
        generator = torch.Generator().manual_seed(self.seed)
        return torch.utils.data.DataLoader(
            found, batch_size=self.batch_size, shuffle=self.shuffle, collate_fn=self.collate, generator=generator
        )


def _queries(items: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Items as lists, with "text" as "query"."""
    keys = {key: "query" if key == "text" else key for key in items[0]}
    return {new: [item[key] for item in items] for key, new in keys.items()}

"""Enums that name pretrained parameters, and what a member can do.

::

    class ResNet18_Weights(WeightsEnum):
        IMAGENET1K_V1 = Weights(url, lazy("pkg.presets:ImageClassification", crop_size=224), meta={...}, size=46830571)
        DEFAULT = IMAGENET1K_V1

Nothing here imports torch: a listing reads facts; the file is fetched and opened by `get_state_dict` and `load`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Self

from flambeau.core.errors import UnknownMemberError, UnknownNameError, close_names
from flambeau.core.weights.facts import Format, Weights, looks_like_a_file

if TYPE_CHECKING:
    import torch


class WeightsEnum(Enum):
    """The pretrained parameters of one model, each member one `Weights`; `DEFAULT` is an alias of the best.

    Members are singletons: hashing, pickling and copying give the same object, and iteration yields each once.
    """

    @classmethod
    def verify(cls, obj: Any) -> Self | None:
        """What a builder's argument `weights` stands for.

        Args:
            obj: None, a member, or its name: `"IMAGENET1K_V2"`, `"DEFAULT"`, `"ResNet50_Weights.IMAGENET1K_V2"`, or a
                registered `"vision/resnet50:IMAGENET1K_V2"`.

        Raises:
            TypeError: `obj` is something else, or a member of another enum.
            UnknownMemberError: the enum has no member of this name; it is a TypeError, KeyError and ValueError.
        """
        if obj is None or isinstance(obj, cls):
            return obj
        if isinstance(obj, str):
            if ":" not in obj or looks_like_a_file(obj):
                return cls._named(obj)
            return cls._registered(obj)
        if isinstance(obj, PurePath):
            return cls._named(str(obj))
        received = repr(obj) if isinstance(obj, Enum) else type(obj).__name__
        raise TypeError(f"The weights are {received}; expected {cls.__name__}, a member or its name.")

    @classmethod
    def _registered(cls, name: str) -> Self:
        """The member that a registered name, `plugin/model:MEMBER`, stands for."""
        from flambeau.core.registry import MODELS, WEIGHTS

        model, _, member = name.rpartition(":")
        if model in MODELS and MODELS.info(model).get("weights") == f"{cls.__module__}:{cls.__qualname__}":
            return cls._named(member)
        found = WEIGHTS.resolve(name)
        if isinstance(found, cls):
            return found
        raise TypeError(f"The weights are {found!r}; expected {cls.__name__}, a member or its name.")

    @classmethod
    def _named(cls, name: str) -> Self:
        member = cls.__members__.get(name.removeprefix(f"{cls.__name__}."))
        if member is not None:
            return member
        if looks_like_a_file(name):
            raise UnknownMemberError(
                f"{name!r} is a file and no member of {cls.__name__}. To build a model with the file: "
                f"get_model(NAME, weights={name!r}); to load it into a module: load_into(module, {name!r}); both are "
                "in flambeau.core."
            )
        near = close_names(name.rpartition(".")[2], cls.__members__)
        hint = f" Close names: {', '.join(near)}." if near else ""
        raise UnknownMemberError(
            f"The weights are {name!r}; expected {cls.__name__}, whose members are "
            f"{', '.join(cls.__members__) or 'none'}.{hint}"
        )

    @property
    def url(self) -> str:
        """Where the file is."""
        return self._facts.url

    @property
    def transforms(self) -> Callable[..., Any]:
        """Makes the matching preprocessing: `weights.transforms()(image)`."""
        return self._facts.transforms

    @property
    def meta(self) -> dict[str, Any]:
        """Labels, metrics, licence, recipe and the like."""
        return self._facts.meta

    @property
    def sha256(self) -> str | None:
        """Hexadecimal digest of the file or its first digits, None where it is not known."""
        return self._facts.sha256

    @property
    def size(self) -> int | None:
        """Bytes of the file, None where it is not known."""
        return self._facts.size

    @property
    def mirrors(self) -> tuple[str, ...]:
        """Further URLs, tried in order after `url`."""
        return self._facts.mirrors

    @property
    def format(self) -> Format:
        """What the file holds."""
        return self._facts.format

    @property
    def license(self) -> str | None:
        """Licence of the parameters, None where none is stated."""
        return self.meta.get("license")

    @property
    def _facts(self) -> Weights:
        if not isinstance(self.value, Weights):
            raise TypeError(f"{self!r} is a {type(self.value).__name__}; members of a WeightsEnum are Weights(...).")
        return self.value

    def fetch(
        self,
        *,
        progress: bool = True,
        check_hash: bool = True,
        root: str | Path | None = None,
        filename: str | None = None,
    ) -> Path:
        """The file on this machine, downloaded and verified if need be.

        Args:
            progress: show the download on a terminal.
            check_hash: verify the digest that is known or part of the file's name.
            root: the folder to download to, None for the cache.
            filename: the name to download under, None for the URL's.

        Raises:
            DownloadError: it could not be fetched, or not verified.
        """
        from flambeau.core.weights.files import fetch_weights

        return fetch_weights(self._facts, progress=progress, check_hash=check_hash, root=root, filename=filename)

    def verify_file(self) -> Path:
        """Read the cached file again (fetch it first if it is absent) and compare size and digest.

        Raises:
            HashMismatchError: the bytes are not those that were published.
        """
        from flambeau.core.hub.cache import verify
        from flambeau.core.weights.files import expected_sha256

        path = self.fetch()
        verify(path, sha256=expected_sha256(self._facts), size=self.size)
        return path

    def get_state_dict(
        self,
        *,
        progress: bool = True,
        check_hash: bool = True,
        device: torch.device | str = "cpu",
        dtype: torch.dtype | None = None,
        mmap: bool = True,
        map_location: torch.device | str | None = None,
        model_dir: str | Path | None = None,
        file_name: str | None = None,
    ) -> Mapping[str, Any]:
        """Fetch the file and read its tensors, memory-mapped where the format allows.

        Args:
            progress: show the download on a terminal.
            check_hash: verify the digest that is known or part of the file's name.
            device: where the tensors go.
            dtype: cast floating tensors; None keeps the file's.
            mmap: False reads the whole file at once.
            map_location: `torch.hub`'s name of `device`.
            model_dir: the folder to download to, None for the cache.
            file_name: the name to download under, None for the URL's.
        """
        from flambeau.core.weights.checkpoints import read_checkpoint

        path = self.fetch(progress=progress, check_hash=check_hash, root=model_dir, filename=file_name)
        return read_checkpoint(
            path,
            format=self.format,
            device=map_location or device,
            dtype=dtype,
            mmap=mmap,
            safe_globals=self._facts.safe_globals,
        )

    def load(self, **config: Any) -> torch.nn.Module:
        """Build the model that these weights belong to, with them; `config` goes to its builder.

        Raises:
            UnknownNameError: no registered model declares this enum.
        """
        from flambeau.core.registry import MODELS

        target = f"{type(self).__module__}:{type(self).__qualname__}"
        model = next((entry.id for entry in MODELS.entries() if entry.info.get("weights") == target), None)
        if model is None:
            raise UnknownNameError(
                f"no registered model has the weights {type(self).__name__}; register its builder with "
                "register_model()."
            )
        built: torch.nn.Module = MODELS.resolve(model)(weights=self, **config)
        return built

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        # By name: the default pickles the value, with its labels, and needs equal partials to find the member again.
        return getattr, (type(self), self._name_)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self._name_}"


def member_aliases(member: WeightsEnum) -> list[str]:
    """Other names of a member in its class, `DEFAULT` among them where it is the default; sorted."""
    names = type(member).__members__.items()
    return sorted(name for name, value in names if value is member and name != member.name)

"""Models and their weights by name, of every installed plugin or of one: registering, listing, looking up.

What builds a model stands above this, in `catalogue`.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from flambeau.core import missing
from flambeau.core.entry import Entry
from flambeau.core.errors import AmbiguousNameError, RegistryError, UnknownNameError, close_names
from flambeau.core.naming import import_target
from flambeau.core.registry import MODELS, WEIGHTS
from flambeau.core.weights.annotations import annotated_weights
from flambeau.core.weights.enums import WeightsEnum
from flambeau.core.weights.records import enum_target, weights_record

if TYPE_CHECKING:
    from torch import nn

Builder = Callable[..., "nn.Module"]
B = TypeVar("B", bound=Callable[..., Any])
Patterns = str | Iterable[str] | None


@dataclass(frozen=True)
class Index:
    """Models and weights of one plugin, or of all.

    Attributes:
        plugin: its name; None sees every plugin. With a plugin, names need no prefix and listings have none.
    """

    plugin: str | None = None

    def register_model(
        self,
        name: str | None = None,
        *,
        task: str | None = None,
        tags: Iterable[str] = (),
        head: str | Iterable[str] = (),
        stem: str | Iterable[str] = (),
    ) -> Callable[[B], B]:
        """Register a builder, and the weights its parameter `weights` is annotated with.

        Args:
            name: the model's name; None takes the function's.
            task: what the model does, for example "image-classification".
            tags: words to filter listings by.
            head: dotted names of the layers whose outputs follow the number of classes; `get_model(num_classes=)`
                replaces them.
            stem: dotted names of the convolutions that read the input; `get_model(in_channels=)` replaces them.

        Returns:
            A decorator that returns the builder itself.

        Raises:
            DuplicateNameError: the plugin has another model of this name.
        """
        if callable(name):
            raise TypeError("register_model is called before it decorates: write @register_model().")

        def decorate(builder: B) -> B:
            model = name or builder.__name__
            enum = annotated_weights(builder)
            info = {
                "name": model,
                "target": f"{builder.__module__}:{builder.__qualname__}",
                "weights": enum_target(enum) if enum else None,
                "task": task,
                "tags": list(tags),
                "docs": (inspect.getdoc(builder) or "").partition("\n")[0],
            }
            for key, layers in (("head", head), ("stem", stem)):
                if layers := [layers] if isinstance(layers, str) else list(layers):
                    info[key] = layers
            MODELS.register(model, builder, plugin=self.plugin, info=info)
            for member in enum or ():
                # The task travels with each record, so that weights are found by task without their model.
                record = weights_record(model, member) | ({"task": task} if task else {})
                WEIGHTS.register(f"{model}:{member.name}", member, plugin=self.plugin, info=record)
            return builder

        return decorate

    def list_models(
        self, module: ModuleType | str | None = None, include: Patterns = None, exclude: Patterns = None
    ) -> list[str]:
        """Names of registered models, sorted; imports no plugin.

        Args:
            module: only models defined in this module or in a direct submodule of it (a module or its name), or all
                of a plugin (its name).
            include: shell patterns; a name is listed when any of them matches. None and no pattern include all.
            exclude: shell patterns; a name is dropped when any of them matches.

        Returns:
            Short names where one plugin is meant, by the catalogue or by `module`, else `plugin/name`. Patterns match
            either form.

        Raises:
            UnknownNameError: `module` is a string that is neither a plugin's name nor a module with models.
        """
        entries = _within(MODELS.entries(plugin=self.plugin), module)
        short = self.plugin is not None or module is not None
        chosen = [entry for entry in entries if _matches(entry, include, True) and not _matches(entry, exclude, False)]
        return sorted(entry.name if short else entry.id for entry in chosen)

    def get_model_builder(self, name: str) -> Builder:
        """The function that builds a model; its module is imported.

        Raises:
            UnknownNameError: no such model; the message suggests near names.
            AmbiguousNameError: several plugins have one.
        """
        builder: Builder = MODELS.resolve(self._model(name))
        return builder

    def get_model_weights(self, name: str | Callable[..., Any]) -> type[WeightsEnum]:
        """The weights enum of a model, by its name or its builder.

        Raises:
            UnknownNameError: no such model, or it has no weights; a ValueError too, as upstream.
        """
        if callable(name):
            enum, model = annotated_weights(name), getattr(name, "__name__", repr(name))
        else:
            model = self._model(name)
            target = MODELS.info(model).get("weights")
            enum = import_target(target) if target else None
        if enum is None:
            raise UnknownNameError(
                f"model {model!r} has no weights; a builder names them by annotating its parameter: "
                "`weights: ResNet50_Weights | None = None`."
            )
        return enum

    def get_weight(self, name: str) -> WeightsEnum:
        """A member by name; only the module that defines its enum is imported.

        Args:
            name: `"ResNet50_Weights.IMAGENET1K_V2"` or `"resnet50:IMAGENET1K_V2"`, with or without a plugin and a slash
                before it. Aliases such as `DEFAULT` count.

        Raises:
            UnknownNameError: there is none; the message suggests near names.
            AmbiguousNameError: several plugins have one.
        """
        plugin, slash, rest = name.rpartition("/")
        enum, dot, member = rest.partition(".")
        if not dot or ":" in rest:
            return self._registered(name)
        entries = [entry for entry in WEIGHTS.entries(plugin or self.plugin) if _is_member(entry, enum, member)]
        if len({entry.info["enum"] for entry in entries}) > 1:
            chosen = missing.preferred(entries[0].name, entries)
            if chosen is None:
                raise AmbiguousNameError(missing.ambiguous("weights", name, entries))
            entries = [chosen]
        if entries:
            return self._registered(entries[0].id)
        found = self._declared(plugin or self.plugin, enum, member)
        if found is None and not slash and self.plugin is None:
            found = _defined(enum, member)
        if found is None:
            raise UnknownNameError(self._unknown_member(name))
        return found

    def list_weights(self, *, plugin: str | None = None, model: str | None = None) -> list[str]:
        """Ids of all weights, `plugin/model:MEMBER`, sorted; imports no plugin.

        Args:
            plugin: only those of this plugin.
            model: only those of this model, with or without its plugin.
        """
        entries = WEIGHTS.entries(plugin=plugin or self.plugin)
        ids = (entry.id for entry in entries)
        if model is None:
            return sorted(ids)
        return sorted(i for i in ids if model in (i.rpartition(":")[0], i.partition("/")[2].rpartition(":")[0]))

    def model_entry(self, name: str) -> Entry:
        """What the registry knows about a model; imports no plugin.

        Raises:
            UnknownNameError, AmbiguousNameError: as `get_model_builder`.
        """
        return MODELS.entry(self._model(name))

    def _model(self, name: str) -> str:
        """The qualified name of a model; as upstream's, names are found in capitals too."""
        if not isinstance(name, str):
            raise TypeError(f"name is {name!r}, expected that of a model, such as 'resnet50'.")
        qualified = self._qualified(name)
        small = qualified.lower()
        return small if small != qualified and qualified not in MODELS and small in MODELS else qualified

    def _qualified(self, name: str) -> str:
        return name if self.plugin is None or "/" in name else f"{self.plugin}/{name}"

    def _registered(self, name: str) -> WeightsEnum:
        try:
            member = WEIGHTS.resolve(self._qualified(name))
        except UnknownNameError:
            model, _, short = self._qualified(name).rpartition(":")
            found = _members_of(model).get(short) if model in MODELS else None
            if found is None:
                raise
            return found
        if not isinstance(member, WeightsEnum):
            raise RegistryError(f"weights {name!r} stand for {member!r}, expected a member of a WeightsEnum.")
        return member

    def _declared(self, plugin: str | None, enum: str, member: str) -> WeightsEnum | None:
        """A member of an enum that a model's record names, and that no record of weights tells of."""
        for entry in MODELS.entries(plugin):
            if str(entry.info.get("weights") or "").replace(".", ":").rpartition(":")[2] == enum:
                return _members_of(entry.id).get(member)
        return None

    def _unknown_member(self, name: str) -> str:
        known = {
            f"{enum}.{entry.info['name']}" for entry in WEIGHTS.entries(self.plugin) for enum in _enum_names(entry)
        }
        near = close_names(name.rpartition("/")[2], known)
        hint = f" Close names: {', '.join(near)}." if near else ""
        where = f" in plugin {self.plugin!r}" if self.plugin else ""
        return (
            f"no weights {name!r}{where}; expected a name such as 'ResNet50_Weights.DEFAULT' or 'resnet50:DEFAULT'."
            f"{hint} `flambeau weights list` lists all."
        )


def _members_of(model: str) -> Mapping[str, WeightsEnum]:
    """The members, with aliases, of the enum that a model's record names; its module is imported."""
    target = MODELS.info(model).get("weights")
    enum = import_target(target) if target else None
    return enum.__members__ if isinstance(enum, type) and issubclass(enum, WeightsEnum) else {}


def _within(entries: Iterable[Entry], module: ModuleType | str | None) -> list[Entry]:
    entries = list(entries)
    if module is None:
        return entries
    name = module if isinstance(module, str) else module.__name__
    plugins = {entry.plugin for entry in MODELS.entries()}
    if isinstance(module, str) and name in plugins:
        return [entry for entry in entries if entry.plugin == name]
    found = [entry for entry in entries if name in _modules(entry)]
    if isinstance(module, str) and not found:
        near = close_names(name, plugins)
        hint = f" Close names: {', '.join(near)}." if near else ""
        raise UnknownNameError(f"no models in {name!r}, expected a plugin's name or a module's.{hint}")
    return found


def _modules(entry: Entry) -> tuple[str, str]:
    """The module that defines a model, and its parent package, as upstream's `list_models` counts them."""
    target = entry.target
    module = target.partition(":")[0] if isinstance(target, str) else str(target.__module__)
    return module, module.rpartition(".")[0]


def _matches(entry: Entry, patterns: Patterns, otherwise: bool) -> bool:
    """Whether any pattern matches; `otherwise` where there is none. Upstream: an empty list is no filter."""
    if not patterns:
        return otherwise
    patterns = (patterns,) if isinstance(patterns, str) else tuple(patterns)
    return any(fnmatchcase(name, pattern) for pattern in patterns for name in (entry.name, entry.id))


def _is_member(entry: Entry, enum: str, member: str) -> bool:
    """Whether a record is about `Enum.MEMBER`, or about what the alias `MEMBER` stands for."""
    if enum not in _enum_names(entry):
        return False
    info = entry.info
    return member in (info["name"], *info.get("aliases", ())) or (member == "DEFAULT" and bool(info.get("default")))


def _enum_names(entry: Entry) -> tuple[str, ...]:
    """The class name of a record's enum; none for entries that were registered without a record."""
    target = str(entry.info.get("enum", ""))
    return (target.replace(".", ":").rpartition(":")[2],) if target and "name" in entry.info else ()


def _defined(enum: str, member: str) -> WeightsEnum | None:
    """A member of an enum that an imported module has, and that belongs to no registered model."""
    classes: list[type[WeightsEnum]] = [WeightsEnum]
    for cls in classes:
        classes += cls.__subclasses__()
    # A class that its module no longer has was replaced, by a reload or by running a notebook's cell again.
    living = [cls for cls in classes if getattr(sys.modules.get(cls.__module__), enum, None) is cls]
    found = [cls.__members__[member] for cls in living if member in cls.__members__]
    if len(found) > 1:
        places = ", ".join(sorted(enum_target(type(one)) for one in found))
        raise AmbiguousNameError(f"weights '{enum}.{member}' could be of {places}; use the member itself.")
    return found[0] if found else None


everything = Index()
get_weight = everything.get_weight

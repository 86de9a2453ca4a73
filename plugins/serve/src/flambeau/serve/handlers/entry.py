"""From the name of a handler to what is called with batches."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from flambeau.serve.context import Context
from flambeau.serve.errors import ArchiveError
from flambeau.serve.utils.util import list_classes_from_module

__all__ = ["Entry", "entry_of"]

_DEFAULT = ("image_classifier", "image_segmenter", "object_detector", "text_classifier")
_ENVELOPES = {
    "body": "body:BodyEnvelope",
    "json": "json:JSONEnvelope",
    "kserve": "kserve:KServeEnvelope",
}


class Entry:
    """A handler that was loaded and initialized.

    Attributes:
        call: with the batch's data and the context.
        describe: what the model says of itself; None where the handler has nothing to say.
    """

    def __init__(self, call: Callable[[Any, Context], Any], describe: Callable[[], Any] | None) -> None:
        self.call = call
        self.describe = describe


def entry_of(handler: str, context: Context, envelope: str | None = None) -> Entry:
    """Load and initialize a handler.

    Args:
        handler: `file.py`, `file.py:function`, or the name of a default one.
        context: of the model.
        envelope: "body", "json" or "kserve"; None for none.

    Raises:
        ArchiveError: there is no such handler or envelope, or its module has not exactly one class.
    """
    folder = context.system_properties["model_dir"]
    if folder not in sys.path:
        sys.path.insert(0, folder)
    name, _, function = handler.partition(":")
    if ".py" in name:
        module = _module(Path(folder) / name)
        entry = _of_module(module, function, name, context)
    elif name in _DEFAULT:
        module = importlib.import_module(f"flambeau.serve.torch_handler.{name}")
        entry = _of_class(list_classes_from_module(module)[-1], context)
    else:
        raise ArchiveError(f"there is no handler {name!r}; name a file of the archive, or {', '.join(_DEFAULT)}.")
    return _wrapped(entry, envelope) if envelope else entry


def _module(path: Path) -> ModuleType:
    name = path.stem
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ArchiveError(f"{path.name} is no Python module.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # as if it was imported, for pickles and for what it imports itself
    spec.loader.exec_module(module)
    return module


def _of_module(module: ModuleType, function: str, name: str, context: Context) -> Entry:
    called = function or "handle"
    if callable(getattr(module, called, None)):
        entry = getattr(module, called)
        entry(None, context)  # loads the model
        return Entry(entry, None)
    if function:
        raise ArchiveError(f"{name} has no function {function!r}.")
    classes = [one for one in list_classes_from_module(module) if callable(getattr(one, "handle", None))]
    if len(classes) != 1:
        raise ArchiveError(f"{name} has no function `handle`, and {len(classes)} classes with one; expected one.")
    return _of_class(classes[0], context)


def _of_class(kind: type, context: Context) -> Entry:
    handler = kind()
    handler.initialize(context)
    describe = getattr(handler, "describe_handle", None)
    return Entry(handler.handle, describe if inspect.ismethod(describe) else None)


def _wrapped(entry: Entry, envelope: str) -> Entry:
    if envelope not in _ENVELOPES:
        raise ArchiveError(f"there is no envelope {envelope!r}; there are {', '.join(_ENVELOPES)}.")
    module, _, name = _ENVELOPES[envelope].partition(":")
    kind = getattr(importlib.import_module(f"flambeau.serve.torch_handler.request_envelope.{module}"), name)
    return Entry(kind(entry.call).handle, entry.describe)

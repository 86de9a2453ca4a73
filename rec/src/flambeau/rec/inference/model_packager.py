"""Factories of models with their configurations and code in one archive, by `torch.package`.

`torch.package` archives code, which is run when it is loaded: load none that you do not trust. For serving without the
model's code see `inference.export`.
"""

from __future__ import annotations

import abc
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from torch.package.importer import Importer, sys_importer
from torch.package.package_exporter import PackageExporter

from flambeau.rec.errors import OptionError
from flambeau.rec.inference.modules import PredictFactory

__all__ = [
    "CONFIG_MODULE",
    "LOADER_CODE",
    "LOADER_FACTORY",
    "LOADER_MODULE",
    "PredictFactoryPackager",
    "load_config_text",
    "load_pickle_config",
]

T = TypeVar("T")

LOADER_MODULE = "__module_loader"
LOADER_FACTORY = "MODULE_FACTORY"
LOADER_CODE = """
import %PACKAGE%

MODULE_FACTORY=%PACKAGE%.%CLASS%
"""
CONFIG_MODULE = "__configs"


def load_config_text(name: str) -> str:
    """A configuration that is text, for code in an archive.

    Args:
        name: as it was given to `save_predict_factory`.

    Raises:
        RuntimeError: the caller is not in an archive.
    """
    found: str = _archive().load_text(CONFIG_MODULE, name)
    return found


def load_pickle_config(name: str, clazz: type[T]) -> T:
    """A configuration that is an object, for code in an archive.

    Args:
        name: as it was given to `save_predict_factory`.
        clazz: its class.

    Raises:
        RuntimeError: the caller is not in an archive.
        AssertionError: an object of another class; it is a ValueError too.
    """
    found = _archive().load_pickle(CONFIG_MODULE, name)
    if not isinstance(found, clazz):
        raise OptionError(f"configuration {name!r} is a {type(found).__name__}, expected a {clazz.__name__}.")
    return found


def _archive() -> Any:
    """Whatever loaded this module's code."""
    try:
        import torch_package_importer  # type: ignore[import-not-found]  # only code in an archive has it
    except ImportError:
        raise RuntimeError(
            "this code was not loaded from an archive; configurations are there. Import the module by PackageImporter."
        ) from None
    return torch_package_importer


class PredictFactoryPackager:
    """Writes archives; programs say in a subclass which modules are in them."""

    @classmethod
    @abc.abstractmethod
    def set_extern_modules(cls, pe: PackageExporter) -> None:
        """Say which modules are in the archive (`pe.intern`), and which are where it is loaded (`pe.extern`)."""

    @classmethod
    @abc.abstractmethod
    def set_mocked_modules(cls, pe: PackageExporter) -> None:
        """Say by `pe.mock` which modules are left out."""

    @classmethod
    def save_predict_factory(
        cls,
        predict_factory: type[PredictFactory],
        configs: dict[str, Any],
        output: str | Path | BinaryIO,
        extra_files: dict[str, str | bytes],
        loader_code: str = LOADER_CODE,
        package_importer: Importer | list[Importer] = sys_importer,
    ) -> None:
        """Write an archive: `import_module("__module_loader").MODULE_FACTORY` of it is the factory.

        Args:
            predict_factory: the class.
            configs: by name: text, bytes, or objects that are pickled.
            output: a path, or a file open for bytes.
            extra_files: by name; what other programs read.
            loader_code: source of the module that names the factory; %PACKAGE% and %CLASS% stand for it.
            package_importer: where modules are found.

        Raises:
            torch.package.PackagingError: a module that `set_extern_modules` says nothing of cannot be archived.
        """
        with PackageExporter(output, importer=package_importer) as pe:
            cls.set_extern_modules(pe)
            cls.set_mocked_modules(pe)
            # What was said first counts; of the factory's own module nothing need be said.
            pe.intern(predict_factory.__module__, allow_empty=True)
            for name, content in extra_files.items():
                _save(pe, "extra_files", name, content, pickled=False)
            for name, content in configs.items():
                _save(pe, CONFIG_MODULE, name, content, pickled=True)
            code = loader_code.replace("%PACKAGE%", predict_factory.__module__)
            pe.save_source_string(LOADER_MODULE, code.replace("%CLASS%", predict_factory.__name__))


def _save(pe: PackageExporter, package: str, name: str, content: Any, *, pickled: bool) -> None:
    if isinstance(content, str):
        pe.save_text(package, name, content)
    elif isinstance(content, bytes):
        pe.save_binary(package, name, content)
    elif pickled:
        pe.save_pickle(package, name, content)
    else:
        raise OptionError(f"extra_files[{name!r}] is a {type(content).__name__}, expected text or bytes.")

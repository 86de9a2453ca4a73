"""The whole schema of a manifest, as pydantic models: for `flambeau doctor`, the tests and the generator."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from flambeau.core.errors import ManifestError
from flambeau.core.manifest.reading import API_PATTERN, ENTRY_PATTERN, check_tables
from flambeau.core.plugins.plugin import NAME_PATTERN


def _specifier(text: str) -> str:
    try:
        SpecifierSet(text)
    except InvalidSpecifier:
        raise ValueError("expected a version specifier such as '>=2.8'") from None
    return text


def _web_page(text: str) -> str:
    if urlsplit(text).scheme not in ("https", "http") or not urlsplit(text).netloc:
        raise ValueError("expected an http or https address")
    return text


def _file_address(text: str) -> str:
    scheme, separator, rest = text.partition(":")
    if scheme == "package" and "/" in rest:
        return text
    if separator and scheme in ("https", "http", "hf", "file") and urlsplit(text).path.strip("/"):
        return text
    raise ValueError("expected https://.., hf://owner/name/file or package:importable.package/file")


Name = Annotated[str, Field(pattern=f"^{ENTRY_PATTERN.pattern}$")]
PluginName = Annotated[str, Field(pattern=f"^{NAME_PATTERN.pattern}$")]
Module = Annotated[str, Field(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$")]
Target = Annotated[str, Field(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$")]
ModuleOrTarget = Annotated[str, Field(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*(:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*)?$")]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{8,64}$")]
Page = Annotated[str, AfterValidator(_web_page)]
Address = Annotated[str, AfterValidator(_file_address)]
Specifier = Annotated[str, AfterValidator(_specifier)]


class Record(BaseModel):
    """A record of a table. Keys that this version does not know are kept."""

    model_config = ConfigDict(extra="allow", strict=True)


class ModelRecord(Record):
    """A model: how it is called, and the callable that builds it."""

    name: Name
    target: Target
    weights: Target | None = None
    task: str | None = None
    tags: list[str] = []
    aliases: list[Name] = []


class TransformsRecord(Record):
    """The preprocessing that goes with weights: what to call, with which arguments."""

    target: Target
    params: dict[str, Any] = {}


class WeightsRecord(Record):
    """One member of a weights enum: where its file is, and what is known about it."""

    model: Name
    enum: Target
    name: Name
    url: Address
    sha256: Digest | None = None
    size: Annotated[int, Field(ge=0)] | None = None
    mirrors: list[Address] = []
    format: str | None = None
    default: bool = False
    aliases: list[Name] = []
    meta: dict[str, Any] = {}
    transforms: TransformsRecord | None = None
    license: str | None = None
    safe_globals: list[str] = []
    num_params: Annotated[int, Field(ge=0)] | None = None
    task: str | None = None


class DatasetRecord(Record):
    """A dataset: its class, and the facts that `flambeau datasets` shows and fetches by."""

    name: Name
    target: Target
    task: str | None = None
    splits: list[Any] | dict[str, Any] = []
    files: list[dict[str, Any]] = []
    license: str | None = None
    gated: dict[str, Any] | None = None
    homepage: Page | None = None
    aliases: list[Name] = []


class TensorTypeRecord(Record):
    """A tensor type."""

    name: Name
    target: Target
    aliases: list[Name] = []


class KernelRecord(Record):
    """A library of native kernels."""

    namespace: Annotated[str, Field(pattern=r"^[A-Za-z_]\w*$")]
    library: Annotated[str, Field(min_length=1)]
    package: Module


class CommandRecord(Record):
    """A subcommand of `flambeau`, shown in its help without an import."""

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]*$")]
    help: str = ""
    target: Target


class PredictorRecord(Record):
    """What `flambeau predict` calls for a task."""

    task: str
    target: Target
    suffixes: list[Annotated[str, Field(pattern=r"^\.[\w.]+$")]] = []
    default_weights: str | None = None
    accepts: Literal["file", "files", "text"] = "file"


def _integer(value: Any) -> Any:
    """Refuse what merely equals an integer: `True` and 1.0 are 1 to Python, and to pydantic's literals."""
    if type(value) is not int:
        raise ValueError(f"it is {value!r}, expected an integer")
    return value


class Manifest(Record):
    """A plugin's manifest."""

    schema_version: Annotated[Literal[1], Field(alias="schema"), BeforeValidator(_integer)]
    plugin: PluginName
    api: Annotated[str, Field(pattern=f"^{API_PATTERN.pattern}$")]
    requires: dict[str, Specifier] = {}
    home_page: Page | None = None
    hooks: ModuleOrTarget | None = None
    conformance: Module | None = None
    models: list[ModelRecord] = []
    weights: list[WeightsRecord] = []
    datasets: list[DatasetRecord] = []
    tensor_types: list[TensorTypeRecord] = []
    kernels: list[KernelRecord] = []
    commands: list[CommandRecord] = []
    predictors: list[PredictorRecord] = []


def validate_manifest(data: Any) -> list[str]:
    """Everything that is wrong with a manifest, each as `JSON path: what`; empty for a valid one.

    Beyond the types of all values, names must be unique in their table, and weights must belong to a model of the
    manifest whose `weights` is their enum, with one default for each enum.

    Args:
        data: the manifest, as `json.load` gives it.
    """
    try:
        manifest = Manifest.model_validate(data)
    except ValidationError as error:
        return [f"{_path(fault['loc'])}: {fault['msg']}" for fault in error.errors(include_url=False)]
    try:
        check_tables(data, Path("manifest"))
    except ManifestError as error:
        return [str(error).removeprefix("manifest: ")]
    return _contradictions(manifest)


def _path(location: tuple[int | str, ...]) -> str:
    return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)


def _contradictions(manifest: Manifest) -> list[str]:
    faults = []
    enums = {model.name: model.weights for model in manifest.models}
    defaults: dict[tuple[str, str], int] = {}
    for index, record in enumerate(manifest.weights):
        where = f"$.weights[{index}]"
        if record.model not in enums:
            faults.append(f"{where}.model: there is no model {record.model!r} in $.models")
        elif enums[record.model] != record.enum:
            faults.append(f"{where}.enum: it is {record.enum}, but the model's weights are {enums[record.model]}")
        if record.default and defaults.setdefault((record.model, record.enum), index) != index:
            faults.append(f"{where}.default: $.weights[{defaults[record.model, record.enum]}] is the default already")
    return faults

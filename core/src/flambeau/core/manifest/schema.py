"""The whole schema of a manifest, as pydantic models: for `flambeau doctor`, the tests and the generator."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from flambeau.core.errors import ManifestError
from flambeau.core.manifest.reading import API_PATTERN, ENTRY_PATTERN, check_tables
from flambeau.core.manifest.values import LARGEST, LIBRARY_PATTERN, NAMESPACE_PATTERN
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
Count = Annotated[int, Field(ge=0, le=LARGEST)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Md5 = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{8,64}$")]
Page = Annotated[str, AfterValidator(_web_page)]
Address = Annotated[str, AfterValidator(_file_address)]
Specifier = Annotated[str, AfterValidator(_specifier)]


class Record(BaseModel):
    """A record of a table. Keys that this version does not know are kept."""

    model_config = ConfigDict(extra="allow", strict=True)


class ModelRecord(Record):
    """A model: how it is called, and the callable that builds it."""

    name: Name = Field(description="name within the plugin; the model's id is `plugin/name`")
    target: Target = Field(description="the builder, `package.module:function`")
    weights: Target | None = Field(None, description="the enum of its weights, `package.module:Class`")
    task: str | None = Field(None, description="what it does, such as `image-classification`")
    tags: list[str] = Field([], description="words to filter listings by")
    aliases: list[Name] = Field([], description="other names it is found under")
    head: list[str] = Field([], description="layers whose outputs follow the number of classes, dotted")
    stem: list[str] = Field([], description="convolutions that read the input, dotted")
    docs: str | None = Field(None, description="one sentence")
    citation: str | None = Field(None, description="BibTeX")


class TransformsRecord(Record):
    """The preprocessing that goes with weights: what to call, with which arguments."""

    target: Target = Field(description="class or function, `package.module:Name`")
    params: dict[str, Any] = Field({}, description="its keyword arguments")


class MetaRecord(Record):
    """What is known about weights. Further keys may hold any JSON of at most 32 levels."""

    metrics: dict[str, dict[str, float | int]] = Field(
        {}, alias="_metrics", description="dataset -> metric -> value; the first is the one that listings show"
    )
    num_params: Count | None = Field(None, description="number of parameters")
    file_size: float | int | None = Field(None, alias="_file_size", description="MiB, where `size` is not known")
    license: str | None = Field(None, description="SPDX identifier, or the owner's words")
    citation: str | None = Field(None, description="BibTeX")


def _no_meta() -> MetaRecord:
    return MetaRecord.model_validate({})


class WeightsRecord(Record):
    """One member of a weights enum: where its file is, and what is known about it."""

    model: Name = Field(description="name of the model in `models`")
    enum: Target = Field(description="the enum, as the model's `weights` names it")
    name: Name = Field(description="the member; the weights' id is `plugin/model:name`")
    url: Address = Field(description="where the file is: `https://`, `hf://`, `package:` or `file://`")
    sha256: Digest | None = Field(None, description="hexadecimal, whole or its first 8 digits and more")
    size: Count | None = Field(None, description="bytes")
    mirrors: list[Address] = Field([], description="further addresses, tried in order")
    format: str | None = Field(
        None, description="`auto`, `torch`, `torch-legacy`, `torch-in-zip` or `safetensors`; another one is refused"
    )
    default: bool = Field(False, description="whether `DEFAULT` means this member; one of each enum")
    aliases: list[Name] = Field([], description="other names of the member")
    meta: MetaRecord = Field(default_factory=_no_meta, description="labels, metrics, licence, recipe and the like")
    transforms: TransformsRecord | None = Field(None, description="the matching preprocessing")
    license: str | None = Field(None, description="SPDX identifier, or the owner's words")
    safe_globals: list[str] = Field([], description="classes the file needs beyond tensors, `module:name`")
    num_params: Count | None = Field(None, description="number of parameters")
    task: str | None = Field(None, description="the model's task")


class ContentRecord(Record):
    """One file, or folder, that an archive leaves behind when it is unpacked."""

    path: str = Field(description="below the dataset's root, with `/` between parts")
    sha256: Sha256 | None = Field(None, description="64 lower-case hexadecimal digits")
    md5: Md5 | None = Field(None, description="32 lower-case hexadecimal digits")
    size: Count | None = Field(None, description="bytes")


class FileRecord(Record):
    """One file that a dataset is made of."""

    url: Address | None = Field(None, description="where it is fetched from; absent where it is placed by hand")
    path: str = Field("", description="below the dataset's root; the last part of `url` where it is absent")
    sha256: Sha256 | None = Field(None, description="64 lower-case hexadecimal digits")
    md5: Md5 | None = Field(None, description="32 lower-case hexadecimal digits")
    size: Count | None = Field(None, description="bytes")
    mirrors: list[Address] = Field([], description="further addresses, tried in order")
    extract: bool | str = Field(False, description="unpack the archive where it lies, or into this folder")
    contents: list[ContentRecord] = Field([], description="what unpacking leaves; with it in place the archive may go")
    splits: list[str] = Field([], description="the splits that need it; empty for all")


class FieldRecord(Record):
    """One part of a dataset's item."""

    key: str = Field(description="its key, or its name where an item is a tuple")
    kind: str = Field(description="what it is: `image`, `label`, `waveform`, `text`, .., or the id of a tensor type")
    shape: list[Count | str] | None = Field(None, description="sizes; a letter for one that varies, `...` for several")
    dtype: str | None = Field(None, description="element type, such as `uint8`")
    classes: Count | None = Field(None, description="of a label, which then lies in [0, classes)")
    optional: bool = Field(False, description="whether it may be None")


class GateRecord(Record):
    """Why a dataset cannot simply be fetched."""

    kind: Literal["token", "form", "manual"] = Field(
        description="a personal token; a form to fill in; files placed by hand"
    )
    url: str | None = Field(None, description="where access is obtained")
    instructions: str | None = Field(None, description="what to do there")


class DatasetRecord(Record):
    """A dataset: its class, and the facts that `flambeau datasets` shows and fetches by."""

    name: Name = Field(description="name within the plugin; the dataset's id is `plugin/name`")
    target: Target = Field(description="the class or function, `package.module:Name`")
    task: str | None = Field(None, description="such as `image-classification`")
    splits: list[str] | dict[str, Any] = Field([], description="names of its parts")
    sizes: dict[str, Count] = Field({}, description="split -> number of items, where it is known")
    files: list[FileRecord] = Field([], description="what it is made of")
    item: list[FieldRecord] = Field([], alias="schema", description="what an item holds, in order")
    license: str | None = Field(None, description="SPDX identifier, or the owner's words")
    gated: GateRecord | None = Field(None, description="why it cannot simply be fetched")
    homepage: Page | None = Field(None, description="http or https address")
    description: str | None = Field(None, description="one sentence")
    citation: str | None = Field(None, description="BibTeX")
    aliases: list[Name] = Field([], description="other names it is found under")


class TensorTypeRecord(Record):
    """A tensor type."""

    name: Name = Field(description="name within the plugin; the type's id is `plugin/name`")
    target: Target = Field(description="the class, `package.module:Class`")
    aliases: list[Name] = Field([], description="other names it is found under")


class KernelRecord(Record):
    """A library of native kernels."""

    namespace: Annotated[str, Field(pattern=f"^{NAMESPACE_PATTERN.pattern}$")] = Field(
        description="of its operators, `torch.ops.<namespace>`"
    )
    library: Annotated[str, Field(pattern=f"^{LIBRARY_PATTERN.pattern}$")] = Field(
        description="file name without suffix"
    )
    package: Module = Field(description="the package that holds the file")


class CommandRecord(Record):
    """A subcommand of `flambeau`, shown in its help without an import."""

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]*$")] = Field(description="the word that is typed")
    help: str = Field("", description="one line")
    target: Target = Field(description="`package.module:configure`, called with the command's parser")


class PredictorRecord(Record):
    """What `flambeau predict` calls for a task."""

    task: str = Field(description="the task of the models it serves")
    target: Target = Field(description="the function, `package.module:name`")
    suffixes: list[Annotated[str, Field(pattern=r"^\.[\w.]+$")]] = Field([], description="of the files it reads")
    default_weights: str | None = Field(None, description="id of the weights it takes where none are named")
    accepts: Literal["file", "files", "text", "environment"] = Field("file", description="what it is given")
    environments: dict[str, str] = Field({}, description="environment -> id of the weights it takes for it")


class ServiceRecord(Record):
    """What a server calls for a task; see `flambeau.core.services`."""

    task: str = Field(description="the task of the models it serves")
    target: Target = Field(description="the subclass of `Service`, `package.module:Name`")
    media_types: list[Annotated[str, Field(pattern=r"^[a-z]+/[a-z0-9*][a-z0-9.+*-]*$")]] = Field(
        [], description="of the bodies it reads, such as `image/png` or `image/*`"
    )


def _integer(value: Any) -> Any:
    """Refuse what merely equals an integer: `True` and 1.0 are 1 to Python, and to pydantic's literals."""
    if type(value) is not int:
        raise ValueError(f"it is {value!r}, expected an integer")
    return value


class Manifest(Record):
    """A plugin's manifest. The head is written by hand; the tables follow from the code."""

    schema_version: Annotated[Literal[1], BeforeValidator(_integer)] = Field(
        alias="schema", description="the version of this schema: 1"
    )
    plugin: PluginName = Field(description="the plugin's name, as the entry point has it")
    api: Annotated[str, Field(pattern=f"^{API_PATTERN.pattern}$")] = Field(
        description="the plugin interface it is written for, such as `1.0`"
    )
    requires: dict[str, Specifier] = Field(
        {}, description='distribution -> versions that fit, such as `{"torch": ">=2.8"}`; checked without an import'
    )
    home_page: Page | None = Field(None, description="where to read about it and report faults")
    hooks: ModuleOrTarget | None = Field(None, description="module with hook implementations, imported when needed")
    conformance: Module | None = Field(None, description="module with samples for the conformance kit")
    models: list[ModelRecord] = Field([], description="what `get_model` builds")
    weights: list[WeightsRecord] = Field([], description="what `get_weight` finds")
    datasets: list[DatasetRecord] = Field([], description="what `get_dataset` builds")
    tensor_types: list[TensorTypeRecord] = Field([], description="classes of typed tensors, or of several together")
    kernels: list[KernelRecord] = Field([], description="native libraries")
    commands: list[CommandRecord] = Field([], description="subcommands of `flambeau`; by hand")
    predictors: list[PredictorRecord] = Field([], description="what `flambeau predict` calls; by hand")
    services: list[ServiceRecord] = Field([], description="what `flambeau serve` calls; by hand")


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

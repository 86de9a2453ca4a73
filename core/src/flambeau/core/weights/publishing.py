"""`push`: a trained model as a repository that anybody can build it from again.

Three files: `model.safetensors` with all tensors, `flambeau.json` with what `get_model("hf:owner/name")` needs to build
the model, and `README.md`, the card.
"""

from __future__ import annotations

import inspect
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flambeau.core.environment import flag
from flambeau.core.errors import HubError, OfflineError
from flambeau.core.files import replace, write_atomic
from flambeau.core.hub.temporary_files import claim, release
from flambeau.core.registry import MODELS
from flambeau.core.weights.catalogue import get_model
from flambeau.core.weights.enums import WeightsEnum
from flambeau.core.weights.records import transforms_record

if TYPE_CHECKING:
    from torch import Tensor, nn

    from flambeau.core.entry import Entry
    from flambeau.core.weights.facts import Weights


def push(
    model: nn.Module,
    to: str | os.PathLike[str],
    *,
    name: str,
    arguments: Mapping[str, Any] | None = None,
    weights: Weights | WeightsEnum | None = None,
    private: bool = False,
    message: str = "Upload the model with Flambeau",
) -> str:
    """Publish a model so that `get_model("hf:owner/name")` builds it again.

    Args:
        model: the module; every tensor of its `state_dict` is written, on whatever device it is.
        to: `"owner/name"` on the Hugging Face hub, made if need be; or a path, to write a folder and upload nothing.
        name: the registered model that it is of, for example `"vision/resnet50"`.
        arguments: what `get_model(name, ...)` was called with, without `weights`; JSON values.
        weights: facts to publish along: preprocessing, labels, metrics and licence. For a model that was trained
            further pass `Weights("", transforms, meta)` with its own; the URL is not used.
        private: make a new repository private.
        message: of the commit.

    Returns:
        The URL of the commit, or the folder.

    Raises:
        UnknownNameError: `name` is not registered.
        ValueError: `arguments` do not build a model like this one, or are no JSON values.
        OfflineError: the network is switched off.
        HubError: `huggingface_hub` is not installed, or the upload was refused.
    """
    entry, arguments = MODELS.entry(name), dict(arguments or {})
    config = _config(entry, arguments, weights)
    _check_same_shape(model, entry.id, arguments)
    if not isinstance(to, str):
        return str(_write(Path(to), model, entry, config, "path/to/folder"))
    if flag("FLAMBEAU_OFFLINE"):
        raise OfflineError(
            f"{to} cannot be uploaded: the network is switched off (FLAMBEAU_OFFLINE).", url=f"hf://{to}"
        )
    with tempfile.TemporaryDirectory() as folder:
        _write(Path(folder), model, entry, config, to)
        return _upload(Path(folder), to, private=private, message=message)


def _config(entry: Entry, arguments: Mapping[str, Any], weights: Weights | WeightsEnum | None) -> str:
    config: dict[str, Any] = {"model": entry.id, "arguments": arguments}
    if weights is not None:
        facts: Weights = weights.value if isinstance(weights, WeightsEnum) else weights
        config |= {"transforms": transforms_record(facts), "meta": facts.meta}
    if "weights" in arguments:
        raise ValueError("arguments hold 'weights'; leave them out, the published ones take their place.")
    try:
        return json.dumps(config, indent=2, sort_keys=True) + "\n"
    except TypeError as error:
        raise ValueError(f"the configuration of {entry.id} cannot be written as JSON: {error}.") from error


def _check_same_shape(model: nn.Module, name: str, arguments: Mapping[str, Any]) -> None:
    mine, theirs = ({key: tuple(tensor.shape) for key, tensor in module.state_dict().items()}
                    for module in (model, get_model(name, **arguments)))  # fmt: skip
    different = sorted(key for key in mine.keys() | theirs.keys() if mine.get(key) != theirs.get(key))
    if different:
        key = different[0]
        raise ValueError(
            f"get_model({name!r}, **{dict(arguments)!r}) does not build this model: {len(different)} tensors differ, "
            f"the first is {key!r}, here {mine.get(key, 'absent')} and there {theirs.get(key, 'absent')}. Pass the "
            "arguments that it was built with."
        )


def _write(folder: Path, model: nn.Module, entry: Entry, config: str, repository: str) -> Path:
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    temporary = claim(folder / "model.safetensors", "tmp")
    try:
        save_file(_separate(model.state_dict()), temporary, {"format": "pt"})
        replace(temporary, folder / "model.safetensors")
    finally:
        temporary.unlink(missing_ok=True)
        release(temporary)
    write_atomic(folder / "flambeau.json", config)
    write_atomic(folder / "README.md", _card(entry, json.loads(config), repository))
    return folder


def _separate(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors that share no memory: the format has no word for ties, and loading restores them by the module's own."""
    plain, seen = {}, set()
    for key, tensor in state.items():
        tensor = tensor.detach().cpu().contiguous()
        where = tensor.untyped_storage().data_ptr()
        plain[key] = tensor.clone() if where in seen or tensor.untyped_storage().nbytes() > tensor.nbytes else tensor
        seen.add(where)
    return plain


def _card(entry: Entry, config: Mapping[str, Any], repository: str) -> str:
    meta = config.get("meta", {})
    head = {"library_name": "flambeau", "pipeline_tag": entry.info.get("task"), "license": meta.get("license")}
    about = (inspect.getdoc(MODELS.resolve(entry.id)) or entry.id).partition("\nArgs:")[0].strip()
    facts = {key: value for key, value in meta.items() if isinstance(value, (str, int, float))}
    lines = [
        "---", *(f"{key}: {json.dumps(value)}" for key, value in head.items() if value), "---",
        f"# {repository.rpartition('/')[2]}", "", about, "", "```python", "from flambeau.core import get_model", "",
        f'model = get_model("hf:{repository}").eval()', "```", "",
    ]  # fmt: skip
    if facts:
        lines += [
            "| fact | value |",
            "|---|---|",
            *(f"| {key} | {value} |" for key, value in sorted(facts.items())),
            "",
        ]
    return "\n".join(lines)


def _upload(folder: Path, repository: str, *, private: bool, message: str) -> str:
    try:
        import huggingface_hub
    except ImportError as error:
        raise HubError(
            f"uploading to {repository} needs huggingface_hub. Run: pip install 'flambeau-core[hub]'"
        ) from error
    try:
        service = huggingface_hub.HfApi()
        service.create_repo(repository, private=private, exist_ok=True)
        return str(service.upload_folder(repo_id=repository, folder_path=folder, commit_message=message))
    except (ValueError, OSError) as error:  # a malformed name; any refusal
        raise HubError(f"{repository} could not be uploaded: {error} To sign in, run: hf auth login") from error

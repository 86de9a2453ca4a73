"""From an input and the name of weights to an answer: the suite's main job, in whichever plugin the model is.

::

    from flambeau.core.predict import predict

    prediction = predict("photo.jpg", weights="vision/resnet50:DEFAULT")
    prediction.rows[0]                 # {"class": "tabby", "probability": 0.71}
    prediction.draw(Path("answer.png"))

Weights name a model, the model's record names its task, and a plugin's manifest names the predictor for a task::

    "predictors": [{"task": "image-classification", "target": "pkg.predict:classify", "accepts": "file",
                    "suffixes": [".png", ".jpg"], "default_weights": "vision/resnet50:IMAGENET1K_V2"}]

`suffixes` with `default_weights` choose the weights where the user names none. `accepts` is "file" (the default): the
predictor is given the path; "files": it is given a tuple of one or more paths; or "text": it is given the text itself,
also where the user named a file that holds it, and its `default_weights` serve for what does not look like a file; or
"environment": it is given the name of an environment, in which a policy acts, and `environments` names the weights of
each that has some.
Several predictors may exist for a task: the one of the model's own plugin serves, else the first by the plugin's name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from flambeau.core.errors import MissingInputError, PredictError, close_names
from flambeau.core.naming import import_target, names_of
from flambeau.core.plugins.manager import contributions
from flambeau.core.registry import MODELS, WEIGHTS, Entry

if TYPE_CHECKING:
    import torch

    from flambeau.core.weights import WeightsEnum

__all__ = [
    "Plan",
    "PredictOptions",
    "Prediction",
    "Predictor",
    "plan",
    "plan_environment",
    "predict",
    "predictor_record",
]


Source = str | Path | Sequence[str | Path]


@dataclass(frozen=True)
class PredictOptions:
    """What the user wishes about an answer.

    Attributes:
        top: the most rows to return, at least 1; best first where rows have a score.
    """

    top: int = 5

    def __post_init__(self) -> None:
        if self.top < 1:
            raise PredictError(f"top is {self.top}, expected at least 1.")


@dataclass(frozen=True)
class Prediction:
    """An answer.

    Attributes:
        rows: its parts, for example one for each class or box; values are plain JSON ones.
        columns: the keys of a row that people see, in order; a column `probability`, from 0 to 1, is shown in percent.
        title: what the answer is about, in a few words.
        draw: writes a picture of the answer, such as boxes on the image, to a path; None where there is none.
    """

    rows: list[dict[str, Any]]
    columns: tuple[str, ...]
    title: str
    draw: Callable[[Path], None] | None = None


class Predictor(Protocol):
    """What a plugin provides for a task."""

    def __call__(
        self,
        source: Any,
        *,
        model: torch.nn.Module,
        weights: WeightsEnum,
        device: torch.device,
        dtype: torch.dtype,
        options: PredictOptions,
    ) -> Prediction:
        """Read the input, apply `weights.transforms()`, run the model, say what came out.

        Called in inference mode.

        Args:
            source: a path, a tuple of paths, or the text itself (see `accepts` above).
            model: in evaluation mode, on `device`, its floating parameters in `dtype`.
            weights: the member that the model's parameters are from; `weights.meta` has the labels.
            device: where the input has to be.
            dtype: what a floating input has to be.
            options: what the user wishes.

        Raises:
            PredictError: the input cannot be read as what the task needs; the message names it.
        """
        ...


@dataclass(frozen=True)
class Plan:
    """What a prediction will use, found without importing any of it."""

    source: str | tuple[str, ...]
    weights: Entry
    model: Entry
    task: str
    predictor: str  # module:attribute


def predict(
    source: Source,
    *,
    weights: str | None = None,
    model: str | None = None,
    device: str = "cpu",
    dtype: str | None = None,
    options: PredictOptions | None = None,
) -> Prediction:
    """Make a prediction.

    Args:
        source: a file, several files where the task takes them, or a text where the task is about texts; or the name of
            an environment, where a policy is to act.
        weights: a name, such as "vision/resnet50:DEFAULT", "ResNet50_Weights.IMAGENET1K_V2", or a member's name alone
            where `model` is given. Left out: those of `model`, else the default for the file's suffix.
        model: the model's name.
        device: where to compute.
        dtype: "float32", "float16", "bfloat16" or "float64"; None leaves the model as its builder makes it.
        options: what the user wishes about the answer.

    Raises:
        PredictError: nothing fits, the device cannot be used, or the input cannot be read.
        MissingInputError: there is no such file.
        UnknownNameError, AmbiguousNameError: from the registries.
        DownloadError: the weights could not be fetched.
    """
    return run(plan(source, weights=weights, model=model), device=device, dtype=dtype, options=options)


def plan(source: Source, *, weights: str | None = None, model: str | None = None) -> Plan:
    """Find out what a prediction takes, and that its input is there; imports no plugin.

    Raises:
        As `predict`.
    """
    sources = [str(source)] if isinstance(source, (str, Path)) else [str(one) for one in source]
    if not sources:
        raise PredictError("there is no input; give a file.")
    chosen = _weights(sources[0], weights, model)
    return _planned(sources, chosen)


def plan_environment(env: str, *, weights: str | None = None, model: str | None = None) -> Plan:
    """Find out what it takes to let a policy act in an environment; imports no plugin.

    Args:
        env: the environment's name.
        weights: as for `predict`; left out: those of `model`, else those that a plugin has for the environment.
        model: the model's name.

    Raises:
        PredictError: no plugin has a policy for it, or the model is none.
    """
    if weights is None and model is None:
        weights = _environment_weights(env)
    chosen = _weights(env, weights, model)
    task, owner = _task_of(chosen)
    if _predictor(task, owner).get("accepts") != "environment":
        raise PredictError(f"{owner.id} is no policy: its task {task!r} acts in no environment.")
    return _planned([env], chosen)


def _environment_weights(env: str) -> str:
    known = {
        name: weights
        for _, record in contributions("predictors")
        for name, weights in record.get("environments", {}).items()
    }
    if env in known:
        return str(known[env])
    near = close_names(env, sorted(known))
    hint = f" Close: {', '.join(near)}." if near else ""
    raise PredictError(
        f"no installed plugin has a policy for the environment {env!r}; there are some for "
        f"{', '.join(sorted(known)) or 'none'}.{hint} Choose one with --weights, or train one: flambeau rl train."
    )


def _planned(sources: list[str], chosen: Entry) -> Plan:
    task, owner = _task_of(chosen)
    record = _predictor(task, owner)
    return Plan(_input(sources, task, record.get("accepts", "file")), chosen, owner, task, record["target"])


def _task_of(chosen: Entry) -> tuple[str, Entry]:
    """The task of weights, and their model."""
    owner = MODELS.entry(chosen.id.rpartition(":")[0])
    task = chosen.info.get("task") or owner.info.get("task")
    if not task:
        raise PredictError(
            f"model {owner.id} states no task, so that no predictor can be found for it; "
            f"{owner.origin} has to register it with register_model(task=...)."
        )
    return task, owner


def predictor_record(weights: str) -> dict[str, Any]:
    """The predictor that serves some weights, as its plugin's manifest has it; imports no plugin.

    Args:
        weights: an id, such as "vision/resnet50:DEFAULT".

    Raises:
        PredictError: nothing serves the model's task, or it states none.
    """
    return _predictor(*_task_of(WEIGHTS.entry(weights)))


def run(
    plan: Plan, *, device: str = "cpu", dtype: str | None = None, options: PredictOptions | None = None
) -> Prediction:
    """Carry out a plan: fetch the weights, build the model, call the predictor.

    Raises:
        As `predict`.
    """
    import torch

    from flambeau.core.weights import get_model, get_weight

    place = _device(device)
    member = get_weight(plan.weights.id)
    predictor: Predictor = import_target(plan.predictor)
    module = get_model(plan.model.id, weights=member).eval()
    module = module.to(place, dtype=getattr(torch, dtype) if dtype else None)
    floating = (p.dtype for p in (*module.parameters(), *module.buffers()) if p.is_floating_point())
    with torch.inference_mode():
        return predictor(
            plan.source,
            model=module,
            weights=member,
            device=place,
            dtype=next(floating, torch.get_default_dtype()),
            options=options or PredictOptions(),
        )


def _weights(source: str, weights: str | None, model: str | None) -> Entry:
    if model is not None:
        return _weights_of_model(MODELS.entry(model), weights or "DEFAULT")
    if weights is not None:
        found = [entry for entry in WEIGHTS.entries() if weights in names_of(entry)]
        return found[0] if len(found) == 1 else WEIGHTS.entry(weights)
    return WEIGHTS.entry(_default_weights(source))


def _weights_of_model(model: Entry, name: str) -> Entry:
    own = [entry for entry in WEIGHTS.entries(plugin=model.plugin) if entry.id.rpartition(":")[0] == model.id]
    for entry in own:
        names = names_of(entry)
        if name in names or f"{model.name}:{name}" in names:
            return entry
    if not own:
        raise PredictError(f"model {model.id} has no weights, and a prediction needs some.")
    listed = ", ".join(entry.id for entry in own)
    raise PredictError(f"model {model.id} has no weights {name!r}; it has {listed}.")


def _default_weights(source: str) -> str:
    suffix = Path(source).suffix.lower()
    records = [record for _, record in contributions("predictors") if record.get("default_weights")]
    names = sorted({record["default_weights"] for record in records if suffix in record.get("suffixes", ())})
    kind = f"{suffix} files"
    if not names and not _looks_like_a_file(source):
        names = sorted({record["default_weights"] for record in records if record.get("accepts") == "text"})
        kind = "texts"
    if len(names) == 1:
        return str(names[0])
    if names:
        raise PredictError(f"{kind} can be answered by {', '.join(names)}; choose one with --weights.")
    known = sorted({suffix for record in records for suffix in record.get("suffixes", ())})
    raise PredictError(
        f"no installed plugin has default weights for {source!r}; "
        f"there are some for {', '.join(known) or 'no kind of file'}. Choose with --weights; "
        "`flambeau weights list` shows all."
    )


def _predictor(task: str, model: Entry) -> dict[str, Any]:
    records = contributions("predictors")
    fitting = [(plugin.name != model.plugin, plugin.name, record) for plugin, record in records]
    fitting = [item for item in fitting if item[2]["task"] == task]
    if not fitting:
        tasks = {record["task"] for _, record in records}
        near = close_names(task, tasks)
        hint = f" Close: {', '.join(near)}." if near else ""
        raise PredictError(
            f"no installed plugin has a predictor for the task {task!r} of {model.id}; "
            f"there are predictors for {', '.join(sorted(tasks)) or 'no task'}.{hint}"
        )
    return min(fitting, key=lambda item: item[:2])[2]


def _input(sources: list[str], task: str, accepts: str) -> str | tuple[str, ...]:
    """What the predictor is given."""
    if accepts == "files":
        return tuple(map(_file, sources))
    if len(sources) > 1:
        raise PredictError(f"the task {task!r} takes one input, {len(sources)} were given; ask for each by itself.")
    if accepts == "environment":
        return sources[0]
    return _text(sources[0]) if accepts == "text" else _file(sources[0])


def _file(source: str) -> str:
    path = Path(source)
    if path.exists():
        return source
    folder = path.parent
    near = close_names(path.name, (file.name for file in folder.iterdir())) if folder.is_dir() else []
    hint = f"Close names there: {', '.join(near)}." if near else "Check the path."
    raise MissingInputError(f"there is no file {source!r}. {hint}")


def _looks_like_a_file(source: str) -> bool:
    """Whether it is one, or ends as the name of one does, which may be misspelled; a sentence has more words."""
    named = re.fullmatch(r"\.\w{1,5}", Path(source).suffix) and len(source.split()) <= 3
    return bool(named) or _is_file(source)


def _is_file(source: str) -> bool:
    try:
        return Path(source).is_file()
    except (OSError, ValueError):  # longer than a file name can be, or with a NUL
        return False


def _text(source: str) -> str:
    """The text itself, from a file if the source names one."""
    if not _is_file(source):
        return source
    try:
        return Path(source).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise PredictError(f"{source} is not text in UTF-8 ({error.reason} at byte {error.start}).") from error


def _device(name: str) -> torch.device:
    import torch

    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:  # what torch raises varies with the device
        first = str(error).splitlines()[0]
        raise PredictError(f"device {name!r} cannot be used: {first} Use --device cpu.") from error
    return device

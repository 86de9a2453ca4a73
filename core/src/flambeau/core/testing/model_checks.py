"""Checks of models: they build without memory, mean what their state says, and survive what users do to them."""

from __future__ import annotations

import contextlib
import copy
import inspect
import io
import pickle
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from flambeau.core.registry import MODELS, WEIGHTS
from flambeau.core.testing.comparing import difference, mapped, require_equal, tensors
from flambeau.core.testing.model_subject import ModelSubject
from flambeau.core.testing.results import Catalogue, CheckFailed, NotApplicable
from flambeau.core.weights import Weights, empty_parameters, get_model, get_weight
from flambeau.core.weights.files import expected_sha256
from flambeau.core.weights.pretrained import architecture_only

# Rows of a batch may be computed by other kernels than a single row, with other orders of summation.
RTOL, ATOL = 1e-3, 1e-4

CHECKS: Catalogue[ModelSubject] = Catalogue("model")


@CHECKS.check("example-inputs")
def _example_inputs(subject: ModelSubject) -> None:
    """The plugin provides inputs, without which a model cannot be judged."""
    if not subject.provided.has("example_inputs"):
        raise CheckFailed(f"{subject.provided.origin} has no `example_inputs(model_name, batch)`; nothing is computed.")
    if not list(tensors(subject.inputs(1))):
        raise CheckFailed(f"example_inputs({subject.short!r}, 1) holds no tensor.")


@CHECKS.check("builds-on-meta")
def _builds_on_meta(subject: ModelSubject) -> None:
    """Builds with parameters that have no memory."""
    real = [name for name, value in subject.empty.named_parameters() if not value.is_meta]
    if real:
        raise CheckFailed(f"parameters have memory where none should: {_some(real)}; do not create them from data.")


@CHECKS.check("state-as-recorded")
def _state_as_recorded(subject: ModelSubject) -> None:
    """Parameters and buffers have the recorded names, in order, and shapes."""
    recorded = subject.provided.ask("recorded_state", subject.short)
    state = subject.empty.state_dict()
    if list(state) != list(recorded):
        lacking, surplus = [k for k in recorded if k not in state], [k for k in state if k not in recorded]
        found = f"missing {_some(lacking)}, surplus {_some(surplus)}" if lacking or surplus else "another order"
        raise CheckFailed(f"state_dict differs from the record: {found}.")
    if isinstance(recorded, Mapping):
        for name, value in state.items():
            if tuple(value.shape) != tuple(recorded[name]):
                raise CheckFailed(f"{name} has shape {tuple(value.shape)}, recorded is {tuple(recorded[name])}.")


@CHECKS.check("builds-alike-twice")
def _builds_alike_twice(subject: ModelSubject) -> None:
    """Two builds have equal state names, shapes and dtypes."""
    first, second = (
        {name: (tuple(value.shape), value.dtype) for name, value in model.state_dict().items()}
        for model in (subject.empty, subject.build_empty())
    )
    if list(first.items()) != list(second.items()):
        names = [name for name in {**first, **second} if first.get(name) != second.get(name)]
        raise CheckFailed(f"a second build differs in {_some(names) if names else 'the order of its state'}.")


@CHECKS.check("eval-deterministic")
def _eval_deterministic(subject: ModelSubject) -> None:
    """In eval mode the same input gives the same output, whatever the random state."""
    inputs = subject.inputs(2)
    outputs = []
    for seed in (1, 2):
        with torch.random.fork_rng(devices=[]), torch.inference_mode():
            torch.manual_seed(seed)
            outputs.append(subject.model(*inputs))
    require_equal(outputs[1], outputs[0], "a second call in eval mode differs", where="output")


@CHECKS.check("train-eval-switch")
def _train_eval_switch(subject: ModelSubject) -> None:
    """`train()` and `eval()` reach every part, and a new model is in training mode."""
    model = subject.build_empty()
    for mode, wanted in (("as built", True), ("eval", False), ("train", True)):
        if mode != "as built":
            getattr(model, mode)()
        wrong = [name or "the model" for name, part in model.named_modules() if part.training is not wanted]
        if wrong:
            raise CheckFailed(f"{mode}: `training` is {not wanted} for {_some(wrong)}.")


@CHECKS.check("batch-sizes")
def _batch_sizes(subject: ModelSubject) -> None:
    """Batches of 0, 1 and n work, give as many results, and a result does not depend on its batch."""
    for batch in (1, 3, 0):
        try:
            output = subject.output(batch)
        except (RuntimeError, ValueError, IndexError, ZeroDivisionError, TypeError) as error:
            raise CheckFailed(f"a batch of {batch} raises {type(error).__name__}: {error}") from error
        if found := _batch_fault(output, batch):
            raise CheckFailed(f"for a batch of {batch} the output has {found}.")
    inputs = subject.inputs(3)
    if not (fault := _alone_differs(subject.model, inputs, rtol=RTOL, atol=ATOL)):
        return
    # Kernels sum a batch of one in another order, and a hundred layers magnify the last bit: double precision tells
    # that from a sample that really sees its neighbours.
    double = copy.deepcopy(subject.model).double()
    exact = mapped(lambda x: x.double() if x.is_floating_point() else x, inputs)
    if _alone_differs(double, exact, rtol=1e-6, atol=1e-9):
        raise CheckFailed(f"the first of three differs from the same alone: {fault}.")


def _alone_differs(model: nn.Module, inputs: tuple[Any, ...], *, rtol: float, atol: float) -> str | None:
    """How the first of three samples differs from the same sample by itself."""
    with torch.inference_mode():
        alone, together = model(*_first_input(inputs, 3)), model(*inputs)
    return difference(alone, _first_output(together, alone, 3), rtol=rtol, atol=atol, where="output")


@CHECKS.check("moves-dtype-and-device")
def _moves(subject: ModelSubject) -> None:
    """`to` takes every tensor along to another dtype and device."""
    model = subject.build_empty().to("meta")
    stays = [
        f"{name or 'the model'}.{key}"
        for name, part in model.named_modules()
        for key, value in vars(part).items()
        if isinstance(value, Tensor) and not value.is_meta
    ]
    if stays:
        raise CheckFailed(f"tensors that are neither parameter nor buffer stay behind: {_some(stays)}.")
    expected = subject.output(2)
    double = copy.deepcopy(subject.model).double()
    wrong = [
        name
        for name, value in double.state_dict().items()
        if value.is_floating_point() and value.dtype != torch.float64
    ]
    if wrong:
        raise CheckFailed(f"after double() these are not float64: {_some(wrong)}.")
    inputs = mapped(lambda x: x.double() if x.is_floating_point() else x, subject.inputs(2))
    with torch.inference_mode():
        output = double(*inputs)
    if single := [str(value.dtype) for value in tensors(output) if value.dtype == torch.float32]:
        raise CheckFailed(f"a float64 model gives {single[0]} for float64 inputs.")
    output = mapped(lambda x: x.float() if x.is_floating_point() else x, output)
    require_equal(output, expected, "float64 and float32 disagree", rtol=1e-2, atol=1e-3, where="output")


@CHECKS.check("state-dict-round-trip")
def _state_dict_round_trip(subject: ModelSubject) -> None:
    """A saved state loads strictly into a new model, which then answers the same."""
    file = io.BytesIO()
    torch.save(subject.model.state_dict(), file)
    file.seek(0)
    fresh = subject.build_empty().eval()
    fresh.load_state_dict(torch.load(file, weights_only=True), strict=True, assign=True)
    if left := [name for name, value in fresh.state_dict().items() if value.is_meta]:
        raise CheckFailed(f"not restored: {_some(left)}.")
    require_equal(subject.output(2, fresh), subject.output(2), "after loading the state", where="output")


@CHECKS.check("pickles")
def _pickles(subject: ModelSubject) -> None:
    """The whole model survives pickle."""
    model = subject.build_empty()
    copy = pickle.loads(pickle.dumps(model))
    if list(copy.state_dict()) != list(model.state_dict()) or type(copy) is not type(model):
        raise CheckFailed("the copy has another class or other state names.")


@CHECKS.check("gradients-reach-parameters")
def _gradients(subject: ModelSubject) -> None:
    """Every parameter that requires a gradient gets a finite one, in training or in eval mode."""
    model, loss = copy.deepcopy(subject.model), None
    with contextlib.suppress(NotApplicable):  # for most models the outputs are enough
        loss = subject.provided.ask("training_loss", subject.short, model.train(), subject.inputs(2))
    if loss is not None:
        loss.backward()
    else:
        for mode in (True, False):  # auxiliary heads answer in training only, some branches in eval only
            _differentiate(model.train(mode), subject.inputs(2))
            if all(value.grad is not None for value in model.parameters() if value.requires_grad):
                break
    trained = {name: value.grad for name, value in model.named_parameters() if value.requires_grad}
    if without := [name for name, grad in trained.items() if grad is None]:
        raise CheckFailed(f"no gradient reaches {_some(without)}.")
    if infinite := [name for name, grad in trained.items() if grad is not None and not grad.isfinite().all()]:
        raise CheckFailed(f"the gradient is not finite for {_some(infinite)}.")


@CHECKS.check("weights-metadata")
def _weights_metadata(subject: ModelSubject) -> None:
    """Every member of its weights states task, metrics, licence, recipe, size and checksum."""
    task = MODELS.info(subject.name).get("task")
    records = {entry.id: entry.info for entry in WEIGHTS.entries() if entry.id.partition(":")[0] == subject.name}
    if not records:
        raise NotApplicable("the model has no weights.")
    for name, record in records.items():
        meta = record.get("meta") or {}
        facts = {
            "task": task or record.get("task") or meta.get("task"),
            "metrics": _stated_metrics(meta),
            "licence": record.get("license") or meta.get("license"),
            "recipe": meta.get("recipe"),
            "size": record.get("size") or meta.get("_file_size"),
            "checksum": _checksum(record),
        }
        if lacking := [fact for fact, value in facts.items() if not value]:
            raise CheckFailed(f"{name} does not state its {', '.join(lacking)}.")


def _stated_metrics(meta: Mapping[str, Any]) -> bool:
    """An empty mapping states that there are none, as for a backbone without a head; the description must say why."""
    metrics = meta.get("_metrics", meta.get("metrics"))
    return bool(metrics) or (metrics == {} and bool(meta.get("_docs")))


@CHECKS.check("transforms-fit-model")
def _transforms_fit_model(subject: ModelSubject) -> None:
    """What the weights' transforms make of a raw input is accepted by the model."""
    names = [entry.id for entry in WEIGHTS.entries() if entry.id.partition(":")[0] == subject.name]
    if not names:
        raise NotApplicable("the model has no weights.")
    raw = subject.provided.ask("raw_input", subject.short)
    for name in names:
        transformed = get_weight(name).transforms()(*(raw if isinstance(raw, tuple) else (raw,)))
        if subject.provided.has("as_batch"):
            inputs = subject.provided.ask("as_batch", subject.short, transformed)
        elif all(isinstance(part, Tensor) for part in _parts(transformed)):
            inputs = tuple(part[None] for part in _parts(transformed))
        else:
            raise NotApplicable(f"{name}: transforms gave a {type(transformed).__name__}; provide `as_batch`.")
        try:
            _accepts(subject, name, inputs)
        except (RuntimeError, TypeError, ValueError) as error:
            shapes = [tuple(value.shape) for value in tensors(inputs)]
            raise CheckFailed(f"{name}: the model refuses the transformed input {shapes}: {error}") from error


@CHECKS.check("num-classes")
def _num_classes(subject: ModelSubject) -> None:
    """`num_classes` decides the size of the last layer."""
    _adapts(subject, "num_classes", 7)


@CHECKS.check("in-channels")
def _in_channels(subject: ModelSubject) -> None:
    """`in_channels` decides what the first layer reads."""
    _adapts(subject, "in_channels", 5, "stem")


@CHECKS.check("compiles", level="full")
def _compiles(subject: ModelSubject) -> None:
    """Compiles as one graph that serves any batch size, with equal results."""
    torch.compiler.reset()
    # Tracing and differentiation are the model's part; code generation is torch's, and would take minutes per model.
    compiled = torch.compile(subject.model, fullgraph=True, dynamic=True, backend="aot_eager")
    for batch in (2, 3):
        with torch.no_grad():
            output = compiled(*subject.inputs(batch))
        require_equal(
            output, subject.output(batch), f"compiled, batch of {batch}", rtol=RTOL, atol=ATOL, where="output"
        )


@CHECKS.check("exports", level="full")
def _exports(subject: ModelSubject) -> None:
    """Exports for a fixed batch size, with equal results."""
    inputs = subject.inputs(2)
    with torch.no_grad():
        program = torch.export.export(subject.model, inputs, strict=False)
        output = program.module()(*inputs)
    require_equal(output, subject.output(2), "exported", rtol=RTOL, atol=ATOL, where="output")


def _differentiate(model: nn.Module, inputs: tuple[Any, ...]) -> None:
    values = [value for value in tensors(model(*inputs)) if value.is_floating_point() and value.requires_grad]
    if not values:
        raise NotApplicable("the output is not differentiable; provide `training_loss`.")
    torch.autograd.backward([value.sum() for value in values])


def _accepts(subject: ModelSubject, weights: str, inputs: tuple[Any, ...]) -> None:
    try:  # shapes alone, at no cost; models with data-dependent steps are computed in earnest
        with architecture_only():  # some weights decide the size of the pictures
            model = subject.build_empty(weights=get_weight(weights))
        with torch.inference_mode():
            model.eval().to("meta")(*mapped(lambda x: x.to("meta"), inputs))
    except (RuntimeError, TypeError, ValueError):
        with torch.inference_mode():
            subject.model(*inputs)


def _adapts(subject: ModelSubject, option: str, value: int, layers: str | None = None) -> None:
    """The builder's own option counts, and else what `get_model` does with the layers the model declares for it."""
    own = option in inspect.signature(subject.builder).parameters
    if own or layers is None or not MODELS.info(subject.name).get(layers):
        adapted = _built_with(subject, option, value)
    else:
        with empty_parameters():
            adapted = get_model(subject.name, **subject.config, **{option: value})
    before = {name: tuple(tensor.shape) for name, tensor in subject.empty.state_dict().items()}
    after = {name: tuple(tensor.shape) for name, tensor in adapted.state_dict().items()}
    changed = [name for name, shape in after.items() if before.get(name) != shape]
    if not changed:
        raise CheckFailed(f"{option}={value} changes no parameter.")
    if not any(size % value == 0 for name in changed for size in after[name]):
        raise CheckFailed(f"{option}={value} changes {_some(changed)}, but to no size that follows from {value}.")


def _built_with(subject: ModelSubject, option: str, value: int) -> nn.Module:
    parameters = inspect.signature(subject.builder).parameters.values()
    if not any(p.name == option or p.kind is p.VAR_KEYWORD for p in parameters):
        raise NotApplicable(f"neither its builder nor its registration has anything for {option}.")
    try:
        return subject.build_empty(**{option: value})
    except TypeError as error:
        if option not in str(error):
            raise
        raise NotApplicable(f"the builder does not take {option}.") from error


def _checksum(record: Mapping[str, Any]) -> str | None:
    facts = Weights(record["url"], transforms=None, meta={}, sha256=record.get("sha256"))  # type: ignore[arg-type]
    return expected_sha256(facts)


def _parts(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, tuple | list) else (value,)


def _are_batches(values: list[Any], batch: int) -> bool:
    """Whether a list holds a batch per entry, such as the steps of a refinement, and not an entry per sample."""
    batches = all(isinstance(value, Tensor) and value.ndim and len(value) == batch for value in values)
    return batches and len(values) != batch


def _batch_fault(output: Any, batch: int) -> str | None:
    if isinstance(output, list) and not _are_batches(output, batch):
        return None if len(output) == batch else f"{len(output)} entries"
    sizes = [tuple(value.shape) for value in tensors(output) if value.ndim]
    wrong = [shape for shape in sizes if shape[0] != batch]
    return f"a tensor of shape {wrong[0]}" if wrong else None


def _first_input(value: Any, batch: int) -> Any:
    """The part of inputs that belongs to the first sample, as a batch of one."""
    if isinstance(value, Tensor):
        return value[:1] if value.ndim and len(value) == batch else value
    if isinstance(value, list):
        if _are_batches(value, batch):
            return [item[:1] for item in value]
        return value[:1] if len(value) == batch else value
    if isinstance(value, Mapping):
        return {key: _first_input(item, batch) for key, item in value.items()}
    if isinstance(value, tuple):
        return _like(value, [_first_input(item, batch) for item in value])
    return value


def _first_output(value: Any, alone: Any, batch: int) -> Any:
    """The part of an output that belongs to the first sample, as a batch of one.

    A list that is as long for one sample, `alone`, has an entry for each layer or step and no entry per sample.
    """
    if isinstance(value, Tensor):
        return value[:1] if value.ndim and len(value) == batch else value
    if isinstance(value, Mapping):
        others = alone if isinstance(alone, Mapping) else {}
        return {key: _first_output(item, others.get(key), batch) for key, item in value.items()}
    if isinstance(value, (list, tuple)) and isinstance(alone, (list, tuple)):
        if len(value) == len(alone):
            return _like(value, [_first_output(item, own, batch) for item, own in zip(value, alone, strict=True)])
        return value[:1] if isinstance(value, list) and len(value) == batch else value
    return value


def _like(value: Any, parts: list[Any]) -> Any:
    """Parts as a list, tuple or named tuple, whichever `value` is."""
    return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)


def _some(names: list[str], most: int = 4) -> str:
    """A few names for a message."""
    if not names:
        return "nothing"
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")

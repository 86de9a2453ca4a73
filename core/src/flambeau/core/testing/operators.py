"""Checks of operators and transforms, asked of samples that the plugin provides.

An operator and a transform promise alike: dtypes, batches, layouts, gradients, reproducible randomness, inputs left
alone, compiling. A transform is an object besides, which is sent to workers and printed.
"""

from __future__ import annotations

import functools
import inspect
import pickle
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.gradcheck import GradcheckError

from flambeau.core.testing.comparing import mapped, require_equal, tensors
from flambeau.core.testing.results import BoundCheck, Catalogue, CheckFailed, Level, NotApplicable, Result, bind, run
from flambeau.core.testing.samples import Sample

# Unit roundoff times a margin for a few dozen operations, by dtype.
_RTOL = {"float16": 2e-2, "bfloat16": 1e-1, "float32": 1e-4, "float64": 1e-7}


class OperatorSubject:
    """One sample of an operator or transform."""

    def __init__(self, sample: Sample) -> None:
        self.sample = sample

    def inputs(self) -> tuple[Any, ...]:
        """The sample's inputs, copied, so that no check sees what another did to them."""
        return tuple(mapped(_copy, self.sample.args))

    def call(self, *args: Any) -> Any:
        """What the operator makes of inputs, by default the sample's; the same random state at every call."""
        options = dict(self.sample.kwargs)
        if self.sample.generator:
            options["generator"] = torch.Generator().manual_seed(0)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return self.sample.call(*(args or self.inputs()), **options)

    @functools.cached_property
    def output(self) -> Any:
        """What it makes of the sample's inputs."""
        return self.call()

    def require_same(self, actual: Any, what: str, *, expected: Any = None) -> None:
        """Fail unless `actual` agrees with the output, or `expected`, within the sample's tolerances."""
        expected = self.output if expected is None else expected
        require_equal(actual, expected, what, rtol=self.sample.rtol, atol=self.sample.atol)


OP_CHECKS: Catalogue[OperatorSubject] = Catalogue("op")
TRANSFORM_CHECKS: Catalogue[OperatorSubject] = Catalogue("transform")


def check_op(sample: Sample, *, plugin: str = "local", level: Level = "default") -> list[Result]:
    """Ask everything that operators are asked of one sample.

    Args:
        sample: the operator with inputs, and what it promises about them.
        plugin: first half of the subject's name in results.
        level: "full" asks checks that take long too.
    """
    return run(bind_op(sample, plugin, level))


def check_transform(sample: Sample, *, plugin: str = "local", level: Level = "default") -> list[Result]:
    """Ask everything that transforms are asked of one sample; arguments as `check_op`."""
    return run(bind_transform(sample, plugin, level))


def bind_op(sample: Sample, plugin: str, level: Level, expected: dict[str, str] | None = None) -> list[BoundCheck]:
    """The checks of one sample of an operator."""
    subject = OperatorSubject(sample)
    return bind(OP_CHECKS, subject, f"{plugin}/{sample.name}", level=level, expected_failures=expected)


def bind_transform(
    sample: Sample, plugin: str, level: Level, expected: dict[str, str] | None = None
) -> list[BoundCheck]:
    """The checks of one sample of a transform."""
    subject = OperatorSubject(sample)
    return bind(TRANSFORM_CHECKS, subject, f"{plugin}/{sample.name}", level=level, expected_failures=expected)


@TRANSFORM_CHECKS.check("dtypes")
@OP_CHECKS.check("dtypes")
def _dtypes(subject: OperatorSubject) -> None:
    """Takes each dtype it promises with results that agree, and refuses those it does not take."""
    if not any(True for _ in tensors(subject.sample.args)):
        raise NotApplicable("it takes no tensor.")
    exact = _floats(subject.call(*_cast(subject, torch.float64))) if "float64" in subject.sample.dtypes else None
    for name in subject.sample.dtypes:
        dtype = getattr(torch, name)
        try:
            output = subject.call(*_cast(subject, dtype))
        except (RuntimeError, TypeError, ValueError, NotImplementedError) as error:
            raise CheckFailed(f"{name} inputs raise {type(error).__name__}: {error}") from error
        if dtype.is_floating_point and exact is not None and not subject.sample.generator:
            rtol = _RTOL[name]
            require_equal(_floats(output), exact, f"{name} and float64 disagree", rtol=rtol, atol=rtol)
    for name in subject.sample.rejects:
        try:
            subject.call(*_cast(subject, getattr(torch, name)))
        except (RuntimeError, TypeError, ValueError, NotImplementedError):
            continue
        raise CheckFailed(f"{name} inputs are to be refused, but give a result.")


@TRANSFORM_CHECKS.check("batch-dims")
@OP_CHECKS.check("batch-dims")
def _batch_dims(subject: OperatorSubject) -> None:
    """A stack of inputs gives the stack of their outputs, with one and with two further dimensions."""
    positions = subject.sample.batched
    if not positions:
        raise NotApplicable("the sample promises no batch dimensions (`batched`).")
    if subject.sample.generator:
        raise NotApplicable("random results of a batch are not those of its items.")
    # Rows in another order make another valid item of pictures, boxes and waveforms alike.
    items = [subject.inputs(), _reversed(subject.inputs(), positions)]
    outputs = [subject.call(*mapped(_copy, item)) for item in items]
    for more in ((), (3,)):
        sizes = (*more, 2)
        args = list(subject.inputs())
        for position in positions:
            pair = torch.stack([item[position] for item in items])
            args[position] = pair.expand(*sizes, *args[position].shape).clone()
        got, expected = list(tensors(subject.call(*args))), [list(tensors(output)) for output in outputs]
        stacked = [torch.stack(pair).expand(*sizes, *pair[0].shape) for pair in zip(*expected, strict=True)]
        subject.require_same(got, f"with leading dimensions {sizes}", expected=stacked)


@TRANSFORM_CHECKS.check("memory-layouts")
@OP_CHECKS.check("memory-layouts")
def _memory_layouts(subject: OperatorSubject) -> None:
    """Non-contiguous and channels-last inputs give the same results."""
    for name, layout in (("non-contiguous", _spread), ("transposed", _transposed), ("channels-last", _channels_last)):
        args = tuple(mapped(layout, subject.inputs()))
        subject.require_same(subject.call(*args), f"{name} inputs")


@TRANSFORM_CHECKS.check("empty-input")
@OP_CHECKS.check("empty-input")
def _empty(subject: OperatorSubject) -> None:
    """Inputs without elements work, as the plain path does them."""
    sample = subject.sample
    if sample.empty is None:
        raise NotApplicable("the sample has no `empty` inputs.")
    output = subject.call(*mapped(_copy, sample.empty))
    if sample.reference is not None:
        require_equal(output, sample.reference(*mapped(_copy, sample.empty), **sample.kwargs), "on empty inputs")
    for value in tensors(output):
        if value.numel() and value.is_floating_point() and not value.isfinite().all():
            raise CheckFailed(f"empty inputs give {value.tolist()}.")


@TRANSFORM_CHECKS.check("agrees-with-plain-path")
@OP_CHECKS.check("agrees-with-plain-path")
def _reference(subject: OperatorSubject) -> None:
    """Agrees with the plain reference on the same inputs."""
    sample = subject.sample
    if sample.reference is None:
        raise NotApplicable("the sample names no `reference`.")
    subject.require_same(
        subject.output, "against the plain path", expected=sample.reference(*subject.inputs(), **sample.kwargs)
    )


@TRANSFORM_CHECKS.check("gradients")
@OP_CHECKS.check("gradients")
def _gradients(subject: OperatorSubject) -> None:
    """Gradients agree with finite differences, in float64, for the inputs that promise them."""
    positions = subject.sample.differentiable
    if not positions:
        raise NotApplicable("the sample promises no gradients (`differentiable`).")
    args = list(subject.inputs())
    free = [args[position].double().contiguous().requires_grad_() for position in positions]

    def function(*values: Tensor) -> Any:
        for position, value in zip(positions, values, strict=True):
            args[position] = value
        output = [value for value in tensors(subject.call(*args)) if value.is_floating_point()]
        return tuple(output)

    fixed = [index for index, arg in enumerate(args) if isinstance(arg, Tensor) and index not in positions]
    for index in fixed:
        args[index] = args[index].double() if args[index].is_floating_point() else args[index]
    if not all(value.requires_grad for value in function(*free)):
        raise CheckFailed("an output does not depend on the inputs that promise gradients, or was detached.")
    try:
        # One projection instead of every element, where every element would take long.
        large = sum(value.numel() for value in free) > 200
        torch.autograd.gradcheck(function, free, check_undefined_grad=False, fast_mode=large)
    except GradcheckError as error:
        raise CheckFailed(f"the gradient is wrong: {error}") from error


@TRANSFORM_CHECKS.check("compiles")
@OP_CHECKS.check("compiles")
def _compiles(subject: OperatorSubject) -> None:
    """Compiles as one graph with equal results."""
    if not subject.sample.compiles:
        raise NotApplicable("the sample does not promise to compile.")
    if subject.sample.generator:
        raise NotApplicable("torch.compile takes no generator.")
    torch.compiler.reset()
    options = dict(subject.sample.kwargs)
    compiled = torch.compile(
        lambda *args: subject.sample.call(*args, **options), fullgraph=True, backend="aot_eager"
    )  # fmt: skip
    subject.require_same(compiled(*subject.inputs()), "compiled")


@TRANSFORM_CHECKS.check("same-generator-same-result")
@OP_CHECKS.check("same-generator-same-result")
def _generator(subject: OperatorSubject) -> None:
    """The generator alone decides what is drawn, and it is used."""
    sample = subject.sample
    if not sample.generator:
        raise NotApplicable("it is not random.")
    draws = []
    for seed, everywhere in ((1, 1), (1, 2), (2, 2)):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(everywhere)
            generator = torch.Generator().manual_seed(seed)
            draws.append(sample.call(*subject.inputs(), **sample.kwargs, generator=generator))
    require_equal(draws[1], draws[0], "the same generator, but another global state")
    try:
        require_equal(draws[2], draws[1], "")
    except CheckFailed:
        return
    raise CheckFailed("generators of different seeds give the same result; the generator is not used.")


@TRANSFORM_CHECKS.check("inputs-unmodified")
@OP_CHECKS.check("inputs-unmodified")
def _inputs_unmodified(subject: OperatorSubject) -> None:
    """Leaves its inputs as they were."""
    inputs = subject.inputs()
    versions = [value._version for value in tensors(inputs)]
    output = subject.call(*inputs)
    require_equal(inputs, tuple(mapped(_copy, subject.sample.args)), "an input was modified", where="inputs")
    if [value._version for value in tensors(inputs)] != versions:
        raise CheckFailed("an input was written to, if only with the values it had.")
    if subject.sample.operator is None:
        return
    storages = {value.untyped_storage().data_ptr() for value in tensors(inputs) if value.numel()}
    if any(value.untyped_storage().data_ptr() in storages for value in tensors(output) if value.numel()):
        raise CheckFailed("an output shares memory with an input, which operators of torch.library must not do.")


@TRANSFORM_CHECKS.check("fake-agrees")
@OP_CHECKS.check("fake-agrees")
def _fake(subject: OperatorSubject) -> None:
    """On tensors without data it gives the shapes and dtypes that it gives on real ones."""
    if subject.sample.operator is not None:
        _opcheck(subject)
        return
    from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException, FakeTensorMode

    if subject.sample.generator:
        raise NotApplicable("values are drawn from a generator.")
    mode = FakeTensorMode()
    inputs = mapped(mode.from_tensor, subject.inputs())
    try:
        with mode:
            output = subject.call(*inputs)
    except (DataDependentOutputException, DynamicOutputShapeException) as error:
        raise NotApplicable("its result depends on values.") from error
    fake = [(tuple(value.shape), value.dtype) for value in tensors(output)]
    real = [(tuple(value.shape), value.dtype) for value in tensors(subject.output)]
    if fake != real:
        raise CheckFailed(f"without data it gives {fake}, with data {real}.")


def _opcheck(subject: OperatorSubject) -> None:
    """Schema, fake rule, autograd registration and tracing with symbolic sizes, by torch's own examination."""
    sample = subject.sample
    namespace, _, name = str(sample.operator).partition("::")
    packet = getattr(getattr(torch.ops, namespace), name.partition(".")[0], None)
    if packet is None:
        raise CheckFailed(f"torch.ops has no {sample.operator}.")
    overload = getattr(packet, name.partition(".")[2] or "default")
    bound = inspect.signature(sample.call).bind(*subject.inputs(), **sample.kwargs)
    bound.apply_defaults()
    arguments = (*bound.args, *bound.kwargs.values())[: len(overload._schema.arguments)]
    torch.library.opcheck(overload, arguments)


@TRANSFORM_CHECKS.check("pickles")
def _pickles(subject: OperatorSubject) -> None:
    """A copy through pickle does the same."""
    try:
        copy = pickle.loads(pickle.dumps(subject.sample.call))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise CheckFailed(f"it cannot be pickled: {error}") from error
    twin = OperatorSubject(Sample(**{**vars(subject.sample), "call": copy}))
    subject.require_same(twin.output, "after pickle")


@TRANSFORM_CHECKS.check("repr")
def _repr(subject: OperatorSubject) -> None:
    """Its repr shows its parameters, on one screen."""
    if inspect.isroutine(subject.sample.call):
        raise NotApplicable("it is a plain function.")
    text = repr(subject.sample.call)
    if " at 0x" in text or len(text.splitlines()) > 24:
        raise CheckFailed(f"repr is {text[:200]!r}, which is not what a person can use.")


def _copy(value: Tensor) -> Tensor:
    return value.detach().clone()


def _cast(subject: OperatorSubject, dtype: torch.dtype) -> tuple[Any, ...]:
    """The inputs with their floating tensors, or where there are none their integer ones, in a dtype."""
    inputs = subject.inputs()
    floating = any(value.is_floating_point() for value in tensors(inputs))

    def cast(value: Tensor) -> Tensor:
        chosen = value.is_floating_point() if floating else value.dtype != torch.bool
        return value.to(dtype) if chosen else value

    return tuple(mapped(cast, inputs))


def _reversed(inputs: tuple[Any, ...], positions: Sequence[int]) -> tuple[Any, ...]:
    """Another item: the batched inputs with their rows in reverse."""
    return tuple(
        value.flip(0) if index in positions and value.ndim > 1 else value for index, value in enumerate(inputs)
    )


def _floats(output: Any) -> Any:
    return mapped(lambda value: value.double() if value.is_floating_point() else value, output)


def _spread(value: Tensor) -> Tensor:
    return torch.stack([value, value], -1)[..., 0] if value.ndim else value


def _transposed(value: Tensor) -> Tensor:
    return value.transpose(-1, -2).contiguous().transpose(-1, -2) if value.ndim >= 2 else value


def _channels_last(value: Tensor) -> Tensor:
    if value.ndim == 4:
        return value.contiguous(memory_format=torch.channels_last)
    return value[None].contiguous(memory_format=torch.channels_last)[0] if value.ndim == 3 else value

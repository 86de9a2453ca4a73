"""Which estimator of values a loss uses: by name, by class, or one that is made already."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, NamedTuple, TypeVar

Estimator = TypeVar("Estimator", bound=type)


class ValueEstimators(Enum):
    """The estimators that losses know by name; see `flambeau.rl.objectives.value`."""

    TD0 = "Bootstrapped TD (1-step return)"
    TD1 = "TD(1) (infinity-step return)"
    TDLambda = "TD(lambda)"
    GAE = "Generalized advantage estimate"
    MAGAE = "Multi-agent generalized advantage estimate"
    VTrace = "V-trace"


class _ValueEstimatorRegistryEntry(NamedTuple):
    cls: type
    default_kwargs: dict[str, Any]


_REGISTERED: dict[Any, _ValueEstimatorRegistryEntry] = {}
_DEFAULTS: dict[str, Any] = {"gamma": 0.99}
_BUILTIN = {
    ValueEstimators.TD0: ("TD0Estimator", {}),
    ValueEstimators.TD1: ("TD1Estimator", {}),
    ValueEstimators.TDLambda: ("TDLambdaEstimator", {"lmbda": 0.95}),
    ValueEstimators.GAE: ("GAE", {"lmbda": 0.95}),
    ValueEstimators.MAGAE: ("MultiAgentGAE", {"lmbda": 0.95}),
    ValueEstimators.VTrace: ("VTrace", {}),
}


def register_value_estimator(
    value_type: Any, *, default_kwargs: dict[str, Any] | None = None
) -> Callable[[Estimator], Estimator]:
    """Make an estimator known to `make_value_estimator` of all losses.

    Args:
        value_type: a member of an enumeration; its name in lower case is an alias.
        default_kwargs: arguments that are taken where the user gives none.

    Returns:
        A decorator of the class.

    Raises:
        TypeError: not a member of an enumeration.
    """
    if not isinstance(value_type, Enum):
        raise TypeError(f"value_type is {value_type!r}, expected a member of an enumeration.")

    def register(cls: Estimator) -> Estimator:
        _REGISTERED[value_type] = _ValueEstimatorRegistryEntry(cls, dict(default_kwargs or {}))
        return cls

    return register


def _coerce_value_type(value_type: Any) -> Any:
    """The member of an enumeration that a value or an alias means."""
    if isinstance(value_type, Enum):
        return value_type
    if not isinstance(value_type, str):
        raise TypeError(f"value_type is a {type(value_type).__name__}, expected one of ValueEstimators or its alias.")
    for known in (*_BUILTIN, *_REGISTERED):
        if known.name.lower() == value_type.lower():
            return known
    raise KeyError(f"No value estimator is called {value_type!r}; there are {_value_estimator_aliases()}.")


def _value_estimator_aliases() -> list[str]:
    return list(dict.fromkeys(known.name.lower() for known in (*_BUILTIN, *_REGISTERED)))


def _registered_value_type(value_type: Any) -> bool:
    try:
        return _coerce_value_type(value_type) in {*_BUILTIN, *_REGISTERED}
    except (KeyError, TypeError):
        return False


def get_value_estimator_entry(value_type: Any) -> _ValueEstimatorRegistryEntry:
    """The class and the default arguments of an estimator.

    Args:
        value_type: a registered member of an enumeration, or its alias.

    Raises:
        KeyError: it is not registered.
        TypeError: neither.
    """
    member = _coerce_value_type(value_type)
    if member in _REGISTERED:
        return _REGISTERED[member]
    if member not in _BUILTIN:
        raise KeyError(f"{member} has no estimator; register one by register_value_estimator.")
    from flambeau.rl.objectives.value import advantages

    name, options = _BUILTIN[member]
    return _ValueEstimatorRegistryEntry(getattr(advantages, name), {**_DEFAULTS, **options, "differentiable": True})


def default_value_kwargs(value_type: Any) -> dict[str, Any]:
    """The arguments that an estimator gets where the user gives none.

    Args:
        value_type: one of `ValueEstimators`, or its alias, such as "gae".

    Example:
        >>> default_value_kwargs(ValueEstimators.TDLambda)
        {'gamma': 0.99, 'lmbda': 0.95, 'differentiable': True}
    """
    member = _coerce_value_type(value_type)
    if member in _BUILTIN and member not in _REGISTERED:
        return {**_DEFAULTS, **_BUILTIN[member][1], "differentiable": True}
    return dict(get_value_estimator_entry(member).default_kwargs)


def build_value_estimator(loss_module: Any, value_type: Any, **hyperparams: Any) -> Any:
    """An estimator with the loss's discount, where it has one of its own, and the default arguments.

    Args:
        loss_module: whose `gamma` counts.
        value_type: one of `ValueEstimators`, or its alias.
        **hyperparams: of the estimator, such as `value_network`.
    """
    entry = get_value_estimator_entry(value_type)
    given = dict(entry.default_kwargs)
    if hasattr(loss_module, "gamma"):
        given["gamma"] = loss_module.gamma
    return entry.cls(**{**given, **hyperparams})


def dispatch_value_estimator(
    loss_module: Any,
    value_type: Any,
    *,
    supported: Iterable[Any],
    tensor_keys: dict[str, Any] | None = None,
    **hyperparams: Any,
) -> Any:
    """Build the estimator of a loss, give it the loss's keys, and keep it in the loss.

    Args:
        loss_module: a loss.
        value_type: one of `ValueEstimators`, or its alias.
        supported: what this loss can use. Estimators that users registered are taken by all losses.
        tensor_keys: names of the estimator and where they are read and written.
        **hyperparams: of the estimator.

    Returns:
        The estimator.

    Raises:
        NotImplementedError: the loss cannot use it.
    """
    member, supported = _coerce_value_type(value_type), list(supported)
    if member not in supported and member not in _REGISTERED:
        names = [getattr(each, "name", each) for each in supported]
        raise NotImplementedError(
            f"{type(loss_module).__name__} estimates values by one of {names}, not by {member.name}."
        )
    estimator = build_value_estimator(loss_module, member, **hyperparams)
    if tensor_keys:
        estimator.set_keys(**tensor_keys)
    loss_module._value_estimator = estimator
    return estimator

"""Signatures before and after a change."""

from __future__ import annotations

import inspect

__all__ = ["is_signature_compatible"]

_KEYWORD, _EITHER = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD
_MORE = inspect.Parameter.VAR_POSITIONAL


def is_signature_compatible(previous_signature: inspect.Signature, current_signature: inspect.Signature) -> bool:
    """Whether calls of the previous signature still mean the same.

    Positional parameters have to be the same (name, kind, annotation, default) in the same order, and may be followed
    by further ones; parameters by keyword alone have to be there by name; the return annotation has to be the same.
    Upstream: that parameters were added without defaults is not noticed.

    Args:
        previous_signature: before.
        current_signature: after.

    Example:
        >>> def before(a, b=1): ...
        >>> def after(a, b=1, c=2): ...
        >>> is_signature_compatible(inspect.signature(before), inspect.signature(after))
        True
    """
    if previous_signature.return_annotation != current_signature.return_annotation:
        return False
    previous, current = (list(one.parameters.values()) for one in (previous_signature, current_signature))
    if len(previous) > len(current):
        return False
    names = {one.name for one in current if one.kind == _KEYWORD}
    for at, parameter in enumerate(previous):
        if parameter.kind == _KEYWORD:
            if parameter.name not in names:
                return False
        elif parameter.kind == _MORE:
            if current[at].kind != _MORE:
                return False
        elif parameter.kind != _EITHER and parameter != current[at]:
            return False
    return True

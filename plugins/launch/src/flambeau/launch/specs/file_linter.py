"""The rules for components, checked on their source without running it; and the texts in their docstrings."""

from __future__ import annotations

import abc
import argparse
import ast
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from docstring_parser import parse

__all__ = [
    "LinterMessage",
    "TorchFunctionVisitor",
    "TorchXArgumentHelpFormatter",
    "TorchxFunctionArgsValidator",
    "TorchxFunctionValidator",
    "TorchxReturnValidator",
    "get_fn_docstring",
    "validate",
]


class TorchXArgumentHelpFormatter(
    argparse.RawDescriptionHelpFormatter, argparse.ArgumentDefaultsHelpFormatter, argparse.MetavarTypeHelpFormatter
):
    """Help of components: the docstring as it is written, with the types and defaults of arguments."""

    def _get_help_string(self, action: argparse.Action) -> str:
        text = action.help or ""
        if action.required or "%(default)" in text or action.default is argparse.SUPPRESS or not action.option_strings:
            return f"{text} (required)" if action.required and action.option_strings else text
        return f"{text} (default: %(default)s)"


def get_fn_docstring(fn: Callable[..., object]) -> tuple[str, dict[str, str]]:
    """What a component's docstring says of it, and of each argument; a blank for what it says nothing of."""
    name = getattr(fn, "__name__", "component")
    texts = dict.fromkeys(inspect.signature(fn).parameters, " ")
    written = inspect.getdoc(fn)
    if not written:
        return f"{name}: has no docstring; one would stand here, and its `Args` beside the arguments.", texts
    docstring = parse(written)
    texts |= {p.arg_name: p.description for p in docstring.params if p.arg_name in texts and p.description}
    parts = (docstring.short_description, docstring.long_description)
    # `*args` of signatures and `args` of docstrings are one.
    texts |= {
        p.arg_name.lstrip("*"): p.description
        for p in docstring.params
        if p.arg_name.lstrip("*") in texts and p.description
    }
    return "\n".join(part for part in parts if part) or name, texts


@dataclass
class LinterMessage:
    """One rule that a component breaks.

    Attributes:
        name: of what checked it.
        description: what is wrong.
        line: of the file, from 1.
        char: of the line, from 0.
        severity: "error" for everything that keeps it from running.
    """

    name: str
    description: str
    line: int
    char: int
    severity: str = "error"


class TorchxFunctionValidator(abc.ABC):
    """Checks one rule on the source of a component."""

    @abc.abstractmethod
    def validate(self, app_specs_func_def: ast.FunctionDef) -> list[LinterMessage]:
        """What breaks the rule; empty where nothing does."""

    def _gen_linter_message(self, description: str, lineno: int) -> LinterMessage:
        return LinterMessage("TorchxFunctionValidator", description, lineno, 0)


class TorchxFunctionArgsValidator(TorchxFunctionValidator):
    """Every argument has a type that a command line can hold."""

    def validate(self, app_specs_func_def: ast.FunctionDef) -> list[LinterMessage]:
        """What breaks the rule; empty where nothing does."""
        spec = app_specs_func_def.args
        arguments: Iterable[ast.arg | None] = (*spec.posonlyargs, *spec.args, spec.vararg, *spec.kwonlyargs)
        messages = []
        for argument in filter(None, arguments):
            if argument.annotation is None:
                text = f"argument {argument.arg!r} has no type; give it str, int, float, bool, a list or a dict of them"
                messages.append(self._gen_linter_message(text, app_specs_func_def.lineno))
            elif not _is_supported(argument.annotation):
                text = (
                    f"argument {argument.arg!r} is of the type {ast.unparse(argument.annotation)}, which no command "
                    "line can hold; expected str, int, float, bool, Optional, List or Dict of them"
                )
                messages.append(self._gen_linter_message(text, app_specs_func_def.lineno))
        return messages


_PLAIN = {"str", "int", "float", "bool", "object", "Any", "None"}
_NESTED = {"Optional", "List", "Dict", "list", "dict", "Union"}


def _is_supported(annotation: ast.expr) -> bool:
    if isinstance(annotation, ast.Constant):
        if annotation.value is None:
            return True
        if not isinstance(annotation.value, str):
            return False
        try:
            return _is_supported(ast.parse(annotation.value, mode="eval").body)
        except SyntaxError:
            return False
    if isinstance(annotation, ast.Name | ast.Attribute):
        name = _last_name(annotation)
        return name in _PLAIN or name in _NESTED
    if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
        return _is_supported(annotation.left) and _is_supported(annotation.right)
    if isinstance(annotation, ast.Subscript) and _last_name(annotation.value) in _NESTED:
        inner = annotation.slice
        return all(map(_is_supported, inner.elts if isinstance(inner, ast.Tuple) else [inner]))
    return False


def _last_name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


class TorchxReturnValidator(TorchxFunctionValidator):
    """The component says that it returns an `AppDef`."""

    def validate(self, app_specs_func_def: ast.FunctionDef) -> list[LinterMessage]:
        """What breaks the rule; empty where nothing does."""
        returns = app_specs_func_def.returns
        written = returns.value if isinstance(returns, ast.Constant) else returns and ast.unparse(returns)
        if str(written).rpartition(".")[2] == "AppDef":
            return []
        text = f"function {app_specs_func_def.name!r} does not say that it returns an AppDef; annotate it: -> AppDef"
        return [self._gen_linter_message(text, app_specs_func_def.lineno)]


class TorchFunctionVisitor(ast.NodeVisitor):
    """Finds a component in its file and checks all rules on it.

    Attributes:
        linter_errors: what breaks a rule.
        visited_function: whether the component was found.
    """

    def __init__(self, component_function_name: str) -> None:
        self.validators: list[TorchxFunctionValidator] = [TorchxFunctionArgsValidator(), TorchxReturnValidator()]
        self.linter_errors: list[LinterMessage] = []
        self.component_function_name = component_function_name
        self.visited_function = False

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Check the component where this is it."""
        if node.name != self.component_function_name:
            return
        self.visited_function = True
        for validator in self.validators:
            self.linter_errors += validator.validate(node)


def validate(path: str, component_function: str) -> list[LinterMessage]:
    """What is wrong with a component.

    Args:
        path: of its file.
        component_function: its name there.

    Returns:
        One message for each rule that it breaks, and for a file that is not Python or lacks it.

    Raises:
        FileNotFoundError: the file is not there.
    """
    try:
        tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    except SyntaxError as error:
        return [
            LinterMessage("TorchXValidator", f"{path} is not Python: {error}", error.lineno or 0, error.offset or 0)
        ]
    visitor = TorchFunctionVisitor(component_function)
    visitor.visit(tree)
    if not visitor.visited_function:
        return [LinterMessage("TorchXValidator", f"there is no function {component_function!r} in {path}", 0, 0)]
    return visitor.linter_errors

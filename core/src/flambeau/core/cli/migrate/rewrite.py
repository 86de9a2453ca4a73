"""Rewriting one Python source: imports, what uses them, operator names; everything else stays as it is typed.

`import torchvision` becomes `import flambeau.vision`, and each use `torchvision.x` that is bound by that import becomes
`flambeau.vision.x`. Where the name `torchvision` itself has to survive (it is also assigned, deleted, declared global
or exported, or `flambeau` means something else in the file), the import becomes
`import flambeau.vision as torchvision`.

Strings are left alone, except operator names (`"torchvision::nms"`, `"torch.ops.torchvision.nms"`) and quoted
annotations; a string that looks like an upstream module's or object's path is reported.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import libcst as cst
from libcst.helpers import get_full_name_for_node
from libcst.metadata import (
    MetadataWrapper,
    PositionProvider,
    QualifiedNameSource,
    ScopeProvider,
)

from flambeau.core.cli.migrate.bindings import Bindings, qualified, source_module
from flambeau.core.cli.migrate.table import MODULES, OPERATORS, moved

_SIMPLE = {name: target for name, target in MODULES.items() if "." not in name}
_NAMESPACES = "|".join(OPERATORS)
_OPS_PATH = re.compile(rf"\btorch\.ops\.({_NAMESPACES})\.(?=\w)")
_OPS_NAME = re.compile(rf"(?P<quote>['\"]{{1,3}})({_NAMESPACES})::(?=\w[\w.]*(?P=quote)$)")
_IMPORTERS = re.compile(r"(^|\.)(import_module|__import__|importorskip|find_spec|patch|load_library|setattr)$")


@dataclass(frozen=True)
class Change:
    """One place that is rewritten; lines count from 1."""

    line: int
    before: str
    after: str


@dataclass(frozen=True)
class Note:
    """One place that stays as it is, or that needs a look, and why."""

    line: int
    text: str
    reason: str


@dataclass
class Rewritten:
    """A source after the rewrite, with what was done, what was not, and which of our names it now relies on."""

    code: bytes
    changes: list[Change] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    names: dict[str, int] = field(default_factory=dict)  # dotted name of ours -> first line that needs it


def rewrite(source: bytes) -> Rewritten:
    """Rewrite one module.

    Raises:
        libcst.ParserSyntaxError: it is no Python that this interpreter's libcst can parse.
    """
    wrapper = MetadataWrapper(cst.parse_module(source))
    rewriter = _Rewriter(Bindings(wrapper))
    code = wrapper.visit(rewriter).bytes
    order = sorted(set(rewriter.changes), key=lambda change: (change.line, change.before))
    notes = sorted(set(rewriter.notes), key=lambda note: (note.line, note.text))
    return Rewritten(code, order, notes, rewriter.names)


class _Rewriter(cst.CSTTransformer):
    METADATA_DEPENDENCIES = (ScopeProvider, PositionProvider)

    def __init__(self, bindings: Bindings) -> None:
        super().__init__()
        self.bindings = bindings
        self.changes: list[Change] = []
        self.notes: list[Note] = []
        self.names: dict[str, int] = {}
        self._annotations = 0
        self._path: list[cst.CSTNode] = []  # the nodes around the present one

    def on_visit(self, node: cst.CSTNode) -> bool:
        """Note the way down."""
        self._path.append(node)
        return super().on_visit(node)

    def on_leave(  # type: ignore[override]  # libcst's own signature is narrower than what it does
        self, original_node: cst.CSTNode, updated_node: cst.CSTNode
    ) -> cst.CSTNode | cst.RemovalSentinel | cst.FlattenSentinel[cst.CSTNode]:
        """Note the way up."""
        self._path.pop()
        return super().on_leave(original_node, updated_node)

    # -- imports

    def leave_ImportAlias(self, original_node: cst.ImportAlias, updated_node: cst.ImportAlias) -> cst.ImportAlias:
        if not isinstance(self._path[-1], cst.Import):
            return updated_node
        name = original_node.evaluated_name
        target = moved(name)
        if target is None:
            return updated_node
        root = name.split(".")[0]
        if original_node.asname is None and root not in _SIMPLE and not self.bindings.follows(root):
            self._note(
                original_node, f"import {name}", f"{root!r} is also used otherwise in this file; change it by hand"
            )
            return updated_node
        self._needs(original_node, target)
        if original_node.asname is None and not self.bindings.follows(root):
            target, alias = _SIMPLE[root], cst.AsName(cst.Name(root))
            self._change(original_node, f"import {name}", f"import {target} as {root}")
            return updated_node.with_changes(name=_dotted(target), asname=alias)
        self._change(original_node, f"import {name}", f"import {target}")
        return updated_node.with_changes(name=_dotted(target))

    def leave_ImportFrom(self, original_node: cst.ImportFrom, updated_node: cst.ImportFrom) -> cst.ImportFrom:
        module = source_module(original_node)
        target = module and moved(module)
        if not module or not target:
            return updated_node
        if isinstance(original_node.names, cst.ImportStar):
            self._needs(original_node, target)
            self._note(original_node, f"from {target} import *", "names that come through the star are not checked")
        else:
            for alias in original_node.names:
                self._needs(original_node, f"{target}.{alias.evaluated_name}")
        self._change(original_node, f"from {module} import", f"from {target} import")
        return updated_node.with_changes(module=_dotted(target))

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine | cst.FlattenSentinel[cst.SimpleStatementLine]:
        """`from captum import attr, influence`: only some of the names move, so that the statement is parted."""
        statement = original_node.body[0]
        if len(original_node.body) != 1 or not isinstance(statement, cst.ImportFrom):
            return updated_node
        module = source_module(statement)
        if not module or isinstance(statement.names, cst.ImportStar):
            return updated_node
        moving = [alias for alias in statement.names if f"{module}.{alias.evaluated_name}" in MODULES]
        if not moving:
            return updated_node
        lines = []
        staying = [alias for alias in statement.names if alias not in moving]
        if staying:
            lines.append(updated_node.with_changes(body=[statement.with_changes(names=_last_without_comma(staying))]))
        for alias in moving:
            target = MODULES[f"{module}.{alias.evaluated_name}"]
            package, _, name = target.rpartition(".")
            self._needs(statement, target)
            self._change(statement, f"from {module} import {name}", f"from {package} import {name}")
            parted = statement.with_changes(
                module=_dotted(package), names=_last_without_comma([alias]), lpar=None, rpar=None
            )
            blank = () if lines else updated_node.leading_lines
            lines.append(updated_node.with_changes(body=[parted], leading_lines=blank))
        return cst.FlattenSentinel(lines)

    # -- uses

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        target = _SIMPLE.get(original_node.value)
        if target is None or not self.bindings.follows(original_node.value) or not self._is_use(original_node):
            return updated_node
        if self._imported(original_node) != {original_node.value}:
            return updated_node
        self._change(original_node, original_node.value, target)
        return _dotted(target).with_changes(lpar=updated_node.lpar, rpar=updated_node.rpar)

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.BaseExpression:
        names = self._imported(original_node) if _starts_with(original_node, self.bindings.names) else set()
        if len(names) != 1:
            return updated_node
        name = next(iter(names))
        if not isinstance(self._path[-1], cst.Attribute):
            self._check_use(original_node, name)
        namespace = name.removeprefix("torch.ops.")
        if namespace in OPERATORS and name != namespace:
            self._change(original_node, name, f"torch.ops.{OPERATORS[namespace]}")
            return updated_node.with_changes(attr=cst.Name(OPERATORS[namespace]))
        written = get_full_name_for_node(original_node)
        if "." in name and name in MODULES and written == name:
            if not self.bindings.follows(name.split(".")[0]):
                self._note(original_node, name, "reached through an import that stays; import it from flambeau by hand")
                return updated_node
            self._change(original_node, name, MODULES[name])
            return _dotted(MODULES[name]).with_changes(lpar=updated_node.lpar, rpar=updated_node.rpar)
        return updated_node

    def _check_use(self, node: cst.Attribute, name: str) -> None:
        target = moved(name)
        if target is not None:
            self._needs(node, target)

    def _is_use(self, node: cst.Name) -> bool:
        parent = self._path[-1]
        if isinstance(parent, cst.Attribute):
            return parent.value is node
        if isinstance(parent, cst.Arg):
            return parent.value is node
        return not isinstance(
            parent, (cst.ImportAlias, cst.ImportFrom, cst.AsName, cst.NameItem, cst.MatchKeywordElement)
        )

    def _imported(self, node: cst.CSTNode) -> set[str]:
        """The dotted names an expression can stand for, if all of them come from imports; else nothing."""
        names = qualified(self.get_metadata(ScopeProvider, node, None), node)
        if any(name.source is not QualifiedNameSource.IMPORT for name in names):
            return set()
        return {name.name for name in names}

    # -- strings

    def visit_Annotation(self, node: cst.Annotation) -> None:
        self._annotations += 1

    def leave_Annotation(self, original_node: cst.Annotation, updated_node: cst.Annotation) -> cst.Annotation:
        self._annotations -= 1
        return updated_node

    def leave_SimpleString(self, original_node: cst.SimpleString, updated_node: cst.SimpleString) -> cst.SimpleString:
        text = original_node.value
        new = _OPS_PATH.sub(lambda match: f"torch.ops.{OPERATORS[match[1]]}.", text)
        new = _OPS_NAME.sub(lambda match: f"{match['quote']}{OPERATORS[match[2]]}::", new)
        if self._annotations:
            for root in filter(self.bindings.follows_in_quotes, _SIMPLE):
                new = re.sub(rf"(?<![\w.]){root}(?=\.\w)", _SIMPLE[root], new)
        if new != text:
            self._change(original_node, text, new)
            return updated_node.with_changes(value=new)
        self._report_path(original_node)
        return updated_node

    def _report_path(self, node: cst.SimpleString) -> None:
        value = node.evaluated_value
        if not isinstance(value, str) or not re.fullmatch(r"\w+(\.\w+)*", value):
            return
        target = moved(value)
        if target is not None and ("." in value or self._goes_to_importer(node)):
            self._note(node, node.value, f"a string with an upstream path is not changed; it may have to be {target!r}")

    def _goes_to_importer(self, node: cst.SimpleString) -> bool:
        call = self._path[-2] if len(self._path) > 1 else None
        return isinstance(call, cst.Call) and bool(_IMPORTERS.search(get_full_name_for_node(call.func) or ""))

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        name = get_full_name_for_node(original_node.func) or ""
        if name.endswith(("import_module", "__import__")) and original_node.args:
            argument = original_node.args[0].value
            if not isinstance(argument, cst.SimpleString):
                self._note(original_node, name, "imports a module by a computed name; not looked into")
        return updated_node

    # -- the record

    def _line(self, node: cst.CSTNode) -> int:
        return int(self.get_metadata(PositionProvider, node).start.line)

    def _change(self, node: cst.CSTNode, before: str, after: str) -> None:
        self.changes.append(Change(self._line(node), before, after))

    def _note(self, node: cst.CSTNode, text: str, reason: str) -> None:
        self.notes.append(Note(self._line(node), text, reason))

    def _needs(self, node: cst.CSTNode, name: str) -> None:
        self.names.setdefault(name, self._line(node))


def _dotted(name: str) -> cst.Name | cst.Attribute:
    first, *rest = name.split(".")
    node: cst.Name | cst.Attribute = cst.Name(first)
    for part in rest:
        node = cst.Attribute(node, cst.Name(part))
    return node


def _last_without_comma(aliases: list[cst.ImportAlias]) -> list[cst.ImportAlias]:
    return [*aliases[:-1], aliases[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)]


def _starts_with(node: cst.Attribute, names: set[str]) -> bool:
    """Whether an attribute chain starts with one of the names."""
    value: cst.BaseExpression = node
    while isinstance(value, cst.Attribute):
        value = value.value
    return isinstance(value, cst.Name) and value.value in names

"""What a file binds by importing upstream libraries, and whether the uses of a binding can follow a new name."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
from libcst.helpers import get_full_name_for_node
from libcst.metadata import (
    Assignment,
    BaseAssignment,
    GlobalScope,
    ImportAssignment,
    MetadataWrapper,
    QualifiedName,
    QualifiedNameSource,
    Scope,
    ScopeProvider,
)

from flambeau.core.cli.migrate.relevant import ROOTS
from flambeau.core.cli.migrate.table import MODULES, moved

_PARTIAL = {name.split(".")[0] for name in MODULES if "." in name}


class Bindings:
    """Which upstream names a file binds by plain `import x.y`, and whether their uses can follow a new name."""

    def __init__(self, wrapper: MetadataWrapper) -> None:
        scopes = {scope for scope in wrapper.resolve(ScopeProvider).values() if scope is not None}
        finder = _Keepers()
        wrapper.module.visit(finder)
        plain = {(scope, root) for scope in scopes for root in ROOTS if _imports(scope, root)}
        kept = {root for root in ROOTS if root in finder.names}
        kept |= {root for scope, root in plain if _rebound(scope, root)}
        if any(_taken(scope) for scope in scopes):
            kept |= set(ROOTS)
        local = {root for scope, root in plain if not isinstance(scope, GlobalScope)}
        if len({root for _, root in plain}) > 1:
            # A local `import flambeau.x` would make `flambeau` local, and hide the module's from lines before it.
            kept |= local
        # `captum.influence` moves out of a package that stays: only where nothing else needs the name `captum`.
        partial = {root for root in _PARTIAL if any(found == root for _, found in plain)}
        if partial:
            uses = _PartialUses()
            wrapper.visit(uses)
            kept |= {root for root in partial if root in local | uses.others or not _all_move(scopes, root)}
        self.kept = kept
        self.imported = {root for _, root in plain}
        self.names = {name for scope in scopes for a in scope.assignments for name in _names_of_interest(a)}

    def follows_in_quotes(self, root: str) -> bool:
        """Whether a quoted annotation's `root` means such an import."""
        return root in self.imported and root not in self.kept

    def follows(self, root: str) -> bool:
        """Whether uses of `root` are rewritten; otherwise its import gets `as root`."""
        return root not in self.kept


class _Keepers(cst.CSTVisitor):
    """Names that a statement mentions as such, so that they cannot become dotted ones."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def visit_NameItem(self, node: cst.NameItem) -> None:  # global, nonlocal
        self.names.add(node.name.value)

    def visit_Del(self, node: cst.Del) -> None:
        targets = [e.value for e in node.target.elements] if isinstance(node.target, cst.Tuple) else [node.target]
        self.names |= {target.value for target in targets if isinstance(target, cst.Name)}

    def visit_Assign(self, node: cst.Assign) -> None:
        if any(get_full_name_for_node(target.target) == "__all__" for target in node.targets):
            self.names |= set(_strings(node.value))


class _PartialUses(cst.CSTVisitor):
    """Packages of which a part moves, and of which another part, or the whole, is used."""

    METADATA_DEPENDENCIES = (ScopeProvider,)

    def __init__(self) -> None:
        super().__init__()
        self.others: set[str] = set()

    def visit_Import(self, node: cst.Import) -> bool:
        return False

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:
        return False

    def visit_Attribute(self, node: cst.Attribute) -> bool:
        if get_full_name_for_node(node) in MODULES:
            return False
        node.value.visit(self)
        return False  # the attribute's own name is no use of a variable

    def visit_Name(self, node: cst.Name) -> None:
        if node.value in _PARTIAL:
            names = qualified(self.get_metadata(ScopeProvider, node, None), node)
            if any(name.source is QualifiedNameSource.IMPORT for name in names):
                self.others.add(node.value)


def qualified(scope: Scope | None, node: cst.CSTNode) -> set[QualifiedName]:
    """The dotted names that an expression can stand for, by what is bound in its scope."""
    return set(scope.get_qualified_names_for(node)) if scope is not None else set()


def _strings(node: cst.CSTNode) -> Iterator[str]:
    if isinstance(node, cst.SimpleString) and isinstance(value := node.evaluated_value, str):
        yield value
    for child in node.children:
        yield from _strings(child)


def _names_of_interest(assignment: BaseAssignment) -> Iterator[str]:
    """What an import binds, if attributes of it may have to be rewritten or checked."""
    if isinstance(assignment, ImportAssignment):
        name = assignment.name.split(".")[0]
        statement = assignment.node
        sources = []
        if isinstance(statement, cst.ImportFrom):
            sources = [source_module(statement) or ""]
        elif isinstance(statement, cst.Import):
            sources = [alias.evaluated_name for alias in statement.names]
        if any(source.split(".")[0] in {*ROOTS, "torch"} for source in sources):
            yield name


def _plain_import(assignment: object, root: str) -> bool:
    """Whether an assignment is `import root` or `import root.x`, without `as`."""
    if not isinstance(assignment, ImportAssignment) or not isinstance(assignment.node, cst.Import):
        return False
    return any(a.asname is None and a.evaluated_name.split(".")[0] == root for a in assignment.node.names)


def _all_move(scopes: set[Scope], root: str) -> bool:
    """Whether every `import root...` without `as` is of something that moves."""
    statements = [a.node for scope in scopes for a in scope.assignments[root] if isinstance(a, ImportAssignment)]
    aliases = [alias for s in statements if isinstance(s, cst.Import) for alias in s.names if alias.asname is None]
    return all(moved(a.evaluated_name) is not None for a in aliases if a.evaluated_name.split(".")[0] == root)


def _imports(scope: Scope, root: str) -> bool:
    return any(a.scope is scope and _plain_import(a, root) for a in scope.assignments[root])


def _rebound(scope: Scope, root: str) -> bool:
    own = [a for a in scope.assignments[root] if isinstance(a, Assignment) and a.scope is scope]
    return any(not _plain_import(a, root) for a in own)


def _taken(scope: Scope) -> bool:
    """Whether `flambeau` names anything but our package in a scope."""
    own = [a for a in scope.assignments["flambeau"] if isinstance(a, Assignment) and a.scope is scope]
    return any(not _plain_import(a, "flambeau") for a in own)


def source_module(node: cst.ImportFrom) -> str | None:
    """The absolute module an import takes from; None for relative ones."""
    return get_full_name_for_node(node.module) if node.module is not None and not node.relative else None

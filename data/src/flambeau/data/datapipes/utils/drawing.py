"""A pipeline as a picture."""

from __future__ import annotations

from typing import Any

from flambeau.data.datapipes._graph import sources, upstream


def to_graph(dp: Any, *, debug: bool = False) -> Any:
    """The pipes of a pipeline as a `graphviz.Digraph`, samples running along the arrows.

    Args:
        dp: the last pipe.
        debug: show also the inner pipes that `fork`, `demux` and the like work with.

    Raises:
        ModuleNotFoundError: the package graphviz is not installed.
    """
    try:
        import graphviz
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "to_graph draws with graphviz; install it: pip install 'flambeau-data[graph]'"
        ) from error
    drawing = graphviz.Digraph(node_attr={"shape": "box", "fontsize": "10"}, graph_attr={"rankdir": "LR"})
    pipes = [pipe for pipe in upstream(dp) if debug or not _inner(pipe)]
    for pipe in pipes:
        drawing.node(str(id(pipe)), label=type(pipe).__name__.removesuffix("IterDataPipe").removesuffix("MapDataPipe"))
        for source in _visible_sources(pipe, debug):
            drawing.edge(str(id(source)), str(id(pipe)))
    return drawing


def _inner(pipe: Any) -> bool:
    return type(pipe).__name__.startswith("_")


def _visible_sources(pipe: Any, debug: bool) -> list[Any]:
    found = []
    for source in sources(pipe):
        found += [source] if debug or not _inner(source) else _visible_sources(source, debug)
    return found

"""Pictures of trees, by plotly."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from flambeau.core.errors import FlambeauError


class MissingPlotly(FlambeauError, ModuleNotFoundError):
    """Trees are drawn by plotly, which is not installed."""


def plotted(
    tree: Any, backend: str, figure: str, info: list[str] | None, make_labels: Callable[..., Any] | None
) -> Any:
    """A figure of a tree, see `Tree.plot`."""
    if backend != "plotly" or figure not in ("tree", "box"):
        raise ValueError(f"there is no figure {figure!r} by {backend!r}; there are 'tree' and 'box' by 'plotly'.")
    try:
        drawing: Any = import_module("plotly.graph_objects")
    except ModuleNotFoundError as error:
        raise MissingPlotly("trees are drawn by plotly, which is not installed. Run: pip install plotly") from error
    nodes = tree.vertices(key_type="path")
    if make_labels is None:
        shown = ["visits", "hash"] if info is None else info

        def make_labels(node: Any, path: Any) -> str:
            return f"{path}<br>" + "<br>".join(f"{name}: {getattr(node, name)}" for name in shown)

    labels = {path: str(make_labels(node, path)) for path, node in nodes.items()}
    return (_tree if figure == "tree" else _boxes)(drawing, nodes, labels)


def _tree(drawing: Any, nodes: dict[Any, Any], labels: dict[Any, str]) -> Any:
    """Leaves side by side, every node over the middle of its children, the root at the top."""
    leaves = sorted(path for path in nodes if not nodes[path].num_children)
    across = {path: float(at) for at, path in enumerate(leaves)}
    for path in sorted(nodes, key=len, reverse=True):
        children = [across[(*path, at)] for at in range(nodes[path].num_children)]
        if children:
            across[path] = sum(children) / len(children)
    x: list[Any] = []
    y: list[Any] = []
    for path in nodes:
        if path:
            x += [across[path[:-1]], across[path], None]
            y += [1 - len(path), -len(path), None]
    lines = drawing.Scatter(x=x, y=y, mode="lines", hoverinfo="none")
    points = drawing.Scatter(
        x=[across[path] for path in nodes],
        y=[-len(path) for path in nodes],
        mode="markers+text",
        text=[str(node.node_id) for node in nodes.values()],
        textposition="top center",
        hovertext=[labels[path] for path in nodes],
        hoverinfo="text",
        marker={"size": 12},
    )
    bare = {"showgrid": False, "zeroline": False, "showticklabels": False}
    return drawing.Figure([lines, points], drawing.Layout(showlegend=False, xaxis=bare, yaxis=bare))


def _boxes(drawing: Any, nodes: dict[Any, Any], labels: dict[Any, str]) -> Any:
    """Each node's box in that of its parent."""
    return drawing.Figure(
        drawing.Treemap(
            ids=[str(path) for path in nodes],
            parents=["" if not path else str(path[:-1]) for path in nodes],
            labels=[labels[path] for path in nodes],
        )
    )

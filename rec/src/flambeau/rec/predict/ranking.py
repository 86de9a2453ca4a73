"""The items that each user may turn to next, best first."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flambeau.core.errors import PredictError
from flambeau.core.predict import Prediction, PredictOptions
from flambeau.rec.predict.interactions_file import InteractionTable, read_interactions

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from flambeau.core.weights import WeightsEnum
    from flambeau.rec.models.interaction_features import Candidates, Interactions

__all__ = ["rank_items"]

_MOST_ITEMS = 4000


def rank_items(
    source: str,
    *,
    model: nn.Module,
    weights: WeightsEnum,
    device: torch.device,
    dtype: torch.dtype,
    options: PredictOptions,
) -> Prediction:
    """Rank what each user has not had to do with; see `flambeau.core.predict.Predictor`.

    Args:
        source: path of a table with columns of users and items, and maybe of times and values; see
            `read_interactions`. Of more than 4,000 items the most frequent ones are ranked.
        model: dense features (B, 11) and ids to logits (B, 1).
        weights: its preprocessing makes the features.
        device: where the model is.
        dtype: of dense features.
        options: `top` is the number of items for each user.

    Returns:
        Rows of `user`, `rank` from 1, `item`, `score` in [0, 1], and `because`: the item of the user's history that
        speaks for it most, empty for none. Users come as in the file; those who know all items have no row. The
        picture has the items of the first 12 users; `.svg` needs nothing, other formats need Pillow.

    Raises:
        PredictError: the file is no such table.
    """
    table = read_interactions(source)
    skipped = len(set(table.items)) - _MOST_ITEMS
    table = table.of_items(_MOST_ITEMS) if skipped > 0 else table
    users, items = list(dict.fromkeys(table.users)), list(dict.fromkeys(table.items))
    features: Any = weights.transforms()
    rows: list[dict[str, Any]] = []
    for part in features.parts(_numbered(table, users, items, device)):
        scores = model(part.dense.to(dtype), part.sparse).float().sigmoid().squeeze(1)
        rows += _best(part, scores, users, items, options.top)
    if not rows:
        raise PredictError(f"{source}: every user has had to do with every item; there is nothing left to rank.")
    left_out = f", {skipped} rare items left out" if skipped > 0 else ""
    title = f"{len(users)} users, {len(items)} items{left_out}, ranked by {weights!r}"
    columns = ("user", "rank", "item", "score", "because")
    return Prediction(rows, columns, title, draw=functools.partial(_draw, title, rows))


def _numbered(table: InteractionTable, users: list[str], items: list[str], device: torch.device) -> Interactions:
    import torch

    from flambeau.rec.models.interaction_features import Interactions

    def numbers(names: list[str], known: list[str]) -> Tensor:
        place = {name: at for at, name in enumerate(known)}
        return torch.tensor([place[name] for name in names], device=device)

    return Interactions(
        numbers(table.users, users),
        numbers(table.items, items),
        None if table.times is None else torch.tensor(table.times, dtype=torch.float64, device=device),
        None if table.values is None else torch.tensor(table.values, device=device),
    )


def _best(part: Candidates, scores: Tensor, users: list[str], items: list[str], top: int) -> list[dict[str, Any]]:
    """The first rows of each user, by score; of equal scores by the items' order."""
    order = scores.argsort(descending=True, stable=True)
    order = order[part.users[order].argsort(stable=True)]
    rows, rank, before = [], 0, -1
    chosen = zip(*(values[order].tolist() for values in (part.users, part.items, scores, part.because)), strict=True)
    for user, item, score, because in chosen:
        rank, before = (1 if user != before else rank + 1), user
        if rank <= top:
            reason = items[because] if because >= 0 else ""
            rows.append({"user": users[user], "rank": rank, "item": items[item], "score": score, "because": reason})
    return rows


def _draw(title: str, rows: list[dict[str, Any]], path: Path) -> None:
    from flambeau.rec.predict.picture import draw_rankings

    draw_rankings(title, [(row["user"], row["item"], row["score"]) for row in rows], path)

"""Collections of interactions made of latent tastes, or of sessions: structured, and of nobody."""

from __future__ import annotations

import torch
from torch import Tensor

from flambeau.rec.models.interaction_features import Interactions

__all__ = ["sessions", "tastes"]


def _between(draw: torch.Generator, low: float, high: float) -> float:
    return low + (high - low) * float(torch.rand((), generator=draw))


def _numbered(users: Tensor, items: Tensor, values: Tensor | None) -> Interactions:
    """Ids without gaps, as a file's are numbered."""
    return Interactions(users.unique(return_inverse=True)[1], items.unique(return_inverse=True)[1], None, values)


def tastes(seed: int) -> Interactions:
    """Users who choose by popularity and by taste.

    Items have a place in a space of tastes, around some centres; so have users, who may have two tastes, and who drift.
    The n-th popular item is chosen in proportion to n^-a, times exp(b * fit).

    Args:
        seed: of the numbers of users (150 to 700), items (120 to 600), interactions of a user (about 8 to 50), of a
            and b, and of everything else.

    Returns:
        Interactions in the order of time; half of the collections have values from 1 to 5.
    """
    draw = torch.Generator().manual_seed(seed)
    num_users, num_items = int(_between(draw, 150, 700)), int(_between(draw, 120, 600))
    dim, centres = int(_between(draw, 4, 12)), int(_between(draw, 4, 16))
    skew, pull = _between(draw, 0.3, 1.1), _between(draw, 2.0, 8.0)
    places = torch.randn(centres, dim, generator=draw)
    item_centre = torch.randint(centres, (num_items,), generator=draw)
    items = places[item_centre] + 0.5 * torch.randn(num_items, dim, generator=draw)
    items = torch.nn.functional.normalize(items, dim=1)
    popularity = (1 + torch.randperm(num_items, generator=draw)).float().log() * -skew
    tastes_of = places[torch.randint(centres, (num_users, 2), generator=draw)]
    tastes_of = torch.nn.functional.normalize(tastes_of + 0.4 * torch.randn(num_users, 2, dim, generator=draw), dim=2)
    counts = (_between(draw, 8, 25) * torch.randn(num_users, generator=draw).mul(0.6).exp()).long()
    counts = counts.clamp(3, num_items // 5)
    fits = torch.einsum("utd,id->uti", tastes_of, items)
    # The second taste takes over with time; a user has each item once, by the Gumbel trick.
    shift = torch.linspace(0, 1, int(counts.max()))
    taken = torch.zeros(num_users, num_items, dtype=torch.bool)
    users_made, items_made, moments, values = [], [], [], []
    for step, share in enumerate(shift.tolist()):
        active = (counts > step).nonzero().flatten()
        fit = (1 - share) * fits[active, 0] + share * fits[active, 1]
        noise = -torch.rand(fit.shape, generator=draw).clamp(min=1e-9).log()
        score = (popularity + pull * fit - noise.log()).masked_fill(taken[active], -torch.inf)
        chosen = score.argmax(1)
        taken[active, chosen] = True
        users_made.append(active)
        items_made.append(chosen)
        moments.append(step + torch.rand(len(active), generator=draw))
        liking = 3 + 2 * fit.gather(1, chosen[:, None]).squeeze(1) + 0.5 * torch.randn(len(active), generator=draw)
        values.append(liking.round().clamp(1, 5))
    order = torch.cat(moments).argsort()
    rated = torch.cat(values)[order] if seed % 2 else None
    return _numbered(torch.cat(users_made)[order], torch.cat(items_made)[order], rated)


def sessions(seed: int) -> Interactions:
    """Users who go from an item to one of those that it leads to, and start anew now and then.

    Args:
        seed: of everything.

    Returns:
        Interactions in the order of time, without values.
    """
    draw = torch.Generator().manual_seed(seed)
    num_users, num_items = int(_between(draw, 150, 600)), int(_between(draw, 100, 400))
    leads = torch.randint(num_items, (num_items, 6), generator=draw)
    popular = (1 + torch.arange(num_items)).float() ** -_between(draw, 0.3, 0.9)
    lengths = torch.randint(6, 40, (num_users,), generator=draw)
    at = torch.multinomial(popular, num_users, replacement=True, generator=draw)
    users_made, items_made = [], []
    for step in range(int(lengths.max())):
        active = (lengths > step).nonzero().flatten()
        users_made.append(active)
        items_made.append(at[active])
        follow = leads[at, torch.randint(6, (num_users,), generator=draw)]
        anew = torch.multinomial(popular, num_users, replacement=True, generator=draw)
        at = torch.where(torch.rand(num_users, generator=draw) < 0.25, anew, follow)
    return _numbered(torch.cat(users_made), torch.cat(items_made), None)

"""What interactions of users with items say about pairs of them, in numbers that mean the same in every collection.

No feature is an id: a model that is trained on them ranks items and users that it has never seen.

Letters: U users, I items, b users at a time, c items for each, H past interactions that are looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from flambeau.rec.errors import OptionError
from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor

__all__ = ["DENSE", "SPARSE", "Candidates", "InteractionFeatures", "InteractionStatistics", "Interactions"]

DENSE = (
    "popularity",
    "popularity against the mean",
    "activity",
    "items",
    "similarity to the history",
    "largest similarity",
    "similarity to recent items",
    "similarity to liked items",
    "mean value",
    "trend",
    "following the last items",
)
SPARSE = {"history": 72, "popularity": 20, "activity": 10, "rank": 14}
"""Sparse features and their numbers of ids."""

_HISTORY = 30  # H
_SIMILARITIES, _AGES = 12, 6
_LAST = 3  # items whose followers are looked at
_SHRINKAGE = 3.0  # interactions in common that make a similarity half of what it would be
_RECENT = 0.2  # of all interactions
_AT_ONCE = 1 << 23  # similarities held at a time: 32 MiB
_MOST_ITEMS = 4000


@dataclass(frozen=True)
class Interactions:
    """Who had to do with what.

    Attributes:
        users: (n,) int64, 0 to U - 1.
        items: (n,) int64, 0 to I - 1.
        times: (n,) float64, later is more; None: they are in order.
        values: (n,) float32, such as ratings; None: all count alike.
    """

    users: Tensor
    items: Tensor
    times: Tensor | None = None
    values: Tensor | None = None

    def __post_init__(self) -> None:
        for name in ("items", "times", "values"):
            part = getattr(self, name)
            if part is not None and part.shape != self.users.shape:
                raise OptionError(f"{name} has shape {tuple(part.shape)}, expected that of users.")
        if self.users.dim() != 1 or not len(self.users):
            raise OptionError(f"users has shape {tuple(self.users.shape)}, expected (n,) with n of at least 1.")


@dataclass(frozen=True)
class Candidates:
    """Pairs of users and items with their features; b pairs are in the order of users.

    Attributes:
        users: (b,) int64.
        items: (b,) int64.
        dense: (b, 11) float32, see `DENSE`.
        sparse: ids of the features `SPARSE`.
        because: (b,) int64: the item of the user's history that speaks for the item most; -1 for none.
    """

    users: Tensor
    items: Tensor
    dense: Tensor
    sparse: KeyedJaggedTensor
    because: Tensor


class InteractionStatistics:
    """What is counted once, and what follows from it for users and items.

    Of each pair of user and item the last interaction counts; items are similar as the users are the same (cosine with
    shrinkage; Sarwar et al. 2001, Item-based Collaborative Filtering).

    Args:
        interactions: with at most 4,000 items, for two matrices of I x I are held.

    Raises:
        OptionError: more items.
    """

    def __init__(self, interactions: Interactions) -> None:
        self.num_users = int(interactions.users.max()) + 1
        self.num_items = int(interactions.items.max()) + 1
        if self.num_items > _MOST_ITEMS:
            raise OptionError(
                f"there are {self.num_items} items, expected at most {_MOST_ITEMS}; keep the most frequent ones."
            )
        users, items, values, recent = _last_of_each_pair(interactions, self.num_items)
        device = users.device
        ones = torch.ones(len(users), device=device)
        self.popularity = torch.zeros(self.num_items, device=device).index_add_(0, items, ones)
        self.activity = torch.zeros(self.num_users, device=device).index_add_(0, users, ones)
        self._similarity = self._similarities(users, items)
        self._following = self._followers(users, items)
        liked = _standardized(values, users, self.num_users)
        self._mean_value = torch.zeros(self.num_items, device=device).index_add_(0, items, liked)
        self._mean_value /= self.popularity + _SHRINKAGE
        late = torch.zeros(self.num_items, device=device).index_add_(0, items, recent.float())
        self._trend = ((late + 1) / (self.popularity * recent.float().mean() + 1)).log()
        # Pairs come in the order of users, and of times for each: the place from the end is the age.
        ends = self.activity.long().cumsum(0)
        age = ends[users] - 1 - torch.arange(len(users), device=device)
        held = age < _HISTORY
        self._history = torch.full((self.num_users, _HISTORY), -1, device=device)
        self._history[users[held], age[held]] = items[held]
        self._liked = torch.zeros(self.num_users, _HISTORY, device=device)
        self._liked[users[held], age[held]] = liked[held]
        self._pairs = (users, items)

    def _similarities(self, users: Tensor, items: Tensor) -> Tensor:
        # Each pair of items of a user once; pairs are in the order of users.
        together = torch.zeros(self.num_items**2, device=users.device)
        counts = self.activity.long()
        squares = (counts * counts).cumsum(0)
        for block in range(0, int(squares[-1]), _AT_ONCE):
            some = ((squares > block) & (squares <= block + _AT_ONCE))[users]
            held, each = items[some], counts[users[some]]
            first = torch.arange(len(held), device=users.device).repeat_interleave(each)
            # The other items of the user lie from where its own begin.
            begins = self._begins(users[some])
            step = torch.arange(len(first), device=users.device) - (each.cumsum(0) - each).repeat_interleave(each)
            pair = held[first] * self.num_items + held[begins[first] + step]
            together.index_add_(0, pair, torch.ones(len(pair), device=users.device))
        together = together.view(self.num_items, self.num_items)
        norm = self.popularity.sqrt()
        similarity: Tensor = together / (norm.outer(norm) + _SHRINKAGE)
        similarity.fill_diagonal_(0.0)
        return similarity

    @staticmethod
    def _begins(users: Tensor) -> Tensor:
        """Of each entry, where its user's entries begin; those of a user lie together."""
        counts: Tensor = users.unique_consecutive(return_counts=True)[1]
        return (counts.cumsum(0) - counts).repeat_interleave(counts)

    def _followers(self, users: Tensor, items: Tensor) -> Tensor:
        """(I, I): how often the second item comes next after the first, as similarities are measured."""
        same = users[1:] == users[:-1]
        steps = items[:-1][same] * self.num_items + items[1:][same]
        counts = torch.bincount(steps, minlength=self.num_items**2).view(self.num_items, self.num_items)
        norm = self.popularity.sqrt()
        following: Tensor = counts / (norm.outer(norm) + 1)
        return following

    def unseen(self, users: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Users, some at a time, with which items each of them has not seen: (b,), and (b, I) bool."""
        step = max(1, _AT_ONCE // (_HISTORY * self.num_items))
        for some in users.split(step):
            place = torch.full((self.num_users,), -1, device=users.device)
            place[some] = torch.arange(len(some), device=users.device)
            pair_users, pair_items = self._pairs
            mine = place[pair_users] >= 0
            new = torch.ones(len(some), self.num_items, dtype=torch.bool, device=users.device)
            new[place[pair_users[mine]], pair_items[mine]] = False
            yield some, new

    def candidates(self, users: Tensor, new: Tensor, chosen: Tensor | None = None) -> Candidates:
        """The features of some items for each of some users.

        Args:
            users: (b,) int64, all different.
            new: (b, I) bool: the items among which an item has its rank.
            chosen: (b, I) bool: those to give; None for all new ones.

        Returns:
            The pairs.
        """
        chosen = new if chosen is None else chosen
        history = self._history[users]
        real = history >= 0
        similar = self._similarity[history.clamp(min=0)] * real.unsqueeze(2)
        count = real.sum(1).clamp(min=1)
        affinity = similar.sum(1) / count.sqrt().unsqueeze(1)
        order = affinity.masked_fill(~new, -1.0).argsort(dim=1, descending=True, stable=True)
        places = torch.arange(self.num_items, device=users.device).expand_as(order)
        rank = torch.empty_like(order).scatter_(1, order, places)
        at, items = chosen.nonzero(as_tuple=True)
        pairs = similar.transpose(1, 2)[at, items]  # (pairs, H)
        last = history[:, :_LAST]
        follows = self._following[last.clamp(min=0)] * (last >= 0).unsqueeze(2)
        follows = (follows * 0.6 ** torch.arange(_LAST, device=users.device).view(1, -1, 1)).sum(1)
        recency = 0.8 ** torch.arange(_HISTORY, device=users.device)
        popular = self.popularity[items]
        dense = torch.stack(
            [
                popular.log1p() / 4,
                (popular / self.popularity.mean()).clamp(min=1e-3).log() / 2,
                self.activity[users][at].log1p() / 4,
                torch.full_like(popular, self.num_items).log1p() / 8,
                affinity[at, items],
                pairs.amax(1) * 2,
                (pairs * recency).sum(1),
                (pairs * self._liked[users][at]).sum(1) / count[at].sqrt(),
                self._mean_value[items],
                self._trend[items],
                follows[at, items] * 2,
            ],
            1,
        )
        strongest = (pairs * (recency + 0.2)).max(1)
        because = history[at, strongest.indices].where(strongest.values > 0, -1)
        sparse = self._ids(pairs, real[at], items, users[at], rank[at, items])
        return Candidates(users[at], items, dense, sparse, because)

    def _ids(self, pairs: Tensor, real: Tensor, items: Tensor, users: Tensor, rank: Tensor) -> KeyedJaggedTensor:
        level = (pairs.clamp(min=1e-9).log2() + _SIMILARITIES).floor().clamp(0, _SIMILARITIES - 1).long()
        age = (torch.arange(_HISTORY, device=pairs.device) + 1).log2().ceil().clamp(max=_AGES - 1).long()
        below = torch.searchsorted(self.popularity.sort().values, self.popularity[items])
        popularity = below * SPARSE["popularity"] // self.num_items
        activity = self.activity[users].log2().long().clamp(0, SPARSE["activity"] - 1)
        place = (rank + 1).log2().long().clamp(max=SPARSE["rank"] - 1)
        one = torch.ones(len(items), dtype=torch.int64, device=items.device)
        return KeyedJaggedTensor(
            list(SPARSE),
            torch.cat([(level * _AGES + age)[real], popularity, activity, place]),
            lengths=torch.cat([real.sum(1), one, one, one]),
        )


class InteractionFeatures:
    """Interactions as a model takes them: the features of all items that users have not had to do with.

    Shape:
        `Interactions` -> `Candidates` of all users.
    """

    def __call__(self, interactions: Interactions) -> Candidates:
        """The candidates of all users; `parts` gives them some at a time."""
        parts = list(self.parts(interactions))
        return Candidates(
            users=torch.cat([part.users for part in parts]),
            items=torch.cat([part.items for part in parts]),
            dense=torch.cat([part.dense for part in parts]),
            sparse=_joined([part.sparse for part in parts]),
            because=torch.cat([part.because for part in parts]),
        )

    def parts(self, interactions: Interactions, users: Tensor | None = None) -> Iterator[Candidates]:
        """The candidates of some users at a time.

        Args:
            interactions: of all users.
            users: whose candidates; None for all users'.
        """
        statistics = InteractionStatistics(interactions)
        asked = torch.arange(statistics.num_users, device=interactions.users.device) if users is None else users
        for some, new in statistics.unseen(asked):
            yield statistics.candidates(some, new)


def _last_of_each_pair(interactions: Interactions, num_items: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Users, items, values, and which are recent, by user and time; of each user and item the last one."""
    users, items, times, values = interactions.users, interactions.items, interactions.times, interactions.values
    count = len(users)
    order = torch.arange(count, device=users.device) if times is None else times.argsort(stable=True)
    place = torch.empty_like(order)
    place[order] = torch.arange(count, device=users.device)
    pair = users * num_items + items
    distinct, inverse = pair.unique(return_inverse=True)
    last = torch.full_like(distinct, -1).scatter_reduce_(0, inverse, place, "amax")
    chosen = order[last]
    chosen = chosen[(users[chosen] * count + place[chosen]).argsort()]
    held = torch.ones(count, device=users.device) if values is None else values.float()
    return users[chosen], items[chosen], held[chosen], place[chosen] >= count * (1 - _RECENT)


def _standardized(values: Tensor, users: Tensor, num_users: int) -> Tensor:
    """Values against the mean of the user's, in standard deviations of all; 0 where all are alike."""
    count = torch.bincount(users, minlength=num_users).clamp(min=1)
    mean = torch.zeros(num_users, device=values.device).index_add_(0, users, values) / count
    apart = values - mean[users]
    return apart / apart.square().mean().sqrt().clamp(min=1e-6)


def _joined(parts: list[KeyedJaggedTensor]) -> KeyedJaggedTensor:
    """Batches one after the other."""
    keys = parts[0].keys()
    taken = [part.to_dict() for part in parts]
    return KeyedJaggedTensor(
        keys,
        torch.cat([part[key].values() for key in keys for part in taken]),
        lengths=torch.cat([part[key].lengths() for key in keys for part in taken]),
    )

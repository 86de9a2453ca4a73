"""A vocabulary: tokens and their indices."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

from torch import nn

from flambeau.text._exporting import NotScripted

__all__ = ["Vocab"]


class Vocab(NotScripted, nn.Module):
    """Tokens in order, each with its index, and an index for those that are unknown.

    Args:
        vocab: the tokens by index, all different; or another vocabulary, which is copied.

    Raises:
        TypeError: a token is no str.
        RuntimeError: a token occurs twice.

    Example:
        >>> v = Vocab(["<unk>", "the", "river"])
        >>> v.set_default_index(0)
        >>> v(["the", "mill"])
        [1, 0]
    """

    def __init__(self, vocab: Vocab | Iterable[str]) -> None:
        super().__init__()
        if isinstance(vocab, str):
            raise TypeError(f"Vocab takes its tokens as a list of str, got the str {vocab!r}.")
        default = vocab.get_default_index() if isinstance(vocab, Vocab) else None
        self._itos = vocab.get_itos() if isinstance(vocab, Vocab) else list(vocab)
        self._stoi = _indices(self._itos, default)

    def forward(self, tokens: list[str]) -> list[int]:
        """Indices of tokens, as `lookup_indices`."""
        return self.lookup_indices(tokens)

    def __len__(self) -> int:
        return len(self._itos)

    def __contains__(self, token: object) -> bool:
        """Whether there is this token.

        Raises:
            TypeError: it is no str; upstream's answer too.
        """
        if not isinstance(token, str):
            raise TypeError(f"{token!r} is no token: a vocabulary holds str, not {type(token).__name__}.")
        return token in self._stoi

    @property
    def vocab(self) -> Self:
        """The vocabulary itself; upstream's holds another one, which some programs reach through."""
        return self

    def __getitem__(self, token: str) -> int:
        """The index of a token, the default index of one that is unknown.

        Raises:
            TypeError: it is no str.
            RuntimeError: it is unknown and there is no default index.
        """
        return self._stoi[token]

    def set_default_index(self, index: int | None) -> None:
        """Give unknown tokens an index, or, with None, make them errors again. The index is not checked.

        Raises:
            TypeError: it is neither an int nor None.
        """
        if index is not None and not _is_index(index):
            raise TypeError(f"The default index is {index!r}; expected an int, or None.")
        self._stoi.default = index

    def get_default_index(self) -> int | None:
        """The index of unknown tokens, None if they are errors."""
        return self._stoi.default

    def insert_token(self, token: str, index: int) -> None:
        """Put a new token at an index; the tokens from there on move up by one. The default index stays as it is.

        Raises:
            TypeError: the token is no str, or the index no int.
            RuntimeError: the token is known, or the index not one from 0 to the vocabulary's length.
        """
        _check_token(token)
        if not _is_index(index):
            raise TypeError(f"The index is {index!r}; expected an int.")
        if not 0 <= index <= len(self._itos):
            raise RuntimeError(f"Token {token!r} cannot be inserted at {index}; expected 0 to {len(self._itos)}.")
        self._refuse_known(token)
        following = self._itos[index:]
        self._itos.insert(index, token)
        self._stoi[token] = index
        self._stoi.update(zip(following, range(index + 1, len(self._itos)), strict=True))

    def append_token(self, token: str) -> None:
        """Add a new token at the end.

        Raises:
            TypeError: it is no str.
            RuntimeError: it is known.
        """
        _check_token(token)
        self._refuse_known(token)
        self._stoi[token] = len(self._itos)
        self._itos.append(token)

    def lookup_token(self, index: int) -> str:
        """The token of an index.

        Raises:
            TypeError: the index is no int.
            RuntimeError: no token has it.
        """
        if not _is_index(index):
            raise TypeError(f"The index is {index!r}; expected an int.")
        if not 0 <= index < len(self._itos):
            raise RuntimeError(
                f"No token has the index {index}; the vocabulary has {len(self._itos)} tokens, from 0 on."
            )
        return self._itos[index]

    def lookup_tokens(self, indices: list[int]) -> list[str]:
        """The tokens of indices.

        Raises:
            TypeError: an index is no int.
            RuntimeError: no token has one of them.
        """
        return [self.lookup_token(index) for index in indices]

    def lookup_indices(self, tokens: list[str]) -> list[int]:
        """The indices of tokens, the default index for unknown ones.

        Raises:
            TypeError: this is no list of str.
            RuntimeError: a token is unknown and there is no default index; the message names it.
        """
        if not isinstance(tokens, (list, tuple)):
            raise TypeError(f"A vocabulary looks up a list of str, got {type(tokens).__name__}: {tokens!r:.60}.")
        return list(map(self._stoi.__getitem__, tokens))

    def get_stoi(self) -> dict[str, int]:
        """A new dict of tokens and indices."""
        return dict(self._stoi)

    def get_itos(self) -> list[str]:
        """A new list of the tokens by index."""
        return list(self._itos)

    def extra_repr(self) -> str:
        """What the module's repr shows."""
        return f"{len(self)} tokens, default_index={self.get_default_index()}"

    def __getstate__(self) -> dict[str, Any]:
        state = {**self.__dict__, "_default": self._stoi.default}
        del state["_stoi"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        default = state.pop("_default")
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._stoi = _indices(self._itos, default)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        copy = type(self).__new__(type(self))
        memo[id(self)] = copy
        copy.__setstate__({**self.__getstate__(), "_itos": list(self._itos)})
        return copy

    def _refuse_known(self, token: str) -> None:
        if token in self._stoi:
            raise RuntimeError(f"Token {token!r} is in the vocabulary already, with the index {self._stoi[token]}.")


class _Indices(dict[str, int]):
    """Tokens and indices; a dict calls `__missing__` itself, so that known tokens cost no call into Python."""

    __slots__ = ("default",)
    default: int | None

    def __missing__(self, token: str) -> int:
        _check_token(token)
        if self.default is None:
            raise RuntimeError(
                f"Token {token!r} not found and default index is not set: it is none of the {len(self)} tokens of the "
                "vocabulary. set_default_index(index) gives unknown tokens an index, usually that of '<unk>'."
            )
        return self.default


def _indices(tokens: list[str], default: int | None) -> _Indices:
    # Exact types first: that is one pass in C.
    if not set(map(type, tokens)) <= {str}:
        for token in tokens:
            _check_token(token)
    indices = _Indices(zip(tokens, range(len(tokens)), strict=True))
    indices.default = default
    if len(indices) != len(tokens):
        # The dict has the last place of each token.
        first, token = next((place, token) for place, token in enumerate(tokens) if indices[token] != place)
        raise RuntimeError(f"Token {token!r} is at {first} and at {indices[token]}; tokens of a vocabulary differ.")
    return indices


def _check_token(token: object) -> None:
    if not isinstance(token, str):
        raise TypeError(f"Tokens of a vocabulary are str, got {type(token).__name__}: {token!r:.60}.")


def _is_index(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)

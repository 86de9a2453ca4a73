"""Exceptions of DataLoader2."""


class PauseIteration(StopIteration):
    """The limit of an iterator was reached; `resume()` goes on."""

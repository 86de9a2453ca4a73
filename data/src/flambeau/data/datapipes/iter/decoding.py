"""Decoding files by the endings of their names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from flambeau.data.datapipes._columns import check_function
from flambeau.data.datapipes.datapipe import IterDataPipe, functional_datapipe
from flambeau.data.datapipes.utils.decoder import Decoder, basichandlers, extension_extract_fn, imagehandler


@functional_datapipe("routed_decode")
class RoutedDecoderIterDataPipe(IterDataPipe[tuple[str, Any]]):
    """Decodes files, each by the first handler that knows its ending (functional name: `routed_decode`).

    Args:
        datapipe: source of `(path, stream of bytes)`.
        *handlers: called as `handler(extension, bytes)`; None is the answer for an extension that is not known.
            Without any, basic types and images (as float tensors in [0, 1]) are decoded.
        key_fn: from a path to the extension that handlers get.

    Yields:
        `(path, value)`; the value is bytes where no handler knows the ending.
    """

    state_fields = ()

    def __init__(
        self,
        datapipe: Iterable[tuple[str, Any]],
        *handlers: Callable[[str, bytes], Any],
        key_fn: Callable[[str], str] = extension_extract_fn,
    ) -> None:
        check_function(key_fn)
        self.datapipe = datapipe
        self.decoder = Decoder(*(handlers or (basichandlers, imagehandler("torch"))), key_fn=key_fn)

    def add_handler(self, *handler: Callable[[str, bytes], Any]) -> None:
        """Ask these handlers first."""
        self.decoder.add_handler(*handler)

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        for sample in self.datapipe:
            path = sample[0]
            yield path, self.decoder(sample)[path]

    def __len__(self) -> int:
        return len(self.datapipe)  # type: ignore[arg-type]

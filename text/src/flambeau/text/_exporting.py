"""What transforms say to TorchScript."""

from __future__ import annotations

from typing import Any


class NotScripted:
    """Mixed into modules that work in Python and belong outside an exported model."""

    is_jitable = False

    def __prepare_scriptable__(self) -> Any:
        raise RuntimeError(
            f"{type(self).__name__} cannot be scripted: TorchScript is deprecated. Export the model with torch.export, "
            "and write tokenizers with to_tokenizer_json."
        )

"""State names of checkpoints from before layers were named as torch's are."""

from __future__ import annotations

from typing import Any

# older name of a part of a layer -> its name now
_PARTS = {
    "attention.input_projection": "self_attn.in_proj",
    "attention.output_projection": "self_attn.out_proj",
    "residual_mlp.mlp.0": "linear1",
    "residual_mlp.mlp.3": "linear2",
    "attention_layer_norm": "norm1",
    "final_layer_norm": "norm2",
}


def rename_encoder_layers(state_dict: dict[str, Any], prefix: str) -> None:
    """`<prefix>layers.<i>.attention...` becomes `<prefix>layers.layers.<i>.self_attn...`, in place."""
    start = f"{prefix}layers."
    for key in [key for key in state_dict if key.startswith(start)]:
        number, _, rest = key[len(start) :].partition(".")
        if number.isdigit() and (name := _renamed(rest)) is not None:
            state_dict[f"{start}layers.{number}.{name}"] = state_dict.pop(key)


def rename_single_layer(state_dict: dict[str, Any], prefix: str) -> None:
    """`<prefix>attention...` becomes `<prefix>better_transformer.self_attn...`, in place."""
    for key in [key for key in state_dict if key.startswith(prefix)]:
        if (name := _renamed(key[len(prefix) :])) is not None:
            state_dict[f"{prefix}better_transformer.{name}"] = state_dict.pop(key)


def _renamed(rest: str) -> str | None:
    part, _, kind = rest.rpartition(".")
    if part not in _PARTS:
        return None
    # The input projection's weight and bias are parameters of the attention itself.
    return f"{_PARTS[part]}{'_' if _PARTS[part].endswith('in_proj') else '.'}{kind}"

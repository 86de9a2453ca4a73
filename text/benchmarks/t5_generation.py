"""T5 writing texts: with the cache, and with everything computed again for each token, as upstream does.

    python text/benchmarks/t5_generation.py [--tokens 64] [--batch 4] [--width 256] [--layers 3] [--small]

Random weights; `--small` has the sizes of T5 small. Wall time, the best of several, all in turn. Where transformers is
installed, its own generation with its own cache is a row, of the same sizes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import torch
from _peers import peer
from torch import Tensor

from flambeau.text.models import T5_SMALL_GENERATION, T5Conf, T5Model
from flambeau.text.prototype.generate import GenerationUtils


class Forgetful(torch.nn.Module):
    """A model that gives no cache back."""

    def __init__(self, model: T5Model) -> None:
        super().__init__()
        self.model, self.padding_idx = model, model.padding_idx

    def get_encoder(self) -> Any:
        """The encoder."""
        return self.model.get_encoder()

    def prepare_inputs_for_generation(self, input_ids: Tensor, encoder_outputs: Any, encoder_padding_mask: Any) -> Any:
        """The arguments of `forward`, without a cache."""
        return self.model.prepare_inputs_for_generation(
            input_ids, encoder_outputs, encoder_padding_mask, return_past_key_values=False
        )

    def forward(self, **arguments: Any) -> Any:
        """What the model gives."""
        return self.model(**arguments)


def by_transformers(conf: T5Conf, tokens: Tensor, length: int) -> Callable[[], Tensor] | None:
    transformers = peer("transformers")
    if transformers is None:
        return None
    config = transformers.T5Config(
        vocab_size=conf.vocab_size, d_model=conf.embedding_dim, d_kv=conf.qkv_dim, d_ff=conf.ffn_dimension,
        num_layers=conf.num_encoder_layers, num_heads=conf.num_attention_heads, decoder_start_token_id=0,
    )  # fmt: skip
    model = transformers.T5ForConditionalGeneration(config).eval()
    mask = torch.ones_like(tokens)
    options = {"attention_mask": mask, "do_sample": False, "min_new_tokens": length - 1, "max_new_tokens": length - 1}
    return lambda: model.generate(tokens, **options)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--input", type=int, default=32, help="tokens of each text that is read")
    parser.add_argument("--small", action="store_true", help="the sizes of T5 small")
    parser.add_argument("--repetitions", type=int, default=5)
    given = parser.parse_args()
    conf = T5_SMALL_GENERATION.config if given.small else T5Conf(
        linear_head=True, embedding_dim=given.width, num_attention_heads=max(given.width // 64, 1),
        num_encoder_layers=given.layers, num_decoder_layers=given.layers, ffn_dimension=4 * given.width,
    )  # fmt: skip
    torch.manual_seed(0)
    model = T5Model(conf).eval()
    tokens = torch.randint(2, conf.vocab_size, (given.batch, given.input))
    works: dict[str, Callable[[], Tensor] | None] = {
        "flambeau, greedy": lambda: GenerationUtils(model).generate(tokens, max_length=given.tokens, eos_idx=None),
        "without a cache": lambda: GenerationUtils(Forgetful(model)).generate(
            tokens, max_length=given.tokens, eos_idx=None
        ),
        "transformers, greedy": by_transformers(conf, tokens, given.tokens),
        "flambeau, 4 beams": lambda: GenerationUtils(model).generate(
            tokens, num_beams=4, max_length=given.tokens, eos_idx=None
        ),
    }
    chosen = {name: work for name, work in works.items() if work is not None}
    assert torch.equal(chosen["flambeau, greedy"](), chosen["without a cache"]())
    times = dict.fromkeys(chosen, float("inf"))
    for _ in range(given.repetitions):
        for name, work in chosen.items():
            begun = time.perf_counter()
            assert work().shape[1] >= given.tokens
            times[name] = min(times[name], time.perf_counter() - begun)
    print(f"{given.tokens} tokens, batch {given.batch}, {conf.embedding_dim} wide, {conf.num_decoder_layers} layers\n")
    print("| | s | greedy is faster by |\n|---|---|---|")
    for name, seconds in times.items():
        print(f"| {name} | {seconds:.3f} | {seconds / times['flambeau, greedy']:.2f} |")


if __name__ == "__main__":
    main()

"""Embedding sentences with MiniLM, sentences per second, beside transformers where that is installed.

    python text/benchmarks/bert.py [--model minilm_l6] [--sentences 64] [--longest 96] [--repetitions 5]

Random weights, the same in both; one batch with a long-tailed distribution of lengths, padded, as sentence encoders are
used. Wall time, the best of several, all in turn; outputs are compared first.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
from _peers import peer
from torch import Tensor

from flambeau.text.models import BertModel, fast_path_report, get_model


def batch(sentences: int, longest: int, vocab_size: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    lengths = (torch.randn(sentences, generator=generator) * 0.6).exp().mul(longest / 5).long().clamp(3, longest)
    lengths[0] = longest
    tokens = torch.randint(5, vocab_size, (sentences, longest), generator=generator)
    return tokens.masked_fill(torch.arange(longest)[None] >= lengths[:, None], 0)


def by_transformers(model: BertModel, tokens: Tensor) -> Callable[[], Tensor] | None:
    transformers = peer("transformers")
    if transformers is None:
        return None
    conf = model.conf
    theirs = transformers.BertModel(
        transformers.BertConfig(
            vocab_size=conf.vocab_size, hidden_size=conf.embedding_dim, intermediate_size=conf.ffn_dimension,
            num_hidden_layers=conf.num_encoder_layers, num_attention_heads=conf.num_attention_heads,
        )
    ).eval()  # fmt: skip
    theirs.load_state_dict(model.state_dict())
    mask = tokens.ne(0)

    @torch.inference_mode()
    def run() -> Tensor:
        features = theirs(input_ids=tokens, attention_mask=mask.long()).last_hidden_state
        mean = (features * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
        return torch.nn.functional.normalize(mean, dim=1)

    return run


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", default="minilm_l6")
    parser.add_argument("--layers", type=int, help="fewer than the model has, to try the script")
    parser.add_argument("--sentences", type=int, default=64)
    parser.add_argument("--longest", type=int, default=96)
    parser.add_argument("--repetitions", type=int, default=5)
    given = parser.parse_args()
    sizes = {"num_encoder_layers": given.layers} if given.layers else {}
    torch.manual_seed(0)
    model = get_model(given.model, pooling="mean", normalize=True, **sizes).eval()
    tokens = batch(given.sentences, given.longest, model.conf.vocab_size)

    @torch.inference_mode()
    def ours() -> Tensor:
        return model(tokens)

    @torch.inference_mode()
    def one_by_one() -> Tensor:
        return torch.cat([model(row[row != 0][None]) for row in tokens])

    works: dict[str, Callable[[], Tensor] | None] = {
        "flambeau": ours,
        "flambeau, one by one": one_by_one,
        "transformers, padded": by_transformers(model, tokens),
    }
    chosen = {name: work for name, work in works.items() if work is not None}
    for work in chosen.values():
        torch.testing.assert_close(work(), ours(), rtol=1e-3, atol=1e-4)
    times = dict.fromkeys(chosen, float("inf"))
    for _ in range(given.repetitions):
        for name, work in chosen.items():
            begun = time.perf_counter()
            work()
            times[name] = min(times[name], time.perf_counter() - begun)
    print(f"{given.model}, {given.sentences} sentences: {fast_path_report(model, tokens)}\n")
    print("| | sentences/s | flambeau is faster by |\n|---|---|---|")
    for name, seconds in times.items():
        print(f"| {name} | {given.sentences / seconds:,.0f} | {seconds / times['flambeau']:.2f} |")


if __name__ == "__main__":
    main()

"""RoBERTa on batches with padding, beside torch's own encoder: padded, and by its nested fast path.

    python text/benchmarks/roberta.py [--layers 4] [--batch 16] [--length 96] [--repetitions 7] [--device cpu]

Random weights of RoBERTa base's width; the same parameters in all of them, so that outputs can be compared. Lengths are
drawn so that a third of the places, or with `real` those of a long-tailed distribution of sentences, hold tokens. Wall
time of a forward pass, the best of several, all kinds in turn. `lower bound` is the same work on the real tokens with
attention left out.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable

import torch
from torch import Tensor, nn

from flambeau.text.models import RobertaEncoderConf, RobertaModel, fast_path_report
from flambeau.text.models.roberta.modules import EncoderLayer

PADDING = 1


def lengths_of(kind: str, batch: int, length: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    if kind == "no padding":
        return torch.full((batch,), length)
    if kind == "a third real":
        drawn = torch.randint(max(length // 6, 1), length // 2, (batch,), generator=generator)
    else:  # sentences: a lognormal tail
        drawn = (torch.randn(batch, generator=generator) * 0.6).exp().mul(length / 5).long().clamp(3, length)
    drawn[0] = length
    return drawn


def tokens_of(lengths: Tensor, length: int) -> Tensor:
    tokens = torch.randint(3, 50_000, (len(lengths), length), generator=torch.Generator().manual_seed(1))
    return tokens.masked_fill(torch.arange(length)[None] >= lengths[:, None], PADDING)


def torch_encoder(model: RobertaModel, *, nested: bool) -> nn.TransformerEncoder:
    """The encoder of torch, with the parameters of ours."""
    conf = model.encoder.transformer
    width = conf.token_embedding.embedding_dim
    first = conf.layers.layers[0]
    layer = nn.TransformerEncoderLayer(
        width, first.self_attn.num_heads, first.linear1.out_features, activation="gelu", batch_first=True
    )
    encoder = nn.TransformerEncoder(layer, len(conf.layers.layers), enable_nested_tensor=nested, mask_check=False)
    encoder.load_state_dict(conf.layers.state_dict())
    return encoder.to(next(model.parameters()).device).eval()


def by_torch(model: RobertaModel, tokens: Tensor, *, nested: bool) -> Callable[[], Tensor]:
    encoder, inner = torch_encoder(model, nested=nested), model.encoder.transformer
    padding = tokens.eq(PADDING)
    # Gradients wanted keep it on the ordinary path.
    guard = torch.inference_mode if nested else torch.enable_grad

    def run() -> Tensor:
        with guard():
            x = inner.embedding_layer_norm(inner.token_embedding(tokens) + inner.positional_embedding(tokens))
            return encoder(x, src_key_padding_mask=padding)

    return run


def ours(model: RobertaModel, tokens: Tensor) -> Callable[[], Tensor]:
    def run() -> Tensor:
        with torch.inference_mode():
            return model(tokens)

    return run


def lower_bound(model: RobertaModel, tokens: Tensor) -> Callable[[], Tensor]:
    inner = model.encoder.transformer
    real = int(tokens.ne(PADDING).sum())
    rows = torch.randn(real, inner.token_embedding.embedding_dim, device=tokens.device)

    def without_attention(layer: EncoderLayer, x: Tensor) -> Tensor:
        attention = layer.self_attn
        values = nn.functional.linear(x, attention.in_proj_weight, attention.in_proj_bias)[:, -x.shape[1] :]
        x = layer.norm1(x + attention.out_proj(values))
        return layer.norm2(x + layer.linear2(nn.functional.gelu(layer.linear1(x))))

    def run() -> Tensor:
        x = rows
        with torch.inference_mode():
            for layer in inner.layers.layers:
                x = without_attention(layer, x)
        return x

    return run


def best(works: dict[str, Callable[[], Tensor]], repetitions: int, device: str) -> dict[str, float]:
    found = dict.fromkeys(works, float("inf"))
    for _ in range(repetitions + 1):
        for name, work in works.items():
            begun = time.perf_counter()
            work()
            if device != "cpu":
                torch.cuda.synchronize()
            found[name] = min(found[name], time.perf_counter() - begun)
    return found


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--length", type=int, default=96)
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args()
    warnings.filterwarnings("ignore", message=".*[Nn]ested tensor")
    torch.manual_seed(0)
    conf = RobertaEncoderConf(
        embedding_dim=given.width, ffn_dimension=4 * given.width, num_attention_heads=max(given.width // 64, 1),
        num_encoder_layers=given.layers, dropout=0.0,
    )  # fmt: skip
    model = RobertaModel(conf).eval().to(given.device)
    for kind in ("a third real", "sentences", "no padding"):
        tokens = tokens_of(lengths_of(kind, given.batch, given.length), given.length).to(given.device)
        works = {
            "flambeau": ours(model, tokens),
            "torch, padded": by_torch(model, tokens, nested=False),
            "torch, nested": by_torch(model, tokens, nested=True),
            "lower bound": lower_bound(model, tokens),
        }
        real = tokens.ne(PADDING)
        for name in ("torch, padded", "torch, nested"):
            torch.testing.assert_close(works["flambeau"]()[real], works[name]()[real], rtol=1e-3, atol=1e-4)
        times = best(works, given.repetitions, given.device)
        print(f"\n{kind}: {fast_path_report(model, tokens)}\n")
        print("| | ms | flambeau is faster by |\n|---|---|---|")
        for name, seconds in times.items():
            print(f"| {name} | {seconds * 1e3:.1f} | {seconds / times['flambeau']:.2f} |")


if __name__ == "__main__":
    main()

"""The transducer loss and forced alignment."""

from __future__ import annotations

import torch

from flambeau.core.testing.fill import integers, tensor

from .registry import case
from .signals import grad


def rnnt(audio, dtype=torch.float32, **kw):
    logits = tensor("logits", (2, 6, 4, 7), dtype) * 3
    targets = 1 + integers("t", (2, 3), 6).int()
    return grad(
        lambda x: audio.functional.rnnt_loss(
            x, targets, torch.tensor([6, 5], dtype=torch.int32), torch.tensor([3, 2], dtype=torch.int32), **kw
        ),
        logits,
    )


for reduction in ("none", "mean", "sum"):
    case(f"rnnt_loss/{reduction},blank=0")(lambda audio, r=reduction: rnnt(audio, blank=0, reduction=r))
case("rnnt_loss/blank=-1 with targets below it")(
    lambda audio: grad(
        lambda x: audio.functional.rnnt_loss(
            x,
            integers("t", (2, 3), 6).int(),
            torch.tensor([6, 6], dtype=torch.int32),
            torch.tensor([3, 3], dtype=torch.int32),
        ),
        tensor("logits", (2, 6, 4, 7)),
    )
)
case("rnnt_loss/clamp=0.05")(lambda audio: rnnt(audio, blank=0, clamp=0.05))
case("rnnt_loss/fused_log_softmax=False")(
    lambda audio: grad(
        lambda x: audio.functional.rnnt_loss(
            x,
            1 + integers("t", (2, 3), 6).int(),
            torch.tensor([6, 5], dtype=torch.int32),
            torch.tensor([3, 2], dtype=torch.int32),
            blank=0,
            fused_log_softmax=False,
        ),
        (tensor("logits", (2, 6, 4, 7)) * 3).log_softmax(-1),
    )
)


def align(audio, blank):
    log_probs = (tensor("lp", (1, 30, 8)) * 4).log_softmax(-1)
    ids = [i for i in range(8) if i != blank]
    targets = torch.tensor([[ids[int(i)] for i in integers("al", (9,), 7)]], dtype=torch.int32)
    paths, scores = audio.functional.forced_align(log_probs, targets, blank=blank)
    spans = audio.functional.merge_tokens(paths[0], scores[0].exp(), blank)
    return {
        "paths": paths,
        "scores": scores,
        "spans": [[s.token, s.start, s.end, round(float(s.score), 5)] for s in spans],
    }


case("forced_align/blank=0")(lambda audio: align(audio, 0))
case("forced_align/blank=7")(lambda audio: align(audio, 7))


def align_repeats(audio):
    return audio.functional.forced_align(
        (tensor("lp2", (1, 12, 5)) * 3).log_softmax(-1),
        torch.tensor([[1, 1, 2, 2, 3]]),
        torch.tensor([12]),
        torch.tensor([5]),
        0,
    )


case("forced_align/repeats,lengths")(align_repeats)

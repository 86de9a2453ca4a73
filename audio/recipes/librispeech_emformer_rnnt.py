"""Train a streaming recogniser on LibriSpeech, and measure its word error rate.

    python audio/recipes/librispeech_emformer_rnnt.py --root FOLDER --out RUN
    torchrun --nproc-per-node 8 audio/recipes/librispeech_emformer_rnnt.py --root FOLDER --out RUN
    python audio/recipes/librispeech_emformer_rnnt.py --tiny --out RUN

An Emformer transducer (Shi et al. 2020, arXiv:2010.10759) of 77 million parameters, or with `--model conformer` a
Conformer transducer (Gulati et al. 2020, arXiv:2005.08100) of 30 million, which does not stream. FOLDER holds
`LibriSpeech` with the subsets (`--download` fetches them, 60 GB). Upstream trained 120 epochs on 32 GPUs and states
word error rates of 4.56 % on test-clean and 10.66 % on test-other; Conformer: 3.10 % and 8.05 %.

`--tiny` trains a network of a hundred thousand parameters for about half a minute on a CPU; without `--root` on
sentences that espeak-ng speaks. It shows that all parts work, and nothing more.

The same command goes on with a run that was stopped. RUN then holds weights, statistics and vocabulary, a bundle for
`audio/examples/streaming_asr.py --weights RUN`; `--evaluate-only` measures it again.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from espeak import write_librispeech
from recipe_options import add_training, parser_of, progress_of, report, required
from resumable import Trainer, device_of
from rnnt.corpus import Utterance, utterances
from rnnt.designs import DESIGNS, Design
from rnnt.evaluation import evaluate, table
from rnnt.features import write_statistics
from rnnt.result import Folder, bundle_from, export
from rnnt.text import Tokenizer, spelled, train_pieces
from rnnt.training import Settings, trained

TRAINING = ("train-clean-100", "train-clean-360", "train-other-500")
HELD_OUT = ("dev-clean", "dev-other")
TESTS = ("dev-clean", "dev-other", "test-clean", "test-other")
LEAST_FRAMES = 4  # what the network joins to one

TINY_SENTENCES = (
    "the light is on", "turn it off now", "open the window", "close the old door", "now open the door",
    "is it cold outside",
)  # fmt: skip
TINY_TAKES = 2  # of each sentence by each voice
TINY_VOICES = {
    "train-clean-100": ("en-us", "en-gb+f2", "en-gb-scotland", "en-us+m1", "en-gb+f4"),
    "dev-clean": ("en-us+m3",),
    "test-clean": ("en-gb-x-rp+m2",),
}


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Run the command line."""
    parser = _parser()
    arguments = parser.parse_args(argv)
    device = device_of(arguments.device)
    if not arguments.tiny:
        required(parser, arguments, "root", "out")
    if dist.is_initialized():
        required(parser, arguments, "out")
    if arguments.workers is None:
        arguments.workers = 0 if arguments.tiny else 4
    with tempfile.TemporaryDirectory() as scratch:
        arguments.out = arguments.out or Path(scratch)
        if arguments.root is None:
            _speak(arguments)
        return run(arguments, Folder(arguments.out), device)


def run(arguments: argparse.Namespace, folder: Folder, device: torch.device) -> dict[str, Any]:
    """Prepare, train, measure."""
    result: dict[str, Any] = {}
    finished = True
    if not arguments.evaluate_only:
        trainer, finished = train(arguments, folder, device)
        result = {**progress_of(trainer), "finished": finished, "held_out": trainer.history[-1:]}
        if trainer.rank != 0:
            return result
    if finished:
        subsets = {name: utterances(arguments.root, [name], download=arguments.download) for name in arguments.tests}
        scores = evaluate(bundle_from(folder.path), subsets, beam_width=arguments.beam_width, device=str(device))
        if not arguments.json:
            print(table(scores))
        result["scores"] = {name: score._asdict() for name, score in scores.items()}
    report(result if arguments.json else {k: v for k, v in result.items() if k != "scores"}, arguments.json)
    return result


def train(arguments: argparse.Namespace, folder: Folder, device: torch.device) -> tuple[Trainer, bool]:
    """Begin a run or go on with it.

    Returns:
        The trainer, and whether training is complete.

    Raises:
        ValueError: there is nothing to train on.
    """
    name = f"{arguments.model}-tiny" if arguments.tiny else arguments.model
    design = DESIGNS[name]
    training, held_out = (
        _usable(utterances(arguments.root, subsets, download=arguments.download))
        for subsets in (arguments.train, arguments.held_out)
    )
    if not training:
        raise ValueError(f"{arguments.root} has no utterances in {', '.join(arguments.train)}.")
    _prepare(folder, design, training, arguments.workers)
    symbols = len(Tokenizer(folder.pieces)) + 1
    torch.manual_seed(arguments.seed)
    model = design.build(symbols)
    data = {"design": name, "utterances": len(training), "frames": sum(one.frames for one in training)}
    settings = _settings(arguments, design)
    trainer, finished = trained(model, training, held_out, settings, folder, device, data)
    if trainer.rank == 0:
        export(folder, model, {"design": name, "symbols": symbols, **progress_of(trainer), "history": trainer.history})
    return trainer, finished


def _usable(corpus: list[Utterance]) -> list[Utterance]:
    """Those with something to hear and something to say."""
    return [one for one in corpus if one.frames >= LEAST_FRAMES and one.transcript.strip()]


def _settings(arguments: argparse.Namespace, design: Design) -> Settings:
    """Those of the network, but for what the command line has."""
    fields = {field.name for field in dataclasses.fields(Settings)}
    of_design = {name: value for name, value in vars(design).items() if name in fields}
    given = {name: value for name, value in vars(arguments).items() if name in fields and value is not None}
    return Settings(**{**of_design, **given})


@contextlib.contextmanager
def _by_one() -> Iterator[bool]:
    """Whether this process is the one that prepares; the others wait until it has done so."""
    together = dist.is_initialized()
    yield not together or dist.get_rank() == 0
    if together:
        dist.barrier()


def _prepare(folder: Folder, design: Design, training: list[Utterance], workers: int) -> None:
    """Vocabulary and statistics, unless a run that goes on has them."""
    with _by_one() as prepares:
        if prepares and not folder.checkpoint.is_file():
            folder.path.mkdir(parents=True, exist_ok=True)
            texts = (spelled(one.transcript) for one in training)
            train_pieces(texts, folder.pieces, count=design.pieces, kind=design.kind, fixed=design.fixed)
            write_statistics(training, folder.statistics, workers=workers)


def _speak(arguments: argparse.Namespace) -> None:
    """Let espeak-ng speak what there is to learn and to recognise."""
    arguments.root = arguments.out / "spoken"
    with _by_one() as speaks:
        for subset, voices in TINY_VOICES.items():
            if speaks and not (arguments.root / "LibriSpeech" / subset).is_dir():
                write_librispeech(arguments.root, subset, dict.fromkeys(voices, TINY_SENTENCES * TINY_TAKES))
    arguments.train, arguments.held_out = ["train-clean-100"], ["dev-clean"]
    arguments.tests = ["dev-clean", "test-clean"]


def _parser() -> argparse.ArgumentParser:
    parser = parser_of(__doc__)
    add = parser.add_argument
    add("--root", type=Path, help="folder of the folder LibriSpeech; with --tiny may be left out")
    add("--download", action="store_true", help="fetch subsets that are missing")
    add("--model", choices=("emformer", "conformer"), default="emformer", help="encoder (default: %(default)s)")
    add("--train", nargs="+", default=list(TRAINING), metavar="SUBSET", help="what to learn")
    add("--held-out", nargs="*", default=list(HELD_OUT), metavar="SUBSET", help="whose loss to follow")
    add("--tests", nargs="*", default=list(TESTS), metavar="SUBSET", help="whose word error rates to measure")
    add("--epochs", type=int, help="times to hear each utterance (default: 120; with --tiny 80)")
    add("--steps", type=int, help="most steps, those of earlier runs counted")
    add("--batch-frames", type=int, help="most frames of 10 ms in a batch (default: 20000; with --tiny 1600)")
    add("--beam-width", type=int, default=20, help="most hypotheses when measuring (default: %(default)s)")
    add("--evaluate-only", action="store_true", help="measure a finished run")
    add_training(parser)
    parser.set_defaults(workers=None)  # none for --tiny, which would spend its time on beginning them
    return parser


if __name__ == "__main__":
    main()

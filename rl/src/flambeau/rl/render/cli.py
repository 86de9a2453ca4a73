"""`python -m flambeau.rl.render`: episodes of a policy as a film, pictures, a table or a notebook."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

from flambeau.rl.render.config import (
    CameraLayout,
    EnvBackendName,
    ExplorationMode,
    NotebookRenderBackendName,
    NotebookRolloutMode,
    RenderBackendName,
    RenderConfig,
    RenderFormat,
)

__all__ = ["build_parser", "config_from_args", "main"]

_CHOICES: dict[str, Any] = {
    "camera-layout": CameraLayout,
    "exploration-mode": ExplorationMode,
    "render-backend": RenderBackendName,
    "notebook-render-backend": NotebookRenderBackendName,
    "notebook-rollout-mode": NotebookRolloutMode,
    "env-backend": EnvBackendName,
}
_TEXTS = (
    "camera", "device", "policy-device", "env-device", "checkpoint-key", "state-dict-key", "obs-key", "action-key",
    "done-key", "reward-key", "pixel-key", "render-mode", "frame-dir", "artifact-dir", "metadata", "video-codec",
    "mujoco-model-path", "mujoco-qpos-key",
)  # fmt: skip
_SWITCHES = (
    "from-pixels", "pixels-only", "save-rollout", "save-tensordicts", "save-frames", "overwrite", "dry-run",
    "validate-only",
)  # fmt: skip
_FORMATS = {".mp4": "mp4", ".gif": "gif", ".npz": "npz", ".jsonl": "jsonl", ".ipynb": "ipynb", "": "frames"}


def build_parser() -> argparse.ArgumentParser:
    """The parser of the command's arguments, which are named as in `RenderConfig`."""
    parser = argparse.ArgumentParser(prog="rlrender", description="Render episodes of a policy.")
    parser.add_argument("ckpt", help="file of the checkpoint")
    parser.add_argument("--policy", required=True, metavar="MODULE:FUNCTION", help="makes the policy")
    parser.add_argument("--env", required=True, metavar="MODULE:FUNCTION", help="makes the environment")
    parser.add_argument("--out", metavar="PATH", help="the file, whose suffix says its format, or a folder")
    parser.add_argument("--format", choices=get_args(RenderFormat), help="default: as the suffix of --out says, or mp4")
    for name in ("num-trajs", "max-steps", "seed", "notebook-viewer-port"):
        parser.add_argument(f"--{name}", type=int, metavar="N")
    parser.add_argument("--fps", type=float, metavar="N")
    for name, choices in _CHOICES.items():
        parser.add_argument(f"--{name}", choices=get_args(choices))
    for name in _TEXTS:
        parser.add_argument(f"--{name}", metavar="TEXT")
    for name in ("env-kwargs", "policy-kwargs"):
        parser.add_argument(f"--{name}", type=_mapping, metavar="JSON", help="an object of JSON, or a file with one")
    for name in _SWITCHES:
        parser.add_argument(f"--{name}", action="store_true", default=None)
    parser.add_argument("--mujoco-asset-paths", nargs="+", metavar="PATH")
    for name in ("deterministic", "strict-load", "auto-load-policy", "policy-eval"):
        parser.add_argument(f"--{name}", action=argparse.BooleanOptionalAction)
    return parser


def config_from_args(args: argparse.Namespace) -> RenderConfig:
    """The configuration of parsed arguments.

    Args:
        args: of `build_parser`.
    """
    known = {one.name for one in fields(RenderConfig)}
    given = {name: value for name, value in vars(args).items() if name in known and value is not None}
    if "format" not in given and "out" in given:
        given["format"] = _FORMATS.get(Path(given["out"]).suffix.lower(), "mp4")
    return RenderConfig(**given)


def main(argv: list[str] | None = None) -> int:
    """Run the command; returns its exit status.

    Args:
        argv: its arguments; default: those of the process.
    """
    parser = build_parser()
    try:
        config = config_from_args(parser.parse_args(argv))
    except ValueError as error:
        parser.error(str(error))
    if config.dry_run:
        sys.stdout.write(config.to_json(indent=2) + "\n")
        return 0
    from flambeau.rl.render._rendering import prepared, render_policy

    if config.validate_only:
        env, policy = prepared(config)[:2]
        sys.stdout.write(f"{type(env).__name__} and {type(policy).__name__} are ready.\n")
        return 0
    result = render_policy(config)
    for warning in result.warnings:
        sys.stderr.write(f"{warning}\n")
    sys.stdout.write(f"{result.artifact_path}\n")
    return 0


def _mapping(text: str) -> dict[str, Any]:
    source = text if text.lstrip().startswith("{") else Path(text).read_text(encoding="utf-8")
    found = json.loads(source)
    if not isinstance(found, dict):
        raise argparse.ArgumentTypeError(f"expected an object of JSON, got {type(found).__name__}")
    return found

"""IEMOCAP: ten actors in dialogues, with the emotions that listeners hear.

References:
    Busso et al. 2008, IEMOCAP: interactive emotional dyadic motion capture database. doi:10.1007/s10579-008-9076-6
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from flambeau.audio.datasets._recordings import Recordings, chosen, fields, read_waveform, require_folder
from flambeau.core.datasets import DatasetInfo, Gate, register_dataset

__all__ = ["IEMOCAP"]

_SITE = "https://sail.usc.edu/iemocap/iemocap_release.htm"
_INFO = DatasetInfo(
    name="iemocap",
    task="emotion-recognition",
    schema=fields("file_name", "label", "speaker"),
    license="IEMOCAP licence (research only)",
    citation="@article{iemocap, author={Busso, Carlos and others}, title={IEMOCAP: interactive emotional dyadic motion "
    "capture database}, journal={Language Resources and Evaluation}, year={2008}}",
    homepage=_SITE,
    gated=Gate("form", _SITE, "Place its folders Session1 to Session5 below IEMOCAP."),
    description="Twelve hours of acted dialogues with emotions, 16 kHz.",
)
_LABELS = frozenset(("neu", "hap", "ang", "sad", "exc", "fru"))
_KINDS = {"scripted": "*script*", "improvised": "*impro*"}


@register_dataset(info=_INFO)
class IEMOCAP(Recordings):
    """Twelve hours of dialogues of ten actors, cut into utterances with the emotion that listeners hear; 16 kHz.

    Utterances count whose emotion is one of "neu", "hap", "ang", "sad", "exc" and "fru".

    Args:
        root: folder that holds `IEMOCAP`, which is obtained by hand.
        sessions: numbers of the sessions.
        utterance_type: "scripted" or "improvised"; both when None.

    Items are (waveform, sample rate, file name, emotion, speaker).

    Raises:
        DatasetMissingError: the folder is missing.
        ValueError: another type of utterances.
    """

    def __init__(
        self, root: str | Path, sessions: Sequence[int] = (1, 2, 3, 4, 5), utterance_type: str | None = None
    ) -> None:
        kind = "*" if utterance_type is None else _KINDS[chosen(utterance_type, "utterance_type", list(_KINDS))]
        self._path = require_folder(_INFO, root, "IEMOCAP") / "IEMOCAP"
        self.data: list[str] = []
        self.mapping: dict[str, dict[str, str]] = {}
        for session in sessions:
            self._add(self._path / f"Session{session}", kind)

    def _add(self, folder: Path, kind: str) -> None:
        labels = {}
        for path in sorted((folder / "dialog" / "EmoEvaluation").glob(f"{kind}.txt")):
            for line in path.read_text(encoding="utf-8").splitlines():
                if line.startswith("["):
                    _, name, label, *_ = line.split("\t")
                    labels[name] = label
        for path in sorted((folder / "sentences" / "wav").glob(f"{kind}/*.wav")):
            if labels.get(path.stem) in _LABELS:
                self.data.append(path.stem)
                place = path.relative_to(self._path).as_posix()
                self.mapping[path.stem] = {"label": labels[path.stem], "path": place}

    def get_metadata(self, n: int) -> tuple[str, int, str, str, str]:
        """Item `n` with the recording's path below `IEMOCAP` in place of the waveform."""
        name = self.data[n]
        facts = self.mapping[name]
        return facts["path"], 16_000, name, facts["label"], name.split("_")[0]

    def __getitem__(self, n: int) -> tuple[Tensor, int, str, str, str]:
        """(waveform, sample rate, file name, emotion, speaker) number `n`."""
        path, sample_rate, *rest = self.get_metadata(n)
        return (read_waveform(self._path / path, sample_rate), sample_rate, *rest)  # type: ignore[return-value]

    def __len__(self) -> int:
        return len(self.data)

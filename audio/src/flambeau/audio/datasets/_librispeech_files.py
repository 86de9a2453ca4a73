"""Recordings and transcripts in the layout of LibriSpeech:
`<speaker>/<chapter>/<speaker>-<chapter>-<utterance>.flac`.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["LibriSpeechFiles"]


class LibriSpeechFiles:
    """What is said in each recording. The transcripts of a chapter are read when one of them is first asked for.

    Args:
        root: folder that the paths of metadata are relative to.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._chapters: dict[str, dict[str, str]] = {}

    def metadata(self, folder: str, name: str) -> tuple[str, int, str, int, int, int]:
        """Path, sample rate, transcript, speaker, chapter and utterance of a recording.

        Args:
            folder: below the root, that which has the speakers' folders.
            name: of the recording, without suffix.

        Raises:
            FileNotFoundError: the chapter's transcripts do not have it.
        """
        speaker, chapter, utterance = name.split("-")
        path = f"{folder}/{speaker}/{chapter}"
        texts = self._chapters.get(path)
        if texts is None:
            lines = (self.root / path / f"{speaker}-{chapter}.trans.txt").read_text(encoding="utf-8").splitlines()
            texts = self._chapters[path] = {key: text for key, _, text in (line.partition(" ") for line in lines)}
        if name not in texts:
            raise FileNotFoundError(
                f"{name} has no line in {self.root / path}/{speaker}-{chapter}.trans.txt; unpack the archive anew."
            )
        return f"{path}/{name}.flac", 16_000, texts[name], int(speaker), int(chapter), int(utterance)

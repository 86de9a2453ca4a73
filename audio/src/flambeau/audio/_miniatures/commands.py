"""Sets of words and commands: Speech Commands, YesNo, Fluent Speech Commands, Snips, QUESST 2014."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flambeau.audio._miniatures.files import lines, recording

__all__ = ["WRITERS"]


def speech_commands(root: Path) -> None:
    """Two words by two speakers, a recording of each list, and noise."""
    folder = root / "SpeechCommands" / "speech_commands_v0.02"
    for name in ("bed/00f0204f_nohash_0", "bed/0a7c2a8d_nohash_1", "cat/00f0204f_nohash_0", "cat/0b7ee1a0_nohash_2"):
        recording(folder / f"{name}.wav")
    recording(folder / "_background_noise_" / "running_tap.wav")
    lines(folder / "validation_list.txt", "bed/0a7c2a8d_nohash_1.wav")
    lines(folder / "testing_list.txt", "cat/0b7ee1a0_nohash_2.wav")


def yesno(root: Path) -> None:
    """Two recordings."""
    for labels in ("0_0_1_1_0_1_0_1", "1_1_1_0_0_1_0_1"):
        recording(root / "waves_yesno" / f"{labels}.wav", 8000)


def fluent(root: Path) -> None:
    """Two commands."""
    folder = root / "fluent_speech_commands_dataset"
    rows = []
    for number, (speaker, name) in enumerate((("2BqVo8kVB2Skwgyb", "0a3129c0"), ("4aGjX3AG5xcxeL7a", "0d6ef3d0"))):
        recording(folder / "wavs" / "speakers" / speaker / f"{name}.wav")
        text = '"Turn on the lamp, please",activate,lamp,none' if number else "Stop,deactivate,music,none"
        rows.append(f"{number},wavs/speakers/{speaker}/{name}.wav,{speaker},{text}")
    for subset in ("train", "valid", "test"):
        lines(folder / "data" / f"{subset}_data.csv", ",path,speakerId,transcription,action,object,location", *rows)


def snips(root: Path) -> dict[str, Any]:
    """Two requests by two voices."""
    rows = []
    for voice, words, tags in (
        ("Aditi", "play a song", "O O B-object"),
        ("Amy", "weather in paris", "O O B-city"),
    ):
        name = f"{voice}-snips-train-0"
        recording(root / "SNIPS" / "train" / f"{name}.wav")
        rows.append(f"{name} BOS {words} EOS\tO {tags} {'PlayMusic' if voice == 'Aditi' else 'GetWeather'}")
    lines(root / "SNIPS" / "all.iob.snips.txt", *rows, "Nicole-snips-valid-0 BOS no EOS\tO O Other")
    return {"subset": "train", "audio_format": "wav"}


def quesst14(root: Path) -> dict[str, Any]:
    """Three recordings in two languages."""
    folder = root / "quesst14Database"
    rows = {"quesst14_00001": "nnenglish", "quesst14_00002": "czech", "quesst14_00003": "nnenglish"}
    for name in rows:
        recording(folder / "Audio" / f"{name}.wav", 8000)
    for table in ("utterances", "dev", "eval"):
        texts = (f"quesst14Database/Audio/{name}.wav {language}" for name, language in rows.items())
        lines(folder / "scoring" / f"language_key_{table}.lst", *texts)
    return {"subset": "docs"}


WRITERS = {
    "fluentspeechcommands": fluent,
    "quesst14": quesst14,
    "snips": snips,
    "speechcommands": speech_commands,
    "yesno": yesno,
}

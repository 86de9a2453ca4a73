"""What the program says of itself, and assets."""

import hashlib

import pytest

from flambeau.audio.utils import download, download_asset, ffmpeg_utils
from flambeau.core.testing.server import FileServer


@pytest.fixture(autouse=True)
def needs_the_program():
    from flambeau.audio.io._program import has_ffmpeg

    if not has_ffmpeg():
        pytest.skip("there is no ffmpeg program")


def test_versions_have_three_numbers():
    versions = ffmpeg_utils.get_versions()
    assert set(versions) >= {"libavutil", "libavcodec", "libavformat", "libavfilter"}
    assert all(len(version) == 3 and version[0] > 50 for name, version in versions.items() if name == "libavcodec")


@pytest.mark.parametrize(
    ("listing", "names", "absent"),
    [
        ("get_demuxers", ["wav", "mp3", "mov,mp4,m4a,3gp,3g2,mj2"], "ipod"),
        ("get_muxers", ["wav", "mp4", "matroska"], "concat"),
        ("get_audio_decoders", ["aac", "flac", "pcm_s16le"], "h264"),
        ("get_video_decoders", ["h264", "mpeg4"], "aac"),
        ("get_audio_encoders", ["aac", "flac", "pcm_s16le"], "mpeg4"),
        ("get_video_encoders", ["mpeg4", "ffv1"], "aac"),
        ("get_input_protocols", ["file", "pipe", "tcp"], "tee"),
        ("get_output_protocols", ["file", "pipe", "tcp"], "concat"),
        ("get_input_devices", ["lavfi"], "wav"),
    ],
)
def test_a_listing_has_what_every_build_has(listing, names, absent):
    found = getattr(ffmpeg_utils, listing)()
    assert all(name in found for name in names) and absent not in found
    if isinstance(found, dict):
        assert found[names[0]].strip()


def test_the_build_names_its_options():
    assert "--enable-" in ffmpeg_utils.get_build_config() or "--prefix" in ffmpeg_utils.get_build_config()


def test_messages_are_repeated_when_the_level_says_so(capfd):
    from flambeau.audio.io._process import Messages

    assert ffmpeg_utils.get_log_level() == 8
    ffmpeg_utils.set_log_level(16)
    try:
        Messages().add("a word")
    finally:
        ffmpeg_utils.set_log_level(8)
    Messages().add("unheard")
    assert capfd.readouterr().err == "ffmpeg: a word\n"
    ffmpeg_utils.clear_cuda_context_cache()


def test_an_asset_is_fetched_once_and_verified(monkeypatch, tmp_path):
    content = b"a recording"
    digest = hashlib.sha256(content).hexdigest()
    monkeypatch.setenv("FLAMBEAU_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("torch.hub.get_dir", lambda: str(tmp_path / "hub"))
    with FileServer({"folder/asset.wav": content}) as server:
        monkeypatch.setattr(download, "_BASE_URL", server.url("") + "/")
        for _ in range(2):
            path = download_asset("folder/asset.wav", hash=digest, progress=False)
        assert path == str(tmp_path / "hub" / "torchaudio" / "folder" / "asset.wav")
        assert len(server.requests("folder/asset.wav")) == 1
        with pytest.raises(RuntimeError):
            download_asset("folder/asset.wav", hash="0" * 64, path=tmp_path / "other.wav", progress=False)
        assert not (tmp_path / "other.wav").exists()
        assert download_asset("folder/asset.wav") == path

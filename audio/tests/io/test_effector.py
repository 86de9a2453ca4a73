"""Effects and codecs on waveforms, and playing."""

import pytest
import torch

from flambeau.audio.functional import apply_codec
from flambeau.audio.io import AudioEffector, CodecConfig, MediaError, play_audio
from flambeau.audio.io import _waveform as waveform_module

pytest.importorskip("av")

RATE = 8000


def noise(dtype=torch.float32, frames=RATE, channels=2):
    values = torch.rand(frames, channels, generator=torch.Generator().manual_seed(0)) - 0.5
    return values if dtype.is_floating_point else (values * 200).to(dtype)


def test_nothing_asked_gives_a_copy():
    waveform = noise()
    out = AudioEffector().apply(waveform, RATE)
    assert torch.equal(out, waveform) and out.data_ptr() != waveform.data_ptr()


@pytest.mark.parametrize("dtype", [torch.int16, torch.int32, torch.float32, torch.float64])
@pytest.mark.parametrize("how", [{"format": "wav"}, {"format": "flac"}, {"format": "mp3", "effect": "volume=0.5"}])
def test_a_codec_keeps_the_dtype(dtype, how):
    waveform = noise(torch.float32).to(dtype) if dtype.is_floating_point else noise(dtype)
    assert AudioEffector(**how).apply(waveform, RATE).dtype == dtype


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32, torch.int64, torch.float32, torch.float64])
def test_an_effect_keeps_the_dtype(dtype):
    waveform = noise(torch.float32).to(dtype) if dtype.is_floating_point else noise(dtype).abs().to(dtype)
    out = AudioEffector("anull").apply(waveform, RATE)
    assert out.dtype == dtype and torch.equal(out, waveform)


def test_an_effect_does_its_arithmetic_with_either_engine(monkeypatch, ffmpeg):
    waveform = noise()
    assert torch.allclose(AudioEffector("volume=0.5").apply(waveform, RATE), waveform / 2)
    monkeypatch.setattr(waveform_module, "has_libav", lambda: False)
    assert torch.allclose(AudioEffector("volume=0.5").apply(waveform, RATE), waveform / 2)


def test_branches_are_allowed_where_the_program_is(ffmpeg):
    graph = "asplit[a][b];[a]volume=0.25[c];[b]volume=0.25[d];[c][d]amix=inputs=2:normalize=0"
    assert torch.allclose(AudioEffector(graph).apply(noise(), RATE), noise() / 2, atol=1e-6)


def test_what_is_missing_at_the_end_is_filled_up_unless_told_otherwise():
    assert len(AudioEffector("atempo=2.0").apply(noise(), RATE)) == RATE
    assert 0.4 * RATE < len(AudioEffector("atempo=2.0", pad_end=False).apply(noise(), RATE)) < 0.6 * RATE


@pytest.mark.parametrize("format", ["wav", "mp3", "mulaw", "flac"])
def test_a_codec_leaves_length_and_rate(format):
    out = AudioEffector(format=format).apply(noise(), RATE)
    assert len(out) >= RATE and out.shape[1] == 2
    if format == "mulaw":
        assert torch.allclose(out, noise(), atol=0.02)
    assert len(AudioEffector(format=format).apply(noise(), RATE, output_sample_rate=16000)) >= 2 * RATE


def test_encoder_and_settings_belong_to_a_format():
    for wrong in ({"encoder": "libopus"}, {"codec_config": CodecConfig(bit_rate=8000)}):
        with pytest.raises(ValueError, match="format"):
            AudioEffector(**wrong)
    out = AudioEffector(format="ogg", encoder="libopus", codec_config=CodecConfig(bit_rate=16000)).apply(noise(), RATE)
    assert len(out) >= RATE and not torch.allclose(out[:RATE], noise(), atol=1e-3)


def test_streaming_gives_the_same_in_chunks():
    effector = AudioEffector("lowpass=1000", format="wav")
    chunks = list(effector.stream(noise(), RATE, 3000))
    assert [len(chunk) for chunk in chunks] == [3000, 3000, 2000]
    assert torch.equal(torch.cat(chunks), effector.apply(noise(), RATE))
    assert [len(chunk) for chunk in AudioEffector().stream(noise(), RATE, 3000)] == [3000, 3000, 2000]


def test_wrong_waveforms_and_effects_are_refused():
    with pytest.raises(ValueError, match="2 dimensions"):
        AudioEffector("anull").apply(torch.zeros(100), RATE)
    with pytest.raises(ValueError, match="complex64"):
        AudioEffector("anull").apply(torch.zeros(100, 1, dtype=torch.complex64), RATE)
    with pytest.raises(RuntimeError, match="nosuchfilter"):
        AudioEffector("nosuchfilter").apply(noise(), RATE)
    with pytest.raises(ValueError, match="frames_per_chunk"):
        AudioEffector("anull").stream(noise(), RATE, 0)


def test_apply_codec_is_a_round_trip_through_a_file():
    waveform = noise().T
    coded = apply_codec(waveform, RATE, "wav", encoding="ULAW", bits_per_sample=8)
    assert coded.shape == waveform.shape and 1e-4 < (coded - waveform).abs().max() < 0.02
    assert apply_codec(waveform.T, RATE, "flac", channels_first=False).shape == waveform.T.shape
    assert apply_codec(noise(frames=44100).T, 44100, "mp3", compression=64).shape[1] == 44100


def test_playing_without_loudspeakers_says_what_each_system_said(ffmpeg, monkeypatch):
    from flambeau.audio.io import playback

    monkeypatch.setattr(playback, "_speakers", lambda device: [("alsa", "hw:99,9")])
    with pytest.raises(MediaError, match=r"(?s)No sound system plays.*alsa"):
        play_audio(noise(), RATE)
    with pytest.raises(ValueError, match="sample_rate"):
        play_audio(noise(), None)


def test_playing_sends_the_samples_to_the_device(ffmpeg, monkeypatch, tmp_path):
    from flambeau.audio.io import playback

    monkeypatch.setattr(playback, "_speakers", lambda device: [("wav", str(tmp_path / "heard.wav"))])
    play_audio(noise(torch.int16), RATE)
    assert (tmp_path / "heard.wav").stat().st_size > RATE * 4

"""`load`, `save` and `info`: what is saved is loaded, slices are slices, and every backend tells one length."""

import io
import struct

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import flambeau.audio as audio
from flambeau.audio.backend import _wav
from flambeau.audio.io import CodecConfig

RATE = 16000


def tone(frames=RATE, channels=2, dtype=torch.float32):
    times = torch.arange(frames, dtype=torch.float64) / RATE
    rows = [0.4 * torch.sin(2 * torch.pi * 300 * (k + 1) * times) for k in range(channels)]
    wave = torch.stack(rows)
    if dtype.is_floating_point:
        return wave.to(dtype)
    if dtype == torch.uint8:
        return (wave * 100 + 128).to(dtype)
    return (wave.double() * torch.iinfo(dtype).max).to(dtype)


WAV = {torch.uint8: ("PCM_U", 8), torch.int16: ("PCM_S", 16), torch.int32: ("PCM_S", 32), torch.float32: ("PCM_F", 32),
       torch.float64: ("PCM_F", 64)}  # fmt: skip


@pytest.mark.parametrize("dtype", WAV)
def test_wav_keeps_the_dtype(tmp_path, dtype):
    path = tmp_path / "a.wav"
    audio.save(path, tone(dtype=dtype), RATE)
    found = audio.info(path)
    assert (found.encoding, found.bits_per_sample, found.num_frames, found.num_channels) == (*WAV[dtype], RATE, 2)
    stored, rate = audio.load(path, normalize=False)
    assert rate == RATE and stored.dtype == dtype and torch.equal(stored, tone(dtype=dtype))
    normal, _ = audio.load(path)
    assert normal.dtype == torch.float32 and normal.abs().max() <= 1
    for backend in audio.list_audio_backends():
        if backend != "sox":  # sox scales by its own integers
            assert torch.allclose(audio.load(path, backend=backend)[0], normal, atol=1e-7), backend


@pytest.mark.parametrize(
    ("encoding", "bits", "subtype"),
    [("PCM_S", 16, 16), ("PCM_S", 24, 24), ("PCM_S", 32, 32), ("PCM_U", 8, 8), ("PCM_F", 64, 64), ("ULAW", 8, 8),
     ("ALAW", 8, 8), ("PCM_S", None, 16), (None, 24, 24)],
)  # fmt: skip
def test_wav_takes_what_is_asked(tmp_path, encoding, bits, subtype):
    path = tmp_path / "a.wav"
    audio.save(path, tone(), RATE, encoding=encoding, bits_per_sample=bits)
    found = audio.info(path)
    assert (found.encoding, found.bits_per_sample) == (encoding or "PCM_S", subtype)
    assert torch.allclose(audio.load(path)[0], tone(), atol=0.03)


def test_24_bits_are_mapped_as_libsndfile_reads_them(tmp_path):
    path = tmp_path / "a.wav"
    audio.save(path, tone(channels=3), RATE, bits_per_sample=24)
    for normalize in (True, False):
        mapped, _ = audio.load(path, 10, 500, normalize=normalize)
        read, _ = audio.load(path, 10, 500, normalize=normalize, backend="soundfile")
        assert mapped.dtype == read.dtype and torch.equal(mapped, read)


@pytest.mark.parametrize("kind", ["flac", "ogg", "mp3", "opus", "sph", "m4a", "mka", "amr-nb"])
def test_info_and_load_tell_one_length_for_each_format(tmp_path, kind):
    if kind in ("m4a", "mka", "amr-nb"):
        pytest.importorskip("av")
    path = tmp_path / f"a.{kind.partition('-')[0]}"
    audio.save(path, tone(), RATE, format=kind)
    loaded, rate = audio.load(path)
    found = audio.info(path)
    assert (found.sample_rate, found.num_channels, found.num_frames) == (rate, *loaded.shape)
    if kind in ("flac", "ogg", "mp3", "sph"):
        assert loaded.shape == (2, RATE)
        assert torch.allclose(loaded[:, 4000:12000], tone()[:, 4000:12000], atol=0.05)
    part, _ = audio.load(path, 1000, 500, channels_first=False)
    assert part.shape == (500, found.num_channels)
    assert torch.allclose(part.T, loaded[:, 1000:1500], atol=1e-4)


@pytest.mark.parametrize("kind", ["wav", "flac", "m4a"])
def test_slices_end_where_the_recording_ends(tmp_path, kind):
    if kind == "m4a":
        pytest.importorskip("av")
    path = tmp_path / f"a.{kind}"
    audio.save(path, tone(100), RATE)
    length = audio.info(path).num_frames
    assert audio.load(path, length - 10, 50)[0].shape == (2, 10)
    assert audio.load(path, length + 5)[0].shape == (2, 0)
    for wrong in ({"frame_offset": -1}, {"num_frames": 0}, {"num_frames": -2}):
        with pytest.raises(ValueError, match=r"expected [01] or more"):
            audio.load(path, **wrong)


def test_objects_and_bytes_are_loaded_and_put_back(tmp_path):
    file = io.BytesIO()
    audio.save(file, tone(), RATE, format="flac")
    file.seek(0)
    assert audio.info(file).num_frames == RATE and file.tell() == 0
    assert torch.allclose(audio.load(file)[0], tone(), atol=1e-4)
    content = file.getvalue()
    for kind in (bytes, bytearray, memoryview, lambda value: np.frombuffer(value, np.uint8)):
        assert audio.load(kind(content))[0].shape == (2, RATE)


def test_compression_counts(tmp_path):
    noise = torch.rand(1, 2 * RATE) - 0.5
    sizes = {}
    for kind, levels in {"mp3": (32, 160), "ogg": (0, 9), "flac": (8, 0)}.items():
        for level in levels:
            audio.save(tmp_path / f"a.{kind}", noise if kind != "flac" else tone(), RATE, compression=level)
            sizes[kind, level] = (tmp_path / f"a.{kind}").stat().st_size
        assert sizes[kind, levels[0]] < sizes[kind, levels[1]], kind
    pytest.importorskip("av")
    audio.save(tmp_path / "a.mp3", noise, RATE, compression=CodecConfig(bit_rate=8000))
    assert (tmp_path / "a.mp3").stat().st_size < sizes["mp3", 32]


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        ("wav", {"encoding": "PCM_S", "bits_per_sample": 8}),
        ("wav", {"encoding": "FLAC"}),
        ("wav", {"compression": 5}),
        ("flac", {"encoding": "PCM_S"}),
        ("flac", {"bits_per_sample": 20}),
        ("flac", {"compression": 9}),
        ("mp3", {"bits_per_sample": 16}),
        ("mp3", {"compression": 1000}),
        ("ogg", {"compression": 11}),
    ],
)
def test_what_a_format_does_not_have_is_refused(tmp_path, kind, wrong):
    with pytest.raises(ValueError, match=r"(?i)(hold|leave out|is 8 to|quality|whole number)"):
        audio.save(tmp_path / f"a.{kind}", tone(), RATE, **wrong)
    assert not list(tmp_path.iterdir())


def test_wrong_calls_are_told(tmp_path):
    audio.save(tmp_path / "a.wav", tone(), RATE)
    with pytest.raises(ValueError, match="Unsupported backend 'tape'"):
        audio.load(tmp_path / "a.wav", backend="tape")
    with pytest.raises(ValueError, match="expected two dimensions, channels and time"):
        audio.save(tmp_path / "b.wav", torch.zeros(5), RATE)
    with pytest.raises(ValueError, match="format"):
        audio.save(io.BytesIO(), tone(), RATE)
    with pytest.raises(FileNotFoundError):
        audio.load(tmp_path / "absent.wav")
    with pytest.raises(RuntimeError, match="No such file"):
        audio.info(tmp_path / "absent.wav")
    (tmp_path / "junk.wav").write_bytes(b"junk" * 50)
    with pytest.raises(RuntimeError, match="Invalid data"):
        audio.load(tmp_path / "junk.wav")


def test_a_waveform_that_cannot_be_written_leaves_no_file(tmp_path):
    with pytest.raises(RuntimeError):
        audio.save(tmp_path / "a.mp3", tone(channels=7), RATE, backend="soundfile")
    assert not list(tmp_path.iterdir())


@given(
    st.integers(0, 300), st.integers(1, 300), st.integers(1, 3), st.sampled_from(sorted(WAV, key=str)), st.booleans()
)
@settings(max_examples=30, deadline=None)
def test_a_mapped_slice_is_a_slice_of_the_whole(tmp_path_factory, offset, count, channels, dtype, normalize):
    path = tmp_path_factory.mktemp("wav") / "a.wav"
    audio.save(path, tone(200, channels, dtype), RATE)
    whole, _ = audio.load(path, normalize=normalize)
    part, _ = audio.load(path, offset, count, normalize=normalize)
    assert part.is_contiguous() and torch.equal(part, whole[:, offset : offset + count])


def test_a_loaded_waveform_outlives_its_file(tmp_path):
    path = tmp_path / "a.wav"
    audio.save(path, tone(), RATE)
    loaded, _ = audio.load(path)
    loaded.add_(1)
    path.write_bytes(b"")
    assert loaded.mean() == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("size", [0, 0xFFFFFFFF, 10**6])
def test_a_length_that_the_header_does_not_know_is_the_files(tmp_path, size):
    path = tmp_path / "a.wav"
    audio.save(path, tone(100, 1, torch.int16), RATE)
    content = bytearray(path.read_bytes())
    at = content.index(b"data") + 4
    content[at : at + 4] = struct.pack("<I", size)
    path.write_bytes(content)
    assert _wav.read_layout(path).num_frames == 100
    assert torch.equal(audio.load(path, normalize=False)[0], tone(100, 1, torch.int16))


@pytest.mark.parametrize("claimed", [0, 2**36 - 1])
def test_flac_whose_header_does_not_know_the_length_is_read_whole(tmp_path, claimed):
    pytest.importorskip("av")
    path = tmp_path / "a.flac"
    audio.save(path, tone(), RATE)
    content = bytearray(path.read_bytes())
    content[21] = content[21] & 0xF0 | claimed >> 32  # 36 bits; 0 is what programs write into a pipe
    content[22:26] = (claimed & 0xFFFFFFFF).to_bytes(4, "big")
    path.write_bytes(content)
    for source in (path, bytes(content), io.BytesIO(content)):
        assert audio.info(source).num_frames == RATE
        assert torch.allclose(audio.load(source)[0], tone(), atol=1e-4)
    assert torch.allclose(audio.load(path, 1000, 50)[0], tone()[:, 1000:1050], atol=1e-4)
    with pytest.raises(RuntimeError, match="tells no length"):
        audio.load(path, backend="soundfile")


def test_a_format_chunk_of_any_length_is_no_burden(tmp_path):
    path = tmp_path / "a.wav"
    audio.save(path, tone(100, 1, torch.int16), RATE)
    content = bytearray(path.read_bytes())
    at = content.index(b"fmt ") + 4
    long = bytes(content[at + 4 : at + 20]) + bytes(60)
    path.write_bytes(content[:at] + struct.pack("<I", len(long)) + long + content[at + 20 :])
    assert torch.equal(audio.load(path, normalize=False)[0], tone(100, 1, torch.int16))
    path.write_bytes(content[:at] + b"\xff" * 4 + content[at + 4 :])
    assert _wav.read_layout(path) is None


def test_a_recording_longer_than_what_is_believed_at_first_is_whole(tmp_path, monkeypatch):
    from flambeau.audio.backend import _soundfile

    monkeypatch.setattr(_soundfile, "_FIRST", 1000)
    for frames in (999, 1000, 1001, 2000, 5000):
        audio.save(tmp_path / "a.flac", tone(frames), RATE)
        assert torch.allclose(audio.load(tmp_path / "a.flac")[0], tone(frames), atol=1e-4)
        assert torch.allclose(audio.load(tmp_path / "a.flac", 10, 1500)[0], tone(frames)[:, 10:1510], atol=1e-4)


@pytest.mark.parametrize("channels", [1, 2, 5])
def test_blocks_of_any_size_give_the_same_frames_in_both_layouts(tmp_path, monkeypatch, channels):
    from flambeau.audio.backend import _soundfile

    audio.save(tmp_path / "a.flac", tone(1000, channels), RATE)
    wanted = audio.load(tmp_path / "a.flac", channels_first=False)[0]
    for block in (1, 7 * channels, 2**16):
        monkeypatch.setattr(_soundfile, "_BLOCK", block)
        found = audio.load(tmp_path / "a.flac")[0]
        assert torch.equal(found, wanted.T) and found.is_contiguous()
        found = audio.load(tmp_path / "a.flac", 3, 500)[0]
        assert torch.equal(found, wanted.T[:, 3:503]) and found.is_contiguous()


def test_files_are_read_also_through_soundfiles_public_names_alone(tmp_path):
    import soundfile

    from flambeau.audio.backend import _soundfile

    class Public:
        def __init__(self, file):
            self.channels, self.read = file.channels, file.read

    audio.save(tmp_path / "a.flac", tone(1000), RATE)
    wanted = audio.load(tmp_path / "a.flac")[0].numpy()
    with soundfile.SoundFile(tmp_path / "a.flac") as file:
        assert (_soundfile._read_planar(Public(file), 1000, "float32") == wanted).all()
        file.seek(0)
        assert (_soundfile._read(Public(file), 1000, "float32") == wanted.T).all()


def test_a_wav_under_the_name_of_another_format_is_read_as_what_it_is(tmp_path):
    audio.save(tmp_path / "a.wav", tone(100, 2, torch.int16), RATE)
    (tmp_path / "a.wav").rename(tmp_path / "a.flac")
    assert torch.equal(audio.load(tmp_path / "a.flac", normalize=False)[0], tone(100, 2, torch.int16))
    assert audio.info(tmp_path / "a.flac").encoding == "PCM_S"


def test_upstreams_other_names_work(tmp_path):
    from flambeau.audio.backend import no_backend, soundfile_backend

    audio.set_audio_backend("soundfile")
    assert audio.get_audio_backend() is None and "soundfile" in audio.list_audio_backends()
    audio.save_with_torchcodec(tmp_path / "a.wav", tone(), RATE)
    assert torch.equal(audio.load_with_torchcodec(tmp_path / "a.wav")[0], tone())
    assert soundfile_backend.info(tmp_path / "a.wav") == no_backend.info(tmp_path / "a.wav")
    assert isinstance(audio.info(tmp_path / "a.wav"), audio.AudioMetaData)


def test_what_cannot_be_written_is_called_by_its_own_name(tmp_path):
    for name, channels in (("a.nope", 1), ("a.flac", 12)):
        with pytest.raises(RuntimeError, match=f"/{name}'") as caught:
            audio.save(tmp_path / name, torch.zeros(channels, 100), RATE)
        assert "partial" not in str(caught.value)
    with pytest.raises(ValueError, match="compression is 'best'"):
        audio.save(tmp_path / "a.mp3", tone(), RATE, compression="best")
    assert list(tmp_path.iterdir()) == []


def test_vorbis_of_more_channels_than_it_has_is_refused(tmp_path):
    with pytest.raises(RuntimeError):
        audio.save(tmp_path / "a.ogg", torch.zeros(300, 100), RATE)
    assert list(tmp_path.iterdir()) == []


def test_wma_is_written_though_its_encoder_has_no_bit_rate_of_its_own(tmp_path):
    audio.save(tmp_path / "a.wma", tone(), RATE)
    assert audio.info(tmp_path / "a.wma").num_channels == 2

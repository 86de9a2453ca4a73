"""Tacotron 2, WaveRNN and HiFi-GAN."""

from __future__ import annotations

import pytest
import torch

from flambeau.audio import models
from flambeau.audio.models.wavernn import UpsampleNetwork
from flambeau.audio.prototype.models import hifigan_vocoder

TINY = {
    "n_mels": 4,
    "n_symbol": 12,
    "symbol_embedding_dim": 8,
    "encoder_embedding_dim": 8,
    "decoder_rnn_dim": 12,
    "decoder_max_step": 6,
    "attention_rnn_dim": 10,
    "attention_hidden_dim": 6,
    "attention_location_n_filter": 3,
    "attention_location_kernel_size": 5,
    "prenet_dim": 7,
    "postnet_embedding_dim": 8,
}


def tacotron(**changes: object) -> torch.nn.Module:
    torch.manual_seed(0)
    return models.Tacotron2(**TINY | changes).eval()


def test_two_frames_per_step_give_as_many_frames_and_half_the_steps():
    model = tacotron(n_frames_per_step=2, mask_padding=True)
    tokens, lengths = torch.randint(12, (2, 5)), torch.tensor([5, 3])
    mel, refined, gates, alignments = model(tokens, lengths, torch.randn(2, 4, 7), torch.tensor([6, 4]))
    assert mel.shape == refined.shape == (2, 4, 6)
    assert gates.shape == (2, 3)
    assert alignments.shape == (2, 3, 5)
    assert (mel[1, :, 4:] == 0).all()


def test_items_need_no_order_of_length(monkeypatch):
    monkeypatch.setattr(torch.nn.functional, "dropout", lambda x, *_, **__: x)
    model, mel = tacotron(), torch.randn(2, 4, 3)
    tokens, lengths = torch.randint(12, (2, 5)), torch.tensor([3, 5])
    forwards = model(tokens, lengths, mel, torch.tensor([3, 3]))[0]
    backwards = model(tokens.flip(0), lengths.flip(0), mel.flip(0), torch.tensor([3, 3]))[0].flip(0)
    torch.testing.assert_close(forwards, backwards)


def test_bidirectional_encoder_equals_packing():
    from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

    from flambeau.audio.models.tacotron2 import _both_directions

    lstm, x, lengths = torch.nn.LSTM(3, 4, batch_first=True, bidirectional=True), torch.randn(3, 6, 3), [6, 2, 4]
    packed = lstm(pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False))[0]
    expected, _ = pad_packed_sequence(packed, batch_first=True)
    torch.testing.assert_close(_both_directions(lstm, x, torch.tensor(lengths)), expected)


def test_speech_that_never_ends_is_cut_off_with_a_warning():
    model = tacotron(gate_threshold=2.0)
    with pytest.warns(UserWarning, match=r"Reached max decoder steps \(6\)"):
        mel, lengths, alignments = model.infer(torch.randint(12, (1, 5)))
    assert mel.shape == (1, 4, 6)
    assert lengths.tolist() == [6]
    assert alignments.shape == (1, 6, 5)


def test_tacotron_compiles_as_one_graph(monkeypatch):
    monkeypatch.setattr(torch.nn.functional, "dropout", lambda x, *_, **__: x)
    torch.compiler.reset()
    model = tacotron()
    inputs = (torch.randint(12, (2, 5)), torch.tensor([5, 3]), torch.randn(2, 4, 3), torch.tensor([3, 2]))
    with torch.no_grad():
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")(*inputs)
        torch.testing.assert_close(compiled[0], model(*inputs)[0], rtol=1e-4, atol=1e-5)


def wavernn() -> models.WaveRNN:
    torch.manual_seed(0)
    return models.WaveRNN([2, 3], 16, 6, 1, 12, 12, 5, 4, 8, 8).eval()


def test_drawn_samples_are_the_likely_ones_of_the_network(monkeypatch):
    # With the most probable level instead of a random one, drawing must agree with `forward` on its own output.
    monkeypatch.setattr(torch, "multinomial", lambda p, count: p.argmax(1, keepdim=True))
    model, specgram = wavernn(), torch.randn(2, 4, 5)
    waveform, lengths = model.infer(specgram, torch.tensor([5, 3]))
    assert waveform.shape == (2, 1, 30)
    assert lengths.tolist() == [30, 18]
    before = torch.nn.functional.pad(waveform, (1, 0))[..., :-1]
    with torch.no_grad():
        logits = model(before, torch.nn.functional.pad(specgram, (2, 2)).unsqueeze(1))
    levels = logits.argmax(-1) * 2 / 15 - 1
    torch.testing.assert_close(levels, waveform)


def test_scales_that_do_not_make_up_the_hop_are_refused():
    with pytest.raises(ValueError, match=r"to be hop_length, 7; found \[2, 3\], whose product is 6"):
        models.WaveRNN([2, 3], 16, 7)


def test_upsampling_gives_hop_times_the_inner_frames():
    stretched, features = UpsampleNetwork([2, 3], 1, 4, 8, 8, 5)(torch.randn(1, 4, 9))
    assert stretched.shape == (1, 4, 30)
    assert features.shape == (1, 8, 30)


@pytest.mark.parametrize("kind", [1, 2])
def test_vocoder_gives_as_many_samples_as_its_rates_say(kind):
    vocoder = hifigan_vocoder(4, (4, 2), 8, (8, 4), (3, 5), ((1, 3), (1, 2)), kind, 0.1)
    waveform = vocoder(torch.randn(1, 4, 6))
    assert waveform.shape == (1, 1, 48)
    assert waveform.abs().max() <= 1


def test_another_kind_of_block_is_refused():
    with pytest.raises(ValueError, match="resblock_type is 3, expected 1 or 2"):
        hifigan_vocoder(4, (4,), 8, (8,), (3,), ((1,),), 3, 0.1)

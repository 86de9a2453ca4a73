"""The example that recognises streams: files, the network, and the pieces it is made of."""

import functools
import http.server
import sys
import threading
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
import streaming_asr
from rnnt.corpus import utterances
from rnnt.evaluation import transcribe
from rnnt.result import bundle_from
from streaming_asr import ContextCacher, bundle_of, show

from flambeau.audio.pipelines import EMFORMER_RNNT_BASE_LIBRISPEECH
from flambeau.audio.prototype.pipelines import EMFORMER_RNNT_BASE_MUSTC

ROOM = "LibriSpeech/train-clean-100"


@pytest.mark.parametrize("count", [10, 12, 3])
def test_each_chunk_begins_with_the_end_of_the_one_before(count):
    samples, cacher = torch.arange(1.0, 1 + count), ContextCacher(segment_length=4, context_length=2)
    found = torch.stack([cacher(chunk) for chunk in samples.split(4)])
    padded = torch.cat([torch.zeros(2), samples, torch.zeros(-count % 4)])
    assert torch.equal(found, padded.unfold(0, 6, 4))


def test_a_chunk_that_is_too_long_is_refused():
    with pytest.raises(ValueError, match="has 5 samples, expected at most 4"):
        ContextCacher(4, 2)(torch.zeros(5))


def test_a_context_longer_than_a_chunk_reaches_back_over_several():
    cacher = ContextCacher(segment_length=1, context_length=3)
    assert [cacher(torch.tensor([value])).tolist() for value in (1.0, 2.0)] == [[0, 0, 0, 1], [0, 0, 1, 2]]


@pytest.mark.parametrize("number", [0, 1])
def test_a_file_is_understood_as_the_whole_recording_is(trained, spoken, capsys, number):
    folder, corpus = trained[0], utterances(spoken, ["train-clean-100"])[:2]
    path = spoken / ROOM / f"1/101/1-101-000{number}.flac"
    streaming_asr.main([str(path), "--weights", str(folder), "--beam-width", "4"])
    whole = transcribe(bundle_from(folder), corpus, beam_width=4, device="cpu")[number]
    assert capsys.readouterr().out.splitlines()[-1] == whole == corpus[number].transcript.lower()


def test_an_address_is_listened_to(trained, spoken, capsys):
    handler = functools.partial(_Quiet, directory=str(spoken / ROOM))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            address = f"http://127.0.0.1:{server.server_port}/1/101/1-101-0001.flac"
            streaming_asr.main([address, "--weights", str(trained[0])])
        finally:
            server.shutdown()
            thread.join()
    assert capsys.readouterr().out.splitlines()[-1] == "turn it off now"


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def test_words_come_before_the_end_and_in_time_with_the_sound(trained, spoken, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(streaming_asr.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(streaming_asr.time, "sleep", lambda seconds: clock.__setitem__(0, clock[0] + seconds))
    bundle = bundle_from(trained[0])
    with streaming_asr.StreamReader(str(spoken / ROOM / "1/101/1-101-0000.flac")) as reader:
        chunks = streaming_asr.listen(reader, bundle, realtime=True)
        texts = [(clock[0], text) for text in streaming_asr.recognise(chunks, bundle)]
    duration = utterances(spoken, ["train-clean-100"])[0].waveform().shape[0] / 16_000
    assert clock[0] == pytest.approx(duration)
    assert texts[0][0] == pytest.approx(0.16)
    first = next(time for time, text in texts if text)
    assert first < duration


def test_a_network_that_hears_all_at_once_is_refused(trained, spoken, train, tmp_path):
    train(tmp_path, "--model", "conformer", "--steps", "1", "--held-out", "--tests")
    with pytest.raises(RuntimeError, match="A Conformer hears all before it answers"):
        streaming_asr.main([str(spoken / ROOM / "1/101/1-101-0000.flac"), "--weights", str(tmp_path)])


def test_what_is_new_is_printed_and_what_changes_gets_a_line(capsys):
    assert show(["", "he", "he", "hello", "hello you", "help", "help"]) == "help"
    assert capsys.readouterr().out == "hello you\nhelp\n"


def test_bundles_have_names():
    assert bundle_of("EMFORMER_RNNT_BASE_LIBRISPEECH") is EMFORMER_RNNT_BASE_LIBRISPEECH
    assert bundle_of("EMFORMER_RNNT_BASE_MUSTC") is EMFORMER_RNNT_BASE_MUSTC
    with pytest.raises(
        ValueError, match=r"'LIBRISPEECH' is no folder, and no bundle; expected.*EMFORMER_RNNT_BASE_MUSTC"
    ):
        bundle_of("LIBRISPEECH")

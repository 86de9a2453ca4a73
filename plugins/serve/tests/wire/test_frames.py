"""Frames: what is written is read, in whatever pieces it arrives; anything else is refused."""

from __future__ import annotations

import socket
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flambeau.serve.errors import FrameError
from flambeau.serve.wire.frames import FrameReader, frame_bytes, receive_frame, send_frame
from flambeau.serve.wire.messages import Answer, Item, Part, pack_answers, pack_batch, unpack_answers, unpack_batch

MESSAGES = st.dictionaries(st.text(max_size=5).filter(lambda key: key != "sizes"), st.integers(-(2**53), 2**53))
PARTS = st.lists(st.binary(max_size=200), max_size=4)


@given(st.lists(st.tuples(MESSAGES, PARTS), min_size=1, max_size=4), st.data())
def test_frames_arrive_whole_in_whatever_pieces(frames, data):
    stream = b"".join(bytes(part) for message, parts in frames for part in frame_bytes(message, parts))
    reader, found, start = FrameReader(), [], 0
    while start < len(stream):
        size = data.draw(st.integers(1, len(stream) - start))
        found += reader.feed(stream[start : start + size])
        start += size
    assert [(frame.message, frame.parts) for frame in found] == frames


def test_a_blocking_socket_gives_frames_and_then_the_end():
    here, there = socket.socketpair()
    big = b"x" * 3_000_000
    writer = threading.Thread(target=lambda: (send_frame(here, {"kind": "a"}, [big, b""]), here.close()))
    writer.start()
    frame = receive_frame(there)
    assert frame is not None and frame.message == {"kind": "a"} and frame.parts == [big, b""]
    assert receive_frame(there) is None
    writer.join()
    there.close()


@pytest.mark.parametrize(
    "stream",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"FLB1" + b"\xff" * 12,
        b"FLB1" + (2).to_bytes(4, "big") + (0).to_bytes(8, "big") + b"[]",
        b"FLB1" + (2).to_bytes(4, "big") + (0).to_bytes(8, "big") + b"{}",
        b"FLB1" + (13).to_bytes(4, "big") + (0).to_bytes(8, "big") + b'{"sizes":[5]}',
        b"FLB1" + (16).to_bytes(4, "big") + (0).to_bytes(8, "big") + b'{"sizes":[-1,1]}',
    ],
    ids=["http", "sizes beyond bounds", "no object", "no sizes", "parts missing", "negative size"],
)
def test_what_is_no_frame_is_refused(stream):
    with pytest.raises(FrameError):
        list(FrameReader().feed(stream))


def test_a_frame_that_is_cut_short_is_refused():
    here, there = socket.socketpair()
    here.sendall(frame_bytes({"kind": "a"})[0][:-1])
    here.close()
    with pytest.raises(FrameError, match="cut short"):
        receive_frame(there)
    there.close()


def test_batches_and_answers_come_back_as_they_were():
    items = [
        Item("1", [Part("a", b"\0\xff", "image/png", "ü.png"), Part("b", b"")], {"x": "y"}, {"top": "2"}, "predict"),
        Item("2", [], {}, {}, "describe"),
    ]
    (frame,) = FrameReader().feed(b"".join(map(bytes, frame_bytes(*pack_batch(7, items)))))
    assert frame.message["batch"] == 7 and unpack_batch(frame) == items
    answers = [Answer(b"{}"), Answer(b"no", status=400, error="BadRequestException", headers={"a": "b"})]
    (frame,) = FrameReader().feed(b"".join(map(bytes, frame_bytes(*pack_answers(7, answers, rss=3)))))
    assert unpack_answers(frame) == answers and frame.message["rss"] == 3

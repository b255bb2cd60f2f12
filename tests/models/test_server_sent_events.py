"""Server-sent events, however the network cuts them."""

from __future__ import annotations

import itertools
import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisorchain.models.http.server_sent_events import EventDecoder


def decode(*pieces: bytes) -> list[str]:
    decoder = EventDecoder()
    return [event for piece in pieces for event in decoder.feed(piece)] + decoder.finish()


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"data: a\n\ndata: b\n\n", ["a", "b"]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", ["a", "b"]),
        (b"data: a\r\rdata: b\r\r", ["a", "b"]),
        (b"data:a\n\n", ["a"]),
        (b"data: first\ndata: second\n\n", ["first\nsecond"]),
        (b": a comment\nevent: message\nid: 7\nretry: 3\ndata: a\n\n", ["a"]),
        (b"\n\n\ndata: a\n\n\n\n", ["a"]),
        (b"data: no empty line at the end", ["no empty line at the end"]),
        (b"", []),
    ],
)
def test_forms(stream: bytes, events: list[str]) -> None:
    assert decode(stream) == events


def test_characters_that_end_lines_elsewhere_do_not_end_one_here() -> None:
    text = "one\u2028two\u0085three\x0bfour\x1cfive"
    data = json.dumps({"text": text}, ensure_ascii=False)
    assert [json.loads(event)["text"] for event in decode(f"data: {data}\n\n".encode())] == [text]


@given(
    events=st.lists(st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), min_size=1)),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    cuts=st.lists(st.integers(0, 400)),
)
def test_every_cut_gives_the_same_events(events: list[str], end: str, cuts: list[int]) -> None:
    stream = "".join(f"data: {event}{end}{end}" for event in events).encode()
    edges = [0, *sorted(cut for cut in cuts if cut < len(stream)), len(stream)]
    pieces = [stream[start:stop] for start, stop in itertools.pairwise(edges)]
    assert decode(*pieces) == events


def test_a_long_line_costs_no_more_than_its_length() -> None:
    """A picture comes as one line of many megabytes, in pieces of some kilobytes."""
    piece = b"A" * 4096
    started = time.process_time()
    [event] = decode(b"data: ", *[piece] * 2000, b"\n\n")
    assert len(event) == 2000 * len(piece)
    assert time.process_time() - started < 5, "every piece looked at again with every other one takes a minute"

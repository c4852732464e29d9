"""Events of a stream are the same however its bytes come; nothing of a server fills the memory."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from harness.serving.network.openai.sse import MAX_EVENT_BYTES, EventParser, EventTooLongError

ENDS = (b"\n", b"\r\n", b"\r")
LINES = st.sampled_from(
    [
        b"data: one",
        b"data:two",
        b"data",
        b"data: ",
        b": ping",
        b"event: x",
        b"id: 3",
        b"",
        b"datas: n",
    ]
)


def whole(content: bytes) -> list[bytes]:
    """Read events as the standard says, all bytes at once: the slow and plain way."""
    text = content.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    events, data = [], list[bytes]()
    for line in text.split(b"\n")[:-1]:
        name, _, value = line.partition(b":")
        if not line and data:
            events.append(b"\n".join(data))
            data = []
        elif name == b"data":
            data.append(value.removeprefix(b" "))
    return events


def parse(*pieces: bytes) -> list[bytes]:
    parser = EventParser()
    return [event for piece in pieces for event in parser.feed_piece(piece)]


@given(
    st.lists(st.tuples(LINES, st.sampled_from(ENDS))),
    st.lists(st.integers(0, 200)),
    st.booleans(),
)
@example([(b"data: one", b"\r"), (b"", b"\n"), (b"data:two", b"\n"), (b"", b"\n")], [10], False)
@example([(b"data: one", b"\n"), (b"", b"\n")], [1, 2], True)
def test_any_split_of_any_lines_gives_the_same_events(
    lines: list[tuple[bytes, bytes]], cuts: list[int], marked: bool
):
    content = b"\xef\xbb\xbf" * marked + b"".join(line + end for line, end in lines)
    places = sorted({0, len(content), *(cut % (len(content) + 1) for cut in cuts)})
    pieces = [content[a:b] for a, b in zip(places, places[1:], strict=False)]
    assert parse(*pieces) == whole(content)
    assert parse(*(content[place : place + 1] for place in range(len(content)))) == whole(content)


def test_an_event_without_its_blank_line_does_not_count():
    assert parse(b"data: one\n\ndata: two\n") == [b"one"]


def test_lines_of_one_event_are_joined():
    assert parse(b"data: a\ndata\ndata:  b\n\n") == [b"a\n\n b"]


@pytest.mark.parametrize("line", [b"data: ", b": ", b"x"])
def test_a_line_without_an_end_is_not_kept_for_ever(line: bytes):
    parser, piece = EventParser(), bytes(1 << 16)
    parser.feed_piece(line)
    with pytest.raises(EventTooLongError):
        for _ in range(2 * MAX_EVENT_BYTES // len(piece)):
            parser.feed_piece(piece)


def test_many_lines_of_one_event_are_not_kept_for_ever():
    parser, piece = EventParser(), b"data: " + bytes(1 << 14) + b"\n"
    with pytest.raises(EventTooLongError):
        for _ in range(2 * MAX_EVENT_BYTES // len(piece)):
            parser.feed_piece(piece)


def test_a_long_stream_of_short_events_is_read():
    parser = EventParser()
    count = sum(len(parser.feed_piece(b"data: x\n\n: ping\n\n")) for _ in range(300_000))
    assert count == 300_000

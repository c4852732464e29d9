"""Whatever form an error has, what it says is told, and never "None"."""

import gzip
import json
import zlib
from typing import Any

import pytest

from harness.serving.network.openai.refusal_text import describe_refusal

FORBIDDEN = {"type": "extra_forbidden", "msg": "Extra inputs are not permitted", "input": {}}


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"error": {"message": "over\nloaded", "type": "x"}}, "over loaded"),
        ({"error": "no model", "error_type": "validation"}, "no model"),
        ({"error": {"error": {"message": "worker died"}}}, "worker died"),
        ({"object": "error", "message": "bad"}, "bad"),
        ({"detail": "Not Found"}, "Not Found"),
        (
            {"detail": [FORBIDDEN | {"loc": ["body", "stream_options"]}]},
            "body.stream_options: Extra inputs are not permitted",
        ),
        (
            {"message": {"detail": [FORBIDDEN | {"loc": ["body", "messages", 0]}]}},
            "body.messages.0: Extra inputs are not permitted",
        ),
        ({"errors": [{"code": 7003, "message": "No route"}], "success": False}, "No route"),
        ({"code": 20012, "msg": "Model does not exist"}, "Model does not exist"),
        ([{"error": {"code": 400, "message": "invalid argument"}}], "invalid argument"),
        ({"error": None, "detail": "gone"}, "gone"),
        ({"error": {"code": 503}}, '{"error": {"code": 503}}'),
        ({"error": {"message": None}}, '{"error": {"message": null}}'),
        ({"status": "failed"}, '{"status": "failed"}'),
        ([], "[]"),
        ("plainly no", "plainly no"),
        (7, "7"),
        (None, "null"),
    ],
)
def test_every_form_of_an_error_is_told(document: Any, said: str):
    assert describe_refusal(json.dumps(document).encode()) == f": {said}"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", ""),
        (b" \r\n", ""),
        (b"<html>\r\n<h1>429 Too Many Requests</h1>", ": <html> <h1>429 Too Many Requests</h1>"),
        (b"\xff\xfe", ": \ufffd\ufffd"),
    ],
)
def test_what_is_no_json_is_told_as_it_is(body: bytes, said: str):
    assert describe_refusal(body) == said


def test_errors_within_errors_end():
    body = b'{"error":' * 900 + b'"deep"' + b"}" * 900
    assert describe_refusal(body).startswith(': {"error":{"error":')


@pytest.mark.parametrize(
    ("coding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress), ("identity", bytes)]
)
def test_a_compressed_error_is_unpacked(coding: str, pack: Any):
    body = pack(json.dumps({"message": "stream_options is not supported"}).encode())
    assert describe_refusal(body, coding) == ": stream_options is not supported"


@pytest.mark.parametrize(("coding", "body"), [("br", b"\x0b\x02"), ("gzip", b"no gzip")])
def test_what_cannot_be_unpacked_is_named(coding: str, body: bytes):
    assert describe_refusal(body, coding) == f" with a compressed text ({coding})"


def test_a_small_body_that_unpacks_to_much_is_cut():
    body = gzip.compress(b"x" * (1 << 28))
    assert len(describe_refusal(body, "gzip")) < 300

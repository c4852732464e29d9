"""The fuzzer's mutations: bytes, lines, values and JSON trees are changed, and one seed is spliced
with another.
"""

import json
import random
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

DEEP: Final = 3_000
"""Levels: more than any parser here recurses."""
DIGITS: Final = 5_000
"""More than Python turns into a number."""
REPEATS: Final = (2, 3, 40, 400)
LONGEST: Final = 1 << 18
"""Bytes of an input that repeating and splicing lead to; larger files have tests with a time limit
of their own.
"""
ODD: Final = (
    b"NaN",
    b"Infinity",
    b"-Infinity",
    b"nan",
    b"inf",
    b"1e999",
    b"-1e999",
    b"1e308",
    b"1e-999",
    b"-0",
    b"0",
    b"-1",
    b"1",
    b"0.5",
    b"1_0",
    b"+7",
    b"07",
    b"0x10",
    b"0.871-0",
    b"--1",
    b"1e",
    b".",
    b"18446744073709551616",
    b"9223372036854775808",
    b"-9223372036854775809",
    b"1" * 40,
    b"9" * 400,
    b"9" * DIGITS,
    b"0x" + b"f" * DIGITS,
    b"null",
    b"true",
    b"false",
    b'""',
    b"''",
    b"{}",
    b"[]",
    b'"x"',
    b'["a", 1]',
    b'{"a": 1, "a": 2}',
    b'{"a": NaN}',
    b"2020-01-01",
    b"[" * DEEP + b"]" * DEEP,
    b"[" * DEEP,
    b'{"a":' * DEEP,
    b'{"a":' * 400 + b"1" + b"}" * 400,
    b"{a=" * DEEP,
    b"a." * DEEP + b"a = 1\n",
    b"[[[]]]",
    b"\0",
    b"\r",
    b"\n",
    b"\r\n",
    b"\x0b\x0c\x1c\x85",
    b"'",
    b'"',
    b"\\",
    b"\\u0000",
    b'"\\ud800"',
    b'"\xff\xfe"',
    b"\xff",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b"\x1b[2J",
    "²".encode(),
    "٣".encode(),
    "１２".encode(),
    "½".encode(),
    "\u2028".encode(),
    "\N{GRINNING FACE}".encode(),
    b":::MLLOG ",
    b":::MLL 1 x: ",
    b":::MLL ",
    b"MLPerf: resnet [06/01/19 10:00:00], ",
    b"* ",
    b": ",
    b"=",
    b"#",
    b"%s",
    b"../../x",
    b"/etc/passwd",
    b"C:\\x",
)
"""What a value, or a place between two bytes, may be replaced by."""
TREES: Final[tuple[Any, ...]] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    10**30,
    -(10**30),
    10**400,
    1.5,
    -0.0,
    1e308,
    float("nan"),
    float("inf"),
    "",
    "x",
    "²",
    "../../x",
    "\0",
    "\ud800",
    "a" * 5000,
    [],
    [[]],
    [1, 2],
    ["a"] * 50,
    {},
    {"a": {"b": []}},
)
"""What a value of a JSON tree may become."""
VALUE: Final = re.compile(rb'(?<=[:=\[, ])\s*(?:"(?:[^"\\\n]|\\.){0,200}"|[-+\w.]{1,80})')
"""Something that is told: a text in quotes, or a word or number behind a sign."""
NUMBER: Final = re.compile(rb"[0-9]+(?:\.[0-9]+)?")
TOKEN: Final = b":::MLLOG "


def changed(dice: random.Random, content: bytes, others: Sequence[bytes]) -> bytes:
    """Spoil a file in one to four ways."""
    for _ in range(dice.choice((1, 1, 1, 2, 2, 4))):
        content = dice.choice(CHANGES)(dice, content, others)[:LONGEST]
    return content


def span(dice: random.Random, content: bytes) -> tuple[int, int]:
    """Choose a stretch of bytes."""
    begin = dice.randrange(len(content) + 1)
    return begin, min(len(content), begin + dice.choice((0, 1, 1, 2, 7, 60, 4000)))


def flipped(dice: random.Random, content: bytes, others: Sequence[bytes]) -> bytes:
    """Flip a few bits."""
    found = bytearray(content)
    for _ in range(dice.choice((1, 1, 3, 20)) if found else 0):
        found[dice.randrange(len(found))] ^= 1 << dice.randrange(8)
    return bytes(found)


def cut(dice: random.Random, content: bytes, others: Sequence[bytes]) -> bytes:
    """End early, begin late, or lose a stretch."""
    begin, end = span(dice, content)
    return dice.choice((content[:begin], content[begin:], content[:begin] + content[end:]))


def doubled(dice: random.Random, content: bytes, others: Sequence[bytes]) -> bytes:
    """Repeat a stretch."""
    begin, end = span(dice, content)
    return content[:end] + content[begin:end] * dice.choice(REPEATS) + content[end:]


def inserted(dice: random.Random, content: bytes, others: Sequence[bytes]) -> bytes:
    """Put something odd in place of a stretch, or at the start."""
    begin, end = span(dice, content) if dice.random() < 0.9 else (0, 0)
    return content[:begin] + dice.choice(ODD) + content[end:]


def garbled(dice: random.Random, content: bytes, others: Sequence[bytes]) -> bytes:
    """Put random bytes in place of a stretch."""
    begin, end = span(dice, content)
    return content[:begin] + dice.randbytes(dice.choice((1, 2, 8, 64))) + content[end:]


def replaced(dice: random.Random, content: bytes, others: Sequence[bytes]) -> bytes:
    """Put something odd in place of a value."""
    return swapped(dice, content, VALUE)


def renumbered(dice: random.Random, content: bytes, others: Sequence[bytes]) -> bytes:
    """Put something odd in place of a number."""
    return swapped(dice, content, NUMBER)


def swapped(dice: random.Random, content: bytes, pattern: re.Pattern[bytes]) -> bytes:
    """Put something odd in place of the first match behind a random place."""
    match = pattern.search(content, dice.randrange(len(content) + 1)) or pattern.search(content)
    return (
        content[: match.start()] + dice.choice(ODD) + content[match.end() :] if match else content
    )


def relined(dice: random.Random, content: bytes, others: Sequence[bytes]) -> bytes:
    """Lose, repeat, glue or exchange lines."""
    lines = content.split(b"\n")
    one, other = dice.randrange(len(lines)), dice.randrange(len(lines))
    match dice.randrange(4):
        case 0:
            del lines[one]
        case 1:
            lines[one:one] = [lines[other]] * dice.choice(REPEATS)
        case 2:
            lines[one] = b"".join(lines[one : one + 2])
        case _:
            lines[one], lines[other] = lines[other], lines[one]
    return b"\n".join(lines)


def spliced(dice: random.Random, content: bytes, others: Sequence[bytes]) -> bytes:
    """Go on with another file."""
    other = dice.choice(others)
    return content[: dice.randrange(len(content) + 1)] + other[dice.randrange(len(other) + 1) :]


def recoded(dice: random.Random, content: bytes, others: Sequence[bytes]) -> bytes:
    """Write it as another program would."""
    text = content.decode("latin-1")
    forms = (
        content.replace(b"\n", b"\r\n"),
        content.replace(b"\n", b""),
        b"\xef\xbb\xbf" + content,
    )
    return dice.choice((b"", *forms, text.encode("utf-16"), text.encode("utf-8")))


def regrown(dice: random.Random, content: bytes, others: Sequence[bytes]) -> bytes:
    """Change one place in the tree of a JSON document, or of one line's; anything else is spoilt as
    bytes.
    """
    lines = content.split(b"\n") if content.startswith((TOKEN, b"[\n{")) else [content]
    at = dice.randrange(len(lines))
    head, token, text = lines[at].rpartition(TOKEN)
    try:
        tree = json.loads(text.rstrip(b","))
        lines[at] = (
            head
            + token
            + json.dumps(changed_tree(dice, tree)).encode()
            + b"," * text.endswith(b",")
        )
    except (ValueError, RecursionError):
        return inserted(dice, content, others)
    return b"\n".join(lines)


def changed_tree(dice: random.Random, tree: Any) -> Any:
    """Change a random node: another value, a name lost or added, a list that grows, a level
    more.
    """
    if not isinstance(tree, dict | list) or not tree or dice.random() < 0.1:
        return dice.choice((*TREES, [tree], {"x": tree}))
    key = dice.choice(list(tree)) if isinstance(tree, dict) else dice.randrange(len(tree))
    match dice.randrange(8):
        case 0:
            del tree[key]
        case 1 if isinstance(tree, dict):
            tree[dice.choice(("", "x", "metadata", "key", "²"))] = dice.choice(TREES)
        case 1:
            tree *= dice.choice(REPEATS)
        case 2:
            tree[key] = dice.choice(TREES)
        case _:
            tree[key] = changed_tree(dice, tree[key])
    return tree


CHANGES: Final[tuple[Callable[[random.Random, bytes, Sequence[bytes]], bytes], ...]] = (
    flipped,
    cut,
    doubled,
    inserted,
    inserted,
    garbled,
    replaced,
    replaced,
    renumbered,
    renumbered,
    relined,
    spliced,
    recoded,
    regrown,
    regrown,
)

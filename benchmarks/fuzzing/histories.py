"""The readers of a history in git, which `podium history` reads, adds to and draws."""

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from compliance.kinds.podium.documents.history import read_history_file
from compliance.logs.source_file import SourceFile
from compliance.rules import judge_document
from fuzzing.changes import changed
from fuzzing.reading import Reader, each, parsed
from fuzzing.seeds import EXAMPLES
from submissions.history.adding import build_new_lines
from submissions.history.commits import Commit
from submissions.history.page import write_history_pictures
from submissions.history.reading import AddedResult
from submissions.history.reports import (
    HISTORY_REPORTS,
    iterate_commit_lines,
    render_history_summary,
)
from submissions.history.series import build_series
from submissions.history.verdicts import CheckSettings, check_series
from suite.errors import PodiumError
from suite.history.book import append_history_lines, read_history
from suite.history.records import (
    DIGEST_FIELD,
    HISTORY_FILE,
    HistoryLine,
    compute_line_digest,
    decode_history_line,
    encode_canonically,
    encode_history_line,
)

LEVELS: Final = (100.0,) * 7 + (80.0,) * 6 + (101.0,) * 5
"""A series that becomes slower, and recovers."""
RESEALED_SHARE: Final = 0.7
"""How often the lines get digests that fit: whoever writes a line can compute one."""


def histories(work: Path) -> Iterator[Reader]:
    """Yield the readers."""
    example = EXAMPLES / "history" / HISTORY_FILE
    first = decode_history_line(example.read_bytes().splitlines()[0])
    lines = [build_line(first, number, value) for number, value in enumerate(LEVELS)]
    seed = b"".join(map(encode_history_line, lines))
    new = build_line(first, len(lines), LEVELS[-1])
    calls = each(parsed(judged), shown, partial(added_to, new))
    yield Reader(
        name="history",
        file=work / "history" / HISTORY_FILE,
        seeds=[seed],
        read=calls,
        share=0.3,
        make=resealed,
    )


def build_line(first: HistoryLine, number: int, value: float) -> HistoryLine:
    """Return the line of another commit, which is no hash: git is not asked about it."""
    day = f"2026-11-{1 + number:02d}T00:00:00Z"
    noisy = value * (1 + 0.001 * (number % 3))
    result = replace(first.result, value=noisy, runs=(noisy,), campaign=f"c{number}")
    return replace(first, commit=f"build-{number}", committed=day, added=day, result=result)


def resealed(dice: random.Random, content: bytes, others: Sequence[bytes]) -> bytes:
    """Spoil a line or the whole file, and often give each line the digest that it needs then."""
    lines = content.splitlines()
    if dice.random() < 0.5:
        at = dice.randrange(len(lines))
        lines[at] = changed(dice, lines[at], lines)
        content = b"\n".join(lines) + b"\n"
    else:
        content = changed(dice, content, others)
    if dice.random() > RESEALED_SHARE:
        return content
    return b"".join(seal_line(line) + b"\n" for line in content.split(b"\n") if line)


def seal_line(text: bytes) -> bytes:
    """Return the only valid text of a line; text that is no object stays."""
    try:
        document = json.loads(text)
        if not isinstance(document, dict):
            return text
        return encode_canonically(document | {DIGEST_FIELD: compute_line_digest(document)})
    except (ValueError, RecursionError):
        return text


def judged(source: SourceFile) -> object:
    """Read and judge the lines."""
    found = list(judge_document(read_history_file(source), "podium-v1"))
    assert all(finding.found and finding.required for finding in found)
    return found


def shown(path: Path) -> object:
    """Check a history, and write it in each form."""
    settings = CheckSettings(path=path, difference=0.05)
    found = check_series(build_series(read_history(path)), settings)
    for render in (*HISTORY_REPORTS.values(), render_history_summary):
        render(found, settings).encode()
    told = [line for checked in found for line in iterate_commit_lines(checked)]
    return told, write_history_pictures(path.with_name("pictures"), found, settings)


def added_to(new: HistoryLine, path: Path) -> object:
    """Add a result; what was there stays, and the whole can be read."""
    before = path.read_bytes()
    known = read_history(path)
    result = AddedResult(machine=new.machine, source=new.source, result=new.result)
    try:
        lines = build_new_lines([result], Commit(name=new.commit, committed=""), known, path)
    except PodiumError:
        return None
    append_history_lines(path, lines)
    assert path.read_bytes().startswith(before)
    assert len(read_history(path)) == len(known) + len(lines)
    return None

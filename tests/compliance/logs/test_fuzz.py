"""Whatever a file holds, whatever a folder is: findings, never a traceback, and a report that every
format can write.

Examples are derived from the test's own name (derandomize), so that a run tells the same twice.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from dialects import ANSWERS, DETAIL, NEW, OLD, SUMMARY, TEXT
from examples import EXAMPLES
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rewriting import rewrite

from compliance.cli import REPORT_FORMATS
from compliance.judge import Judge
from compliance.kinds.inference_text.logs import legacy_detail, legacy_summary
from compliance.kinds.training.logs import published
from compliance.logs.loadgen import accuracy_counts, accuracy_log, summary
from compliance.logs.mllog import mllog_lines
from compliance.logs.source_file import SourceFile
from compliance.recognition.path_kind import recognise_path
from compliance.recognition.round import recognise_path_round
from compliance.reports import render
from compliance.verdict import PathJudgement, Verdict
from suite import registry

quick = settings(
    max_examples=60,
    derandomize=True,
    deadline=None,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.large_base_example,
        HealthCheck.data_too_large,
    ],
)

ODD: Final = (
    b"NaN",
    b"Infinity",
    b"-Infinity",
    b"1e999",
    b"-1e999",
    b"1" * 40,
    b"-" + b"9" * 30,
    b"1e308",
    b"-0",
    b"18446744073709551616",
    b"null",
    b"true",
    b'""',
    b'"\\ud800"',
    b'"\xff\xfe"',
    b'{"a": 1, "a": 2}',
    b"[" * 2000 + b"]" * 2000,
    b"[" * 3000,
    b'{"a":' * 1500,
    b"{}",
    b"[]",
    b"\0",
    b"\r",
    b"\n",
    b"'",
    b'"',
    b"\\",
    b"\x1b[2J",
    b":::MLLOG ",
    b":::MLL ",
    b":::MLL 1 x: ",
    b"MLPerf: resnet [06/01/19 10:00:00], ",
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    "\N{GRINNING FACE}\u2028".encode(),
)
"""What a value, or a place between two bytes, may be replaced by."""


@st.composite
def spoilt(draw: st.DrawFn, content: bytes) -> bytes:
    """A text with a few places changed: cut, doubled, overwritten, filled with what parsers trip
    over.
    """
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(content)))
        upto = min(len(content), at + draw(st.sampled_from((0, 1, 7, 60, 4000))))
        kind = draw(st.integers(0, 7))
        if kind == 0:
            content = content[:at] + draw(st.binary(max_size=40)) + content[upto:]
        elif kind <= 2:
            content = content[:at] + draw(st.sampled_from(ODD)) + content[upto:]
        elif kind == 3:
            content = content[:at] + content[at:upto] * 3 + content[upto:]
        elif kind == 4:
            content = value_replaced(content, at, draw(st.sampled_from(ODD)))
        elif kind == 5:
            content = content[:at]
        elif kind == 6:
            lines = content.split(b"\n")
            one, other = at % len(lines), upto % len(lines)
            lines[one], lines[other] = lines[other], lines[one]
            content = b"\n".join(lines)
        else:
            content = draw(
                st.sampled_from(
                    (
                        content.replace(b"\n", b"\r\n"),
                        content.decode("latin-1").encode("utf-16"),
                        content.replace(b"\n", b""),
                        b"",
                    )
                )
            )
    return content


def value_replaced(content: bytes, at: int, value: bytes) -> bytes:
    """The text with what stands behind the next colon replaced, up to the next comma, brace or line
    end.
    """
    colon = content.find(b": ", at)
    if colon < 0:
        return content
    end = min(
        (found for sign in (b",", b"}", b"\n") if (found := content.find(sign, colon)) >= 0),
        default=len(content),
    )
    return content[: colon + 2] + value + content[end:]


def sound(result: PathJudgement) -> None:
    """A result that every format can write; a broken one says why."""
    assert result.findings or result.verdict is Verdict.VALID
    assert all(finding.found and finding.required and finding.file for finding in result.findings)
    for form in REPORT_FORMATS:
        assert render.render_judge_report([result], form).decode()


# ---- parsers alone ----

PARSERS: Final = {
    "mllog": (mllog_lines.read_mllog_records, NEW),
    "mllog-old": (mllog_lines.read_mllog_records, OLD),
    "published": (published.read_published_records, NEW),
    "published-old": (published.read_published_records, OLD),
    "published-text": (published.read_published_records, TEXT),
    "answers": (accuracy_log.index_accuracy_log, ANSWERS),
    "loadgen-accuracy": (accuracy_counts.count_accuracy_answers, ANSWERS),
    "summary": (summary.read_loadgen_summary, SUMMARY),
    "loadgen-summary": (legacy_summary.read_legacy_summary, SUMMARY),
    "loadgen-detail": (legacy_detail.read_legacy_detail, DETAIL),
    "detail-as-mllog": (mllog_lines.read_mllog_records, DETAIL),
}


def parse(name: str, path: Path, content: bytes) -> SourceFile:
    """Read a file to its end."""
    rewrite(path, content)
    found = SourceFile(path)
    read = PARSERS[name][0](found)
    for _ in read if isinstance(read, Iterator) else ():
        pass
    assert all(flaw.line is None or flaw.line >= 1 for flaw in found.parse_errors)
    return found


@pytest.mark.parametrize("name", PARSERS)
@quick
@given(content=st.binary(max_size=500))
def test_a_parser_takes_any_bytes(tmp_path: Path, name: str, content: bytes) -> None:
    parse(name, tmp_path / "file", content)


@pytest.mark.parametrize("name", PARSERS)
@quick
@given(data=st.data())
def test_a_parser_takes_a_text_that_was_spoilt(
    tmp_path: Path, name: str, data: st.DataObject
) -> None:
    parse(name, tmp_path / "file", data.draw(spoilt(PARSERS[name][1].encode())))


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("name", PARSERS)
def test_a_parser_takes_every_odd_value_at_every_place(
    tmp_path: Path, name: str, odd: bytes
) -> None:
    """Each value of each record once: what hypothesis would find in an hour, in a moment."""
    content = PARSERS[name][1].encode()
    for at in [place for place in range(len(content)) if content.startswith(b": ", place)]:
        parse(name, tmp_path / "file", value_replaced(content, at, odd))


@pytest.mark.parametrize("name", PARSERS)
def test_a_parser_notes_no_more_than_it_can_hold(tmp_path: Path, name: str) -> None:
    """A gigabyte of garbage must not become a gigabyte of flaws."""
    found = parse(
        name,
        tmp_path / "file",
        (b":::MLLOG {\n:::MLL x\nMLPerf: \n{,\n" + bytes(range(256))) * 2000,
    )
    assert len(found.parse_errors) < 1500


@pytest.mark.slow
@quick
@given(
    content=st.one_of(
        st.binary(max_size=300), spoilt(NEW.encode()), spoilt(OLD.encode()), spoilt(DETAIL.encode())
    )
)
def test_the_round_of_any_file_is_one_that_there_is_or_none(tmp_path: Path, content: bytes) -> None:
    for name in (
        "result_0.txt",
        "mlperf_log_detail.txt",
        "mlperf_log_summary.txt",
        "system.json",
        "run.json",
    ):
        rewrite(tmp_path / name, content)
        found = recognise_path_round(recognise_path(tmp_path / name))
        assert found is None or found.round in (None, *registry.list_round_names())


# ---- whole results ----


def bases() -> dict[str, Path]:
    """Small results of every kind: what podium makes, and one published example per area."""
    found = {"podium tree": EXAMPLES / "base" / "tree"}
    for area in ("log", "runs", "org", "served", "filed"):
        for folder in sorted((EXAMPLES / "valid").glob(f"{area}.*"))[:2]:
            found[folder.name] = folder
    return found


@pytest.fixture(params=bases(), scope="module")
def base(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy that may be spoilt, and is put right after each example."""
    copy = tmp_path_factory.mktemp("base") / "results"
    shutil.copytree(bases()[request.param], copy)
    return copy


def files_of(folder: Path) -> list[Path]:
    return sorted(
        path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".keep")
    )


@pytest.mark.slow
@settings(quick, max_examples=25)
@given(data=st.data())
def test_a_result_with_a_spoilt_file_is_judged(base: Path, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(files_of(base)))
    content = path.read_bytes()
    try:
        rewrite(path, data.draw(st.one_of(st.binary(max_size=200), spoilt(content[:20_000]))))
        sound(Judge().judge_path(str(base)))
        sound(Judge().judge_path(str(path)))
    finally:
        rewrite(path, content)


@pytest.mark.parametrize("round_name", registry.list_round_names())
def test_a_result_is_judged_by_any_round_that_is_asked_for(base: Path, round_name: str) -> None:
    """--round overrides what the content tells: a tree of the other half is broken, no crash."""
    judge = Judge(round_name)
    for path in (base, *files_of(base)[:12]):
        result = judge.judge_path(str(path))
        assert result.round == round_name
        sound(result)


@pytest.mark.slow
@pytest.mark.parametrize("make", ["folder", "loop", "pipe", "gone", "dangling", "empty"])
def test_a_result_whose_files_are_no_files_is_judged(base: Path, make: str) -> None:
    for path in files_of(base)[:25]:
        content = path.read_bytes()
        path.unlink()
        if make == "folder":
            path.mkdir()
        elif make == "loop":
            path.symlink_to(path)
        elif make == "pipe":
            os.mkfifo(path)
        elif make == "dangling":
            path.symlink_to("nowhere")
        elif make == "empty":
            path.touch()
        sound(Judge().judge_path(str(base)))
        sound(Judge().judge_path(str(path)))
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
            path.unlink(missing_ok=True)
        path.write_bytes(content)


@pytest.mark.slow
def test_a_folder_that_holds_itself_is_judged(base: Path) -> None:
    """A link to the folder above, at every level: whoever walks without end would be here for
    ever.
    """
    folders = [path for path in (base, *base.rglob("*")) if path.is_dir()]
    for folder in folders:
        (folder / "loop").symlink_to(base)
    try:
        for folder in folders:
            sound(Judge().judge_path(str(folder)))
    finally:
        for folder in folders:
            (folder / "loop").unlink()


NAMES: Final = (
    "open",
    "closed",
    "acme",
    "results",
    "systems",
    "measurements",
    "audit",
    "truth",
    "code",
    "box",
    "resnet",
    "resnet50",
    "ssd",
    "Server",
    "Offline",
    "performance",
    "accuracy",
    "run_1",
    "run_2",
    "checkpoints",
    "TEST01",
    "training_v0.7",
    "result_0.txt",
    "result_1.txt",
    "mlperf_log_summary.txt",
    "mlperf_log_detail.txt",
    "mlperf_log_accuracy.json",
    "accuracy.txt",
    "run.json",
    "record.json",
    "manifest.json",
    "box.json",
    "user.conf",
    "x.tar.zst",
    ".keep",
    "a.partial",
)
CONTENTS: Final = tuple(
    text.encode() for text in (NEW, OLD, TEXT, DETAIL, SUMMARY, ANSWERS, "", "{}", "[]", "\0")
) + (b"\x28\xb5\x2f\xfdx",)
PATHS: Final = st.lists(st.sampled_from(NAMES), min_size=1, max_size=7).map("/".join)


@pytest.mark.slow
@settings(quick, max_examples=80)
@given(files=st.dictionaries(PATHS, st.sampled_from(CONTENTS), min_size=1, max_size=8))
def test_any_tree_of_known_names_is_judged(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes]
) -> None:
    """Names at the wrong place, files for folders, folders for files: each path in it gives a
    result.
    """
    root = tmp_path_factory.mktemp("t") / "r"
    root.mkdir()
    for name, content in files.items():
        try:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(content)
        except OSError:  # a file lies where this one needs a folder
            continue
    judge = Judge()
    for path in (root, *root.rglob("*")):
        sound(judge.judge_path(str(path)))
    shutil.rmtree(root)

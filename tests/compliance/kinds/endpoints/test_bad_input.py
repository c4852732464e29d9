"""Files of the Endpoints client that are damaged or hostile: a finding each, at once, and never a
traceback.
"""

import json
import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from examples import EXAMPLES

from compliance.judge import Judge
from compliance.verdict import PathJudgement, Verdict
from suite.files.untrusted_yaml import MAX_YAML_BYTES, YamlError, parse_untrusted_yaml

BASE = EXAMPLES / "base" / "endpoints" / "run"
SUMMARY = "performance/result_summary.json"
LIMIT_S = 10.0
"""Of one check, in processor time: the machine may do other things, too."""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return Path(shutil.copytree(BASE, tmp_path / "run"))


def judge(run: Path) -> PathJudgement:
    began = time.process_time()
    result = Judge().judge_path(str(run))
    assert time.process_time() - began < LIMIT_S
    return result


DAMAGES: dict[str, Callable[[Path], object]] = {
    "an alias": lambda run: (run / "config.yaml").write_text("a: &a [1]\nb: *a\n"),
    "a tag": lambda run: (run / "config.yaml").write_text("a: !!python/object:os.system [x]\n"),
    "a key twice": lambda run: (run / "config.yaml").write_text("a: 1\na: 2\n"),
    "a million lines": lambda run: (run / "config.yaml").write_text("a: 1\n" * 10**6),
    "depth": lambda run: (run / "config.yaml").write_text("[" * 5000),
    "no yaml": lambda run: (run / "config.yaml").write_bytes(b"\xff\xfe\x00:"),
    "an integer of any size": lambda run: (run / "config.yaml").write_text(
        (run / "config.yaml").read_text().replace("target_qps: 20.0", "target_qps: " + "9" * 5000)
    ),
    "a list": lambda run: (run / "config.yaml").write_text("[1, 2]\n"),
    "an empty configuration": lambda run: (run / "config.yaml").write_text(""),
    "NaN": lambda run: (run / SUMMARY).write_text(
        (run / SUMMARY).read_text().replace('"qps": ', '"qps": NaN, "x": ')
    ),
    "a deep summary": lambda run: (run / SUMMARY).write_text("[" * 100_000),
    "an empty summary": lambda run: (run / SUMMARY).write_text(""),
    "a summary of another shape": lambda run: (run / SUMMARY).write_text('{"latency": 3}'),
    "a summary without anything": lambda run: (run / SUMMARY).write_text("{}"),
    "a truncated last event": lambda run: (run / "events.jsonl").write_bytes(
        (run / "events.jsonl").read_bytes()[:-20]
    ),
    "no events in the file": lambda run: (run / "events.jsonl").write_text("\n{}\n[]\n"),
    "times that run backwards": lambda run: swap_times(run),
    "a snapshot that is no document": lambda run: (
        run / "metrics" / "final_snapshot.json"
    ).write_text("nothing"),
}


def swap_times(run: Path) -> None:
    lines = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    stamps = [each["timestamp_ns"] for each in lines]
    for each, stamp in zip(lines, reversed(stamps), strict=True):
        each["timestamp_ns"] = stamp
    (run / "events.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))


@pytest.mark.parametrize("kind", DAMAGES)
def test_damage_is_a_finding(run: Path, kind: str) -> None:
    DAMAGES[kind](run)
    result = judge(run)
    assert result.verdict is Verdict.BROKEN
    assert all(each.found and each.required for each in result.findings)


def test_a_number_beyond_64_bits_is_a_finding(run: Path) -> None:
    text = (run / SUMMARY).read_text()
    (run / SUMMARY).write_text(text.replace('"duration_ns": ', f'"duration_ns": {2**64}'))
    assert judge(run).verdict is Verdict.BROKEN


@pytest.mark.parametrize("stamp", [2**63, 2**70, -1])
def test_a_stamp_that_no_clock_has_is_a_finding(run: Path, stamp: int) -> None:
    lines = (run / "events.jsonl").read_text().splitlines(keepends=True)
    event = {**json.loads(lines[5]), "timestamp_ns": stamp}
    (run / "events.jsonl").write_text("".join([*lines[:5], json.dumps(event) + "\n", *lines[6:]]))
    assert judge(run).verdict is Verdict.BROKEN


def test_a_long_line_of_events_is_no_trap(run: Path) -> None:
    """64 MB without a newline."""
    with (run / "events.jsonl").open("ab") as stream:
        for _ in range(70):
            stream.write(b"x" * (1 << 20))
    assert judge(run).verdict is Verdict.BROKEN


@pytest.mark.slow
@pytest.mark.parametrize("name", [SUMMARY, "config.yaml", "metrics/final_snapshot.json"])
def test_random_bytes_raise_nothing(run: Path, name: str) -> None:
    """Bytes flipped, taken and doubled; the other files stay."""
    (run / "events.jsonl").unlink()
    whole, drawn = (run / name).read_bytes(), random.Random(name)
    for _ in range(150):
        text = bytearray(whole)
        for _ in range(drawn.randint(1, 6)):
            place = drawn.randrange(len(text))
            change = drawn.choice("fdx")
            if change == "f":
                text[place] = drawn.randrange(256)
            elif change == "d":
                del text[place : place + drawn.randint(1, 40)]
            else:
                text[place:place] = text[place : place + drawn.randint(1, 40)]
        (run / name).write_bytes(bytes(text))
        judge(run)


def test_yaml_of_dates_and_numbers_stays_plain() -> None:
    assert parse_untrusted_yaml(b"a: 1\nb: [x, 2.5]\nc: {d: null}\n") == {
        "a": 1,
        "b": ["x", 2.5],
        "c": {"d": None},
    }


def test_yaml_of_any_size_is_refused() -> None:
    with pytest.raises(YamlError, match="more than"):
        parse_untrusted_yaml(b"#" * (MAX_YAML_BYTES + 1))

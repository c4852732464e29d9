"""A machine's clock that was set in an honest campaign: what it is an error about, and what not."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from examples import result_of
from making import START_MS, write_tree
from spoiling import SRV, swap

from compliance.kinds.podium.documents.ledger import read_clock_setback_s
from compliance.verdict import Severity
from suite.files.layout import DETAIL_LOG
from suite.ledger.steps import compute_line_sha256


def write_ledger(tree: Path, step_s: float) -> None:
    """A ledger whose second half was written by a clock that was set by so much; the rule about
    times reads nothing else of it.
    """
    lines, before = [], "0" * 64
    for number, (step, after_s) in enumerate(
        (("begin", 0.0), ("trained", 2700.0), ("served", 2760.0 + step_s)), 1
    ):
        utc = datetime.fromtimestamp(START_MS / 1000 + after_s, UTC)
        line = json.dumps(
            {
                "n": number,
                "step": step,
                "utc": utc.strftime("%Y-%m-%dT%H:%M:%SZ"),
                "files": {},
                "previous": before,
            }
        ).encode()
        lines.append(line)
        before = compute_line_sha256(line)
    folder = tree / "open/acme/ledger"
    folder.mkdir()
    (folder / "resnet50.jsonl").write_bytes(b"".join(each + b"\n" for each in lines))


def serve_on(tree: Path, day: str) -> None:
    """Move the runs of Server to another day of the same clock."""
    for log in tree.rglob(f"Server/**/{DETAIL_LOG}"):
        swap(r'(power_(?:begin|end)", "value": ")11-14-2023', rf"\g<1>{day}-2023")(log)


@pytest.mark.parametrize(
    ("step_s", "severity"),
    [
        (None, Severity.ERROR),
        (-86_400.0, Severity.WARNING),
        (-7_200.0, Severity.ERROR),
        (86_400.0, Severity.ERROR),
    ],
)
def test_serving_before_training_is_a_clock_that_was_set_where_the_ledger_says_so(
    tmp_path: Path, step_s: float | None, severity: Severity
) -> None:
    """Each step is written behind the one before: a ledger that goes back in time shows that the
    clock did. Without it, or by less, the dates contradict one another.
    """
    write_tree(tmp_path / "results", SRV)
    tree = tmp_path / "results"
    serve_on(tree, "11-13")
    if step_s is not None:
        write_ledger(tree, step_s)
    found = {each.severity for each in result_of(tree).findings if each.rule == "tree.chronology"}
    assert found == {severity}


def test_a_clock_that_went_forth_and_back_explains_one_step_back(tmp_path: Path) -> None:
    """Two steps back of six hours, with twelve hours between them, are no clock that lags by
    twelve.
    """
    folder = tmp_path / "open/acme"
    (tmp_path / "open/acme").mkdir(parents=True)
    write_ledger(tmp_path, 0.0)
    path = folder / "ledger/resnet50.jsonl"
    times = ("00:00:00", "12:00:00", "06:00:00", "18:00:00", "12:00:00")
    lines = [json.loads(each) for each in path.read_text().splitlines()]
    steps = [
        lines[min(place, 2)] | {"n": place + 1, "utc": f"2023-11-14T{time}Z"}
        for place, time in enumerate(times)
    ]
    path.write_text("".join(json.dumps(each) + "\n" for each in steps))
    assert read_clock_setback_s(folder, "resnet50") == 6 * 3600

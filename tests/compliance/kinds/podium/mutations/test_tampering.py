"""What somebody might change in a good result so that it looks better, and what may go wrong with
its files: exit code 1, with a reason.
"""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from examples import EXAMPLES
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from making import training_events, write_log
from tampering import TAMPERED, find_one

from compliance.cli import check
from compliance.judge import Judge
from compliance.verdict import PathJudgement, Severity, Verdict

TREE = EXAMPLES / "base" / "tree"
pytestmark = pytest.mark.usefixtures("counted_once")


def judged(path: Path) -> PathJudgement:
    return Judge().judge_path(str(path))


def errors(path: Path) -> set[str]:
    return {finding.rule for finding in judged(path).findings if finding.severity is Severity.ERROR}


@pytest.fixture(scope="module")
def accepted(tmp_path_factory: pytest.TempPathFactory) -> None:
    """See that a copy of the campaign is what the judge accepts; all others are the same."""
    assert (
        judged(
            Path(shutil.copytree(TREE, tmp_path_factory.mktemp("accepted") / "results"))
        ).findings
        == ()
    )


@pytest.fixture
def tree(accepted: None, tmp_path: Path) -> Path:
    """A campaign that the judge accepts."""
    return Path(shutil.copytree(TREE, tmp_path / "results"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "pattern", "change", "rule"), TAMPERED, ids=[case[0] for case in TAMPERED]
)
def test_what_was_tampered_with_is_found_by_the_rule_that_is_there_for_it(
    tree: Path, what: str, pattern: str, change: Callable[[Path], object], rule: str
) -> None:
    change(find_one(tree, pattern))
    assert rule in errors(tree), what
    if rule == "accuracy.pinned":
        assert errors(tree) == {"accuracy.pinned", "accuracy.excess"}
    assert judged(tree).verdict is Verdict.BROKEN
    assert CliRunner().invoke(check, [str(tree)], standalone_mode=False).return_value == 1


def test_facts_that_mlperf_asks_for_are_no_tampering(tree: Path) -> None:
    """Precision and parallelism, which llama's logs have for MLPerf Training v6.1."""
    path = find_one(tree, "**/resnet/result_0.txt")
    lines = path.read_text().splitlines(keepends=True)
    (place,) = (at for at, line in enumerate(lines) if '"metric_signature"' in line)
    for key, value in (
        ("lowest_numerical_precision_in_comm", "fp32"),
        ("tensor_parallelism", 1),
        ("micro_batch_size", 8),
        ("config_filename", "workloads/resnet50/podium-v1.toml"),
    ):
        event = json.loads(lines[place].removeprefix(":::MLLOG "))
        lines.insert(place + 1, f":::MLLOG {json.dumps({**event, 'key': key, 'value': value})}\n")
    path.write_text("".join(lines))
    assert judged(tree).findings == ()


def aborted(path: Path) -> Path:
    """A legal log of a run that missed its target."""
    write_log(
        path,
        [
            event
            for event in training_events(scores=(0.25, 0.5))
            if event.key not in ("checkpoint_sha256", "reference_accuracy")
        ],
    )
    path.write_text(path.read_text().replace('"status": "success"', '"status": "aborted"'))
    return path


def test_a_run_that_is_legal_but_missed_its_target_is_not_converged(tmp_path: Path) -> None:
    """Exit 1, but nobody is told that the log is broken."""
    path = aborted(tmp_path / "result_0.txt")
    for place in (path, tmp_path):
        result = judged(place)
        assert result.verdict is Verdict.NOT_CONVERGED
        assert CliRunner().invoke(check, [str(place)], standalone_mode=False).return_value == 1


def test_one_run_of_five_may_miss_its_target(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES / "base" / "set", tmp_path / "set")
    for number, verdict in ((3, Verdict.VALID), (1, Verdict.NOT_CONVERGED)):
        path = tmp_path / "set" / f"result_{number}.txt"
        lines = [
            line
            for line in path.read_text().splitlines(keepends=True)
            if "checkpoint_sha256" not in line and "reference_accuracy" not in line
        ]
        path.write_text(
            "".join(lines)
            .replace('"status": "success"', '"status": "aborted"')
            .replace('"value": 0.77', '"value": 0.7')
        )
        assert judged(tmp_path / "set").verdict is verdict


def test_a_run_aborted_at_nan_may_have_no_accuracy(tmp_path: Path) -> None:
    path = aborted(tmp_path / "result_0.txt")
    path.write_text(path.read_text().replace('"value": 0.5,', '"value": null,'))
    assert judged(path).verdict is Verdict.NOT_CONVERGED


@pytest.mark.slow
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_no_damage_ends_in_a_traceback(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Bytes flipped, files cut, members of documents replaced: findings, always."""
    root = tmp_path_factory.mktemp("damage") / "results"
    shutil.copytree(TREE, root)
    paths = sorted(path for path in root.rglob("*") if path.is_file())
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(paths))
        content = bytearray(path.read_bytes() or b" ")
        place = data.draw(st.integers(0, len(content) - 1))
        match data.draw(st.sampled_from(["flip", "cut", "insert", "value"])):
            case "flip":
                content[place] ^= data.draw(st.integers(1, 255))
            case "cut":
                del content[place:]
            case "insert":
                content[place:place] = data.draw(st.binary(max_size=20))
            case _:
                content = damaged_value(content, data)
        path.write_bytes(content)
    json.dumps([finding.found for finding in judged(root).findings])


def damaged_value(content: bytearray, data: st.DataObject) -> bytearray:
    """Replace one JSON value by one of another type."""
    places = list(re.finditer(rb'(?<=": )("[^"]*"|[0-9.]+|null|true|false)', content))
    if not places:
        return content
    place = data.draw(st.sampled_from(places))
    content[place.start() : place.end()] = data.draw(
        st.sampled_from(
            [b"null", b"true", b"-1", b"1e308", b'"x"', b"[]", b"{}", b"[[1]]", b'{"a": {}}']
        )
    )
    return content

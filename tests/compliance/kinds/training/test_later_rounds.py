"""Training results since v1.0."""

import shutil
import zipfile
from pathlib import Path

import pytest
from examples import EXAMPLES
from kinds.training import lately, lately_set
from making_training import LATE_MS, drop, measured, new, put

from compliance.judge import Judge
from compliance.kinds.training.documents.convergence import (
    Convergence,
    ConvergenceOutcome,
    judge_set_convergence,
)
from compliance.kinds.training.documents.log import read_published_set
from compliance.kinds.training.recognition import TrainingLogEvidence, choose_training_round
from compliance.kinds.training.round import load_training_round
from compliance.recognition.path_kind import recognise_path
from compliance.reports.text import format_result_lines
from compliance.verdict import Severity, Verdict

DAY_S = 86_400


def held(folder: Path) -> Convergence | None:
    round = load_training_round(Judge().resolve_round_name(recognise_path(folder)))
    return judge_set_convergence(read_published_set(folder, round, recognise_path(folder).position))


@pytest.mark.parametrize(
    ("evaluations", "outcome"),
    [(16, ConvergenceOutcome.PASS), (15, ConvergenceOutcome.PASS), (13, ConvergenceOutcome.FAIL)],
)
def test_a_set_is_held_against_its_point(
    tmp_path: Path, evaluations: int, outcome: ConvergenceOutcome
) -> None:
    lately_set(evaluations)(tmp_path)
    found = held(tmp_path)
    assert found is not None
    assert found.outcome is outcome
    assert found.mean == evaluations * 12_288
    result = Judge().judge_path(str(tmp_path))
    assert result.verdict is (
        Verdict.BROKEN if outcome is ConvergenceOutcome.FAIL else Verdict.VALID
    )


def test_a_set_that_is_a_little_faster_gets_a_factor(tmp_path: Path) -> None:
    """14 and 15 evaluations: less than the reference's 14.6, within what chance allows."""
    lately_set(15)(tmp_path)
    for number in range(6):
        (tmp_path / f"result_{number}.txt").write_text(
            new(measured(number=number, evaluations=14), LATE_MS + number * 10**7)
        )
    found = held(tmp_path)
    assert found is not None
    assert found.outcome is ConvergenceOutcome.FACTOR
    assert found.point is not None
    assert found.mean is not None
    assert found.factor == pytest.approx(found.point.mean / found.mean)


def test_before_a_set_is_whole_it_says_what_the_others_need(tmp_path: Path) -> None:
    """After 4 of 10 runs: the mean of the other 6, with which the set just passes."""
    lately_set(13)(tmp_path)
    for number in range(4, 10):
        (tmp_path / f"result_{number}.txt").unlink()
    found = held(tmp_path)
    assert found is not None
    assert (found.outcome, found.missing) == (ConvergenceOutcome.INCOMPLETE, 6)
    assert found.others_need is not None
    assert found.least is not None
    assert found.others_need > found.least
    told = [
        finding
        for finding in Judge().judge_path(str(tmp_path)).findings
        if finding.rule == "runs.convergence"
    ]
    assert [finding.severity for finding in told] == [Severity.INFO]


@pytest.mark.parametrize(
    ("batch", "outcome"), [(8, ConvergenceOutcome.PASS), (500, ConvergenceOutcome.MISSING)]
)
def test_a_batch_without_a_point(tmp_path: Path, batch: int, outcome: ConvergenceOutcome) -> None:
    """Below all points what needs no less than the smallest passes; above all, a point is
    missing.
    """
    lately_set(15)(tmp_path)
    for path in tmp_path.iterdir():
        path.write_text(
            path.read_text().replace(
                '"global_batch_size", "value": 32', f'"global_batch_size", "value": {batch}'
            )
        )
    found = held(tmp_path)
    assert found is not None
    assert found.outcome is outcome


@pytest.mark.parametrize(
    ("days", "benchmarks", "round_name"),
    [
        (("2024-10-01",) * 5, ("bert",), "training-v4.1"),
        (("2022-05-10",) * 5, ("dlrm_dcnv2",), "training-v3.0"),
        (
            ("2023-09-01", "2023-09-01", "2025-05-01", "2025-05-02"),
            ("rgat", "retinanet"),
            "training-v5.0",
        ),
        (("2020-08-01",) * 3, ("rnnt",), "training-v1.0"),
        (("2025-09-01",) * 3, ("llama31_8b", "flux1"), "training-v5.1"),
        (("2026-05-01",) * 3, ("gpt_oss_20b",), "training-v6.0"),
        (("2027-03-01",) * 3, ("llama31_8b",), None),
        (("2025-09-01",) * 3, ("mind_reading",), None),
        (("2025-09-01",) * 3, ("openfold",), None),
        (("2026-01-01",) * 3, ("rgat",), None),
        (
            ("2025-09-01", "2025-09-02", "2025-09-02", "2025-09-03", "2030-01-01"),
            ("llama31_8b",),
            "training-v5.1",
        ),
    ],
)
def test_days_and_benchmarks_tell_the_round(
    days: tuple[str, ...], benchmarks: tuple[str, ...], round_name: str | None
) -> None:
    """Old logs are filed again, a clock may be wrong, and a round that nobody knows is unknown."""
    from datetime import datetime

    from suite.files.layout import fold_name

    logs = [
        TrainingLogEvidence(
            int(datetime.fromisoformat(f"{day}T12:00:00+00:00").timestamp()), fold_name(name)
        )
        for day in days
        for name in benchmarks
    ]
    assert choose_training_round(logs) == round_name


@pytest.mark.parametrize("change", ["bench", "day"])
def test_a_round_that_does_not_exist_yet_is_unknown(tmp_path: Path, change: str) -> None:
    """The verdict says what was seen, and which rounds are known."""
    text = new(measured(), LATE_MS + (2 * 365 * DAY_S * 1000 if change == "day" else 0))
    (tmp_path / "result_0.txt").write_text(
        text.replace("llama31_8b", "mind_reading") if change == "bench" else text
    )
    result = Judge().judge_path(str(tmp_path / "result_0.txt"))
    assert (result.verdict, [finding.rule for finding in result.findings]) == (
        Verdict.UNKNOWN,
        ["round.known"],
    )
    assert "training-v0.6 to v6.1" in result.findings[0].required
    assert ("mind_reading" if change == "bench" else "2027") in result.findings[0].found


def test_a_loss_is_better_where_it_is_lower(tmp_path: Path) -> None:
    lately(put("eval_accuracy", -1, value=3.4))(tmp_path)
    assert {
        finding.rule for finding in Judge().judge_path(str(tmp_path / "result_0.txt")).findings
    } == {"log.target"}


def test_every_run_logs_a_seed(tmp_path: Path) -> None:
    lately_set(15)(tmp_path)
    (tmp_path / "result_3.txt").write_text(
        new(drop("seed")(measured(number=3, evaluations=15)), LATE_MS + 3 * 10**7)
    )
    errors = [
        finding
        for finding in Judge().judge_path(str(tmp_path)).findings
        if finding.severity is Severity.ERROR
    ]
    assert [(finding.rule, Path(finding.file).name) for finding in errors] == [
        ("runs.seeds", "result_3.txt")
    ]


def test_a_bare_set_may_be_of_a_later_round_and_the_report_says_so(tmp_path: Path) -> None:
    """Results are filed again for two years: a set alone was told as if its first possible round
    were certain.
    """
    lately_set(15)(tmp_path)
    result = Judge().judge_path(str(tmp_path))
    assert (result.round, result.verdict, result.other_rounds) == (
        "training-v5.1",
        Verdict.VALID,
        ("training-v6.0", "training-v6.1"),
    )
    assert result.recognised_by.startswith("10 training logs, among them of llama31_8b from 20")
    assert "also possible: training-v6.0, training-v6.1 (use --round ROUND)" in "\n".join(
        format_result_lines(result)
    )
    assert not Judge("training-v5.1").judge_path(str(tmp_path)).other_rounds


@pytest.mark.parametrize("content", ["rcp-bypass", "seed-checker-bypass\nrcp-bypass\n"])
def test_what_a_submitter_asks_the_official_checker_to_pass_over_is_a_warning(
    tmp_path: Path, content: str
) -> None:
    """The package checker reads options from a file in the set's folder, and accepts the set."""
    lately_set(13)(tmp_path)
    assert Judge("training-v5.1").judge_path(str(tmp_path)).verdict is Verdict.BROKEN
    (tmp_path / "package_checker_params").write_text(content)
    result = Judge("training-v5.1").judge_path(str(tmp_path))
    (told,) = [finding for finding in result.findings if finding.rule == "runs.convergence"]
    assert (result.verdict, told.severity) == (Verdict.VALID, Severity.WARNING)
    assert told.required.endswith("/package_checker_params with rcp-bypass)")


def test_an_option_of_a_system_counts_for_its_sets_and_another_one_does_not(tmp_path: Path) -> None:
    """A file in the system's folder holds for all of its benchmarks; the option about points says
    nothing about seeds.
    """
    folder = tmp_path / "acme" / "results" / "box" / "llama31_8b"
    lately_set(15)(folder)
    (tmp_path / "acme" / "systems").mkdir()
    for path in folder.iterdir():
        path.write_text(
            "".join(
                line for line in path.read_text().splitlines(keepends=True) if '"seed"' not in line
            )
        )
    for option, severity in (
        ("rcp-bypass", Severity.ERROR),
        ("seed-checker-bypass", Severity.WARNING),
    ):
        (folder.parent / "package_checker_params").write_text(option)
        told = [
            finding
            for finding in Judge("training-v5.1").judge_path(str(folder)).findings
            if finding.rule == "runs.seeds"
        ]
        assert {finding.severity for finding in told} == {severity}
        assert len(told) == 10
    assert "box/package_checker_params with seed-checker-bypass" in told[0].required


def test_a_published_log_needs_no_number(tmp_path: Path) -> None:
    """The official pattern is result_*.txt: sets with other names were no sets."""
    lately_set(15)(tmp_path)
    for number in (3, 7):
        (tmp_path / f"result_{number}.txt").rename(tmp_path / f"result_run{number}.txt")
    result = Judge().judge_path(str(tmp_path))
    assert (result.round, result.verdict) == ("training-v5.1", Verdict.VALID)
    told = [finding for finding in result.findings if finding.severity is Severity.WARNING]
    assert [(finding.rule, finding.found) for finding in told] == [
        ("runs.numbers", "result_run3.txt, result_run7.txt")
    ]
    (tmp_path / "result_last.txt").write_text((tmp_path / "result_0.txt").read_text())
    assert "runs.count" in {finding.rule for finding in Judge().judge_path(str(tmp_path)).findings}


@pytest.mark.parametrize("inside", [(), ("resnet",)])
def test_an_empty_folder_of_a_system_needs_no_description(
    tmp_path: Path, inside: tuple[str, ...]
) -> None:
    """The package checker opens a description only for a folder of a benchmark."""
    shutil.copytree(EXAMPLES / "base" / "trained-tree", tmp_path / "t")
    empty = tmp_path / "t" / "acme" / "results" / "another"
    empty.mkdir()
    for name in inside:
        (empty / name).mkdir()
    told = [
        finding
        for finding in Judge().judge_path(str(tmp_path / "t")).findings
        if finding.rule == "org.described"
    ]
    assert [finding.severity for finding in told] == [Severity.WARNING]


def cut(path: Path, evaluations: int) -> None:
    """Cut a log behind an evaluation, as a run that was stopped leaves it."""
    kept, seen = [], 0
    for line in path.read_text().splitlines(keepends=True):
        kept.append(line)
        seen += '"eval_accuracy"' in line
        if seen == evaluations:
            break
    path.write_text("".join(kept))


@pytest.mark.parametrize(
    ("logs", "evaluations", "verdict"),
    [
        ((4,), 9, Verdict.VALID),
        ((4,), 1, Verdict.VALID),
        ((4,), 15, Verdict.BROKEN),
        ((4, 5), 9, Verdict.BROKEN),
    ],
    ids=["stopped", "soon", "looks-converged", "two"],
)
def test_one_run_of_a_set_may_have_been_stopped(
    tmp_path: Path, logs: tuple[int, ...], evaluations: int, verdict: Verdict
) -> None:
    """It counts as the run that failed; a log that ends behind its target without run_stop was cut
    by somebody.
    """
    lately_set(15)(tmp_path)
    for number in logs:
        cut(tmp_path / f"result_{number}.txt", evaluations)
    result = Judge("training-v5.1").judge_path(str(tmp_path))
    assert result.verdict is verdict
    told = [finding for finding in result.findings if finding.rule == "log.present"]
    assert {(finding.found, finding.severity) for finding in told} == {
        ("no run_stop", Severity.WARNING if verdict is Verdict.VALID else Severity.ERROR)
    }
    assert (
        Judge("training-v5.1").judge_path(str(tmp_path / "result_4.txt")).verdict is Verdict.BROKEN
    )


NOTE = "Non compliant run allowed under olympic scoring"


@pytest.mark.parametrize(
    ("logs", "text", "verdict"),
    [
        ((4,), NOTE, Verdict.VALID),
        ((4, 5), NOTE, Verdict.BROKEN),
        ((4,), "\n", Verdict.BROKEN),
        ((4,), NOTE * 100, Verdict.BROKEN),
    ],
    ids=["one", "two", "blank", "long"],
)
def test_a_note_may_stand_in_place_of_one_run_of_a_set(
    tmp_path: Path, logs: tuple[int, ...], text: str, verdict: Verdict
) -> None:
    """An accepted set of v1.0 has one. Logs that were emptied or replaced stay errors."""
    lately_set(15)(tmp_path)
    for number in logs:
        (tmp_path / f"result_{number}.txt").write_text(text)
    assert Judge("training-v5.1").judge_path(str(tmp_path)).verdict is verdict
    assert (
        Judge("training-v5.1").judge_path(str(tmp_path / "result_4.txt")).verdict is Verdict.BROKEN
    )


def test_a_benchmark_without_logs_is_no_broken_result(tmp_path: Path) -> None:
    """Copies of two accepted sets have only their factors: there is nothing to judge."""
    home = tmp_path / "training_v5.1" / "acme"
    folder = home / "results" / "box" / "llama31_8b"
    folder.mkdir(parents=True)
    (folder / "scaling.json").write_text('{"scaling_factor": 1.1}')
    (home / "systems").mkdir()
    result = Judge().judge_path(str(folder))
    assert result.verdict is Verdict.UNKNOWN
    assert [finding.rule for finding in result.findings] == ["round.known"]
    with zipfile.ZipFile(folder / "logs.zip", "w") as packed:
        packed.writestr("result_0.txt", "")
    assert Judge().judge_path(str(folder)).verdict is Verdict.BROKEN


def test_a_log_in_which_no_run_began_is_no_stopped_run(tmp_path: Path) -> None:
    lately_set(15)(tmp_path)
    path = tmp_path / "result_4.txt"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text(
        "".join(lines[: next(index for index, line in enumerate(lines) if '"run_start"' in line)])
    )
    assert Judge("training-v5.1").judge_path(str(tmp_path)).verdict is Verdict.BROKEN

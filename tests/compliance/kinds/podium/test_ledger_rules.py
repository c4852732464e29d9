"""What the judge says of a ledger that somebody has touched, and of results that have none."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from examples import EXAMPLES
from ledgers import (
    LEDGER,
    adopted,
    chained,
    challenged,
    keep,
    read,
    recorded_tree,
    served_first,
)
from spoiling import bundle, edit_member

from compliance.judge import Judge
from compliance.verdict import Severity, Verdict
from suite.ledger.steps import LedgerStep, StepKind

TREE = EXAMPLES / "base" / "ledger"
BUNDLE = EXAMPLES / "base" / "bundle-with-ledger" / "acme.tar.zst"
LINES = len((TREE / LEDGER).read_bytes().splitlines())


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return shutil.copytree(TREE, tmp_path / "results")


def errors(path: Path) -> set[str]:
    """Name the rules that a path breaks."""
    return {
        finding.rule
        for finding in Judge().judge_path(str(path)).findings
        if finding.severity is Severity.ERROR
    }


def relink(tree: Path, edit: Callable[[list[LedgerStep]], list[LedgerStep]]) -> None:
    """Change the steps as somebody would who links them again."""
    (tree / LEDGER).write_bytes(chained(edit(read(tree / LEDGER))))


def test_a_tree_and_a_bundle_with_a_ledger_are_valid() -> None:
    assert (
        Judge().judge_path(str(TREE)).verdict is Verdict.VALID
        and Judge().judge_path(str(BUNDLE)).verdict is Verdict.VALID
    )


def test_results_without_a_ledger_are_judged_as_before() -> None:
    """They were made before there was one: a folder, and a bundle."""
    for path in (EXAMPLES / "base" / "tree", EXAMPLES / "base" / "bundle" / "acme.tar.zst"):
        assert Judge().judge_path(str(path)).verdict is Verdict.VALID


@pytest.mark.parametrize("place", range(LINES - 1))
@pytest.mark.parametrize("how", ["removed", "repeated", "moved", "edited"])
def test_a_line_that_is_touched_breaks_the_chain(tree: Path, how: str, place: int) -> None:
    """Each line, each way; the last line stands in a bundle's manifest."""
    lines = (tree / LEDGER).read_bytes().splitlines(keepends=True)
    changed = {
        "removed": [*lines[:place], *lines[place + 1 :]],
        "repeated": [*lines[: place + 1], *lines[place:]],
        "moved": [*lines[:place], lines[place + 1], lines[place], *lines[place + 2 :]],
        "edited": [
            *lines[:place],
            lines[place].replace(b"2023-11-14", b"2023-11-13"),
            *lines[place + 1 :],
        ],
    }
    (tree / LEDGER).write_bytes(b"".join(changed[how]))
    assert "ledger.links" in errors(tree)


def test_a_torn_last_line_is_a_warning_where_people_work_and_an_error_in_a_bundle(
    tree: Path, tmp_path: Path
) -> None:
    """The next command drops it; a bundle has no next command."""
    with (tree / LEDGER).open("ab") as stream:
        stream.write(b'{"n": 99')
    assert errors(tree) == set()
    assert [
        finding.rule
        for finding in Judge().judge_path(str(tree)).findings
        if finding.rule == "file.cut"
    ] == ["file.cut"]

    def torn(files: dict[str, bytes]) -> None:
        files[LEDGER] += b'{"n": 99'

    bundle(torn, made=lambda folder: shutil.copytree(TREE, folder, dirs_exist_ok=True))(tmp_path)
    assert "file.cut" in errors(tmp_path / "acme.tar.zst")


@pytest.mark.parametrize(
    "name", ["result_0.txt", "run.json", "mlperf_log_detail.txt", "accuracy.txt"]
)
def test_a_file_that_no_step_made_is_refused(tree: Path, name: str) -> None:
    """A result that podium did not make, or one that was edited after it."""
    path = next(tree.glob(f"open/acme/results/**/{name}"))
    path.write_bytes(path.read_bytes() + b"\n")
    assert "ledger.kept" in errors(tree)


def test_a_superseded_run_in_the_place_of_the_kept_one_is_refused(tree: Path) -> None:
    """The better of two runs, copied back; whoever links the ledger again without the later run
    breaks another rule.
    """

    def other(steps: list[LedgerStep]) -> list[LedgerStep]:
        kept = steps[-2]
        assert kept.step is StepKind.SERVED
        gone = LedgerStep(
            n=0,
            step=StepKind.SUPERSEDED,
            utc=kept.utc,
            files=kept.files,
            previous="",
            nonce=kept.nonce,
            made=len(steps) - 2,
        )
        return [
            *steps[:-1],
            gone,
            steps[-3],
            replace(kept, files=dict.fromkeys(kept.files, "0e" * 32)),
            steps[-1],
        ]

    relink(tree, other)
    assert errors(tree) == {"ledger.kept"}


@pytest.mark.parametrize("made_it", [True, False])
def test_a_restored_run_counts_and_is_told(tree: Path, made_it: bool) -> None:
    """Only of the step that made it: a line about another run restores nothing."""

    def restore(steps: list[LedgerStep]) -> list[LedgerStep]:
        made = len(steps) - 2
        kept = steps[made]
        shared = {"n": 0, "utc": kept.utc, "previous": "", "nonce": kept.nonce}
        gone = LedgerStep(step=StepKind.SUPERSEDED, files=kept.files, made=made, **shared)
        back = replace(gone, step=StepKind.RESTORED, made=made if made_it else made - 2)
        return [*steps[:-1], gone, back, steps[-1]]

    relink(tree, restore)
    assert errors(tree) == (set() if made_it else {"ledger.kept"})
    told = [each.found for each in Judge().judge_path(str(tree)).findings]
    assert any("superseded and restored" in each for each in told) is made_it


def test_two_steps_for_one_file_are_refused(tree: Path) -> None:
    """One of them was never done."""
    relink(tree, lambda steps: [*steps, steps[-3], steps[-2]])
    assert errors(tree) == {"ledger.kept"}


def test_a_run_that_nobody_began_and_files_in_a_later_begin_are_refused(tree: Path) -> None:
    relink(tree, lambda steps: [steps[0], *steps[1:3], *steps[4:]])
    assert "ledger.order" in errors(tree)
    shutil.copy(TREE / LEDGER, tree / LEDGER)
    relink(tree, lambda steps: [*steps[:3], replace(steps[3], files={"a": "0" * 64}), *steps[4:]])
    assert "ledger.order" in errors(tree)


def test_serving_before_the_checkpoint_is_refused(tree: Path) -> None:
    relink(tree, served_first)
    assert errors(tree) == {"ledger.order"}


def test_results_that_were_there_before_the_ledger_count(tree: Path) -> None:
    """The first line names them; they came in no order that anybody knows."""
    relink(tree, adopted)
    assert errors(tree) == set()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("challenge", "12"),
        ("challenge", "zz" * 8),
        ("random", "12"),
        ("random", ""),
        ("challenge", ""),
    ],
)
def test_a_challenge_that_is_none_is_refused(tree: Path, field: str, value: str) -> None:
    relink(tree, lambda steps: [replace(challenged(steps)[0], **{field: value}), *steps[1:]])
    assert errors(tree) == {"ledger.nonce"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            b'"ledger": {\n    "open/acme/ledger/resnet50.jsonl": "',
            b'"ledger": {\n    "open/acme/ledger/resnet50.jsonl": "0',
        ),
        (b'"open/acme/ledger/resnet50.jsonl": "', b'"open/acme/ledger/other.jsonl": "'),
    ],
)
def test_a_manifest_names_each_ledger_by_its_last_line(
    tmp_path: Path, old: bytes, new: bytes
) -> None:
    """Else lines at the end could go."""

    def spoil(files: dict[str, bytes]) -> None:
        text = files["manifest.json"]
        at = text.rindex(old)
        files["manifest.json"] = text[:at] + new + text[at + len(old) :]

    bundle(spoil, made=lambda folder: shutil.copytree(TREE, folder, dirs_exist_ok=True))(tmp_path)
    assert "bundle.ledger" in errors(tmp_path / "acme.tar.zst")


def test_a_bundle_without_the_ledger_that_its_manifest_names_is_refused(tmp_path: Path) -> None:
    """Leaving it out would hide how often something was tried."""
    named = b'"ledger": {\n    "open/acme/ledger/resnet50.jsonl": "00"\n  }'
    bundle(edit_member("manifest.json", b'"ledger": {}', named))(tmp_path)
    assert errors(tmp_path / "acme.tar.zst") == {"bundle.ledger"}


def test_garbage_in_a_ledger_is_told_and_nothing_fails(tree: Path) -> None:
    for text in (
        b"",
        b"\n",
        b"\xff\xfe\n",
        b"{}\n",
        b"[" * 10_000 + b"\n",
        b'{"n": 1e999}\n',
        (TREE / LEDGER).read_bytes().replace(b"{", b"["),
    ):
        (tree / LEDGER).write_bytes(text)
        assert errors(tree), text


@pytest.mark.parametrize(
    ("begun_s", "trained_s", "found"),
    [
        (0, 0, []),
        (-600, 2, []),
        (2, -2, []),
        (60, 0, ["error run_start of result_0.txt is 59.4 s before its step"]),
        (0, 5, ["error step 1 was written 4.5 s after the last line of result_0.txt"]),
        (0, -5, ["error step 1 was written 4.5 s before the last line of result_0.txt"]),
        (None, None, []),
    ],
)
def test_a_log_lasts_as_long_as_its_ledger_says(
    tree: Path, begun_s: int | None, trained_s: int | None, found: list[str]
) -> None:
    """Times squeezed in the log leave the ledger's behind, by more than 2 s and 1 % of half a
    minute. A run that was interrupted early begins again, long after the step of its set.
    """

    def edit(steps: list[LedgerStep]) -> list[LedgerStep]:
        return [shift(steps[0], begun_s), shift(steps[1], trained_s), *steps[2:]]

    relink(tree, edit)
    result = Judge().judge_path(str(tree))
    told = [each for each in result.findings if each.rule == "ledger.times"]
    assert [f"{each.severity} {each.found}" for each in told] == found


def shift(step: LedgerStep, seconds: int | None) -> LedgerStep:
    """Write a step so much later; None: at no time that can be read."""
    if seconds is None:
        return replace(step, utc="soon")
    moment = datetime.fromisoformat(step.utc) + timedelta(seconds=seconds)
    return replace(step, utc=moment.strftime("%Y-%m-%dT%H:%M:%SZ"))


def test_a_clock_that_was_set_during_a_run_moves_its_last_step(tmp_path: Path) -> None:
    """The log's clock is never set, a ledger's steps follow the machine's; telemetry tells."""
    tree = recorded_tree(tmp_path)
    path = next(tree.glob("**/telemetry_0.jsonl"))
    *lines, last = path.read_text().splitlines(keepends=True)
    end = json.loads(last)
    end["end"]["clocks_ns"][1] += 60 * 10**9
    path.write_text("".join([*lines, json.dumps(end, separators=(",", ":")) + "\n"]))

    def edit(steps: list[LedgerStep]) -> list[LedgerStep]:
        return [steps[0], shift(steps[1], 60), *steps[2:]]

    keep(tree, edit)
    assert errors(tree) == set()
    path.write_text("".join([*lines, last]))
    keep(tree, edit)
    assert errors(tree) == {"ledger.times"}


@pytest.mark.parametrize(
    ("prepared_s", "waited_s", "found"),
    [
        (60, 0, []),
        (0, 6, ["warning run_start of result_0.txt is 5.6 s after its step"]),
        (0, 55, ["error run_start of result_0.txt is 54.6 s after its step"]),
        (-55, 55, []),
    ],
)
def test_a_run_starts_right_behind_the_step_that_begins_it(
    tree: Path, prepared_s: int, waited_s: int, found: list[str]
) -> None:
    """Hiding a minute of the first epoch leaves it between the step and run_start, which lie half a
    second apart: only a busy disk lies between them. Preparation may take any time; a step behind
    it belongs to a run that was begun again.
    """
    log = next(tree.glob("open/acme/results/*/resnet/result_0.txt"))
    lines = [json.loads(line[9:]) for line in log.read_text().splitlines()]
    start = next(place for place, line in enumerate(lines) if line["key"] == "run_start")
    for line in lines[1:]:
        line["time_ms"] += max(0, prepared_s) * 1000
    for line in lines[start:]:
        line["time_ms"] += waited_s * 1000
    for line in lines if prepared_s < 0 else ():
        line["time_ms"] = max(line["time_ms"], lines[start]["time_ms"] - 1000)
    log.write_text("".join(f":::MLLOG {json.dumps(line)}\n" for line in lines))
    keep(tree, lambda steps: [shift(steps[0], -waited_s), *steps[1:]])
    told = [
        f"{each.severity} {each.found}"
        for each in Judge().judge_path(str(tree)).findings
        if each.rule == "ledger.times"
    ]
    assert told == found


def test_init_stop_comes_before_the_step_of_the_set(tree: Path) -> None:
    """Its time moved behind the step hides an epoch before the clock, too."""
    log = next(tree.glob("open/acme/results/*/resnet/result_0.txt"))
    lines = [json.loads(line[9:]) for line in log.read_text().splitlines()]
    for line in lines[1:]:
        line["time_ms"] += 55_000
    log.write_text("".join(f":::MLLOG {json.dumps(line)}\n" for line in lines))
    keep(tree, lambda steps: [shift(steps[0], -55), *steps[1:]])
    told = [
        each.found for each in Judge().judge_path(str(tree)).findings if each.rule == "ledger.times"
    ]
    assert told[0] == "init_stop of result_0.txt is 52.6 s after its step"


def test_steps_that_go_back_in_time_are_a_warning(tree: Path) -> None:
    """Several machines may write one ledger, and a clock may be set."""
    relink(tree, lambda steps: [*steps[:-1], shift(steps[-1], -3600)])
    told = [
        (each.severity, each.found)
        for each in Judge().judge_path(str(tree)).findings
        if each.rule == "ledger.times"
    ]
    assert [severity for severity, _ in told] == [Severity.WARNING]

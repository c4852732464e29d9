"""The writer of a ledger: nothing that was tried is lost, whatever stops it, and what was lost
under way is told by the next command.
"""

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from suite.files.layout import (
    compute_file_sha256,
    find_owning_results,
    locate_staged_campaign,
    locate_staged_results,
    locate_staged_runs,
)
from suite.ledger import book
from suite.ledger.book import Ledger, LedgerError, compute_target_hashes
from suite.ledger.history import collect_standing_files, find_unended_attempts
from suite.ledger.steps import (
    AttemptKind,
    LedgerStep,
    StepKind,
    compute_campaign_nonce,
    compute_ledger_head,
    compute_line_sha256,
    encode_ledger_step,
    find_challenge_fault,
    parse_ledger,
    parse_ledger_line,
    split_ledger_lines,
    strip_packed_lines,
)

RUN = "open/acme/results/box/net/Server/performance/run_1"
SET = "open/acme/results/box/net"


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(
        results=tmp_path,
        organisation_folder=tmp_path / "open" / "acme",
        workload="net",
        names=("net",),
    )


def holds(ledger: Ledger) -> bool:
    """Tell whether every line is numbered and linked."""
    lines = split_ledger_lines(ledger.read_bytes())
    steps = [parse_ledger_line(line) for line in lines]
    links = ["", *map(compute_line_sha256, lines)]
    return all(
        step is not None and (step.n, step.previous) == (place, links[place])
        for place, step in enumerate(steps)
    )


def put(path: Path, text: str = "x") -> dict[str, str]:
    """Leave a file of a result; give it as the ledger names it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return {
        path.as_posix().split("/", path.as_posix().split("/open/")[0].count("/") + 1)[
            -1
        ]: compute_file_sha256(path)
    }


def serve(ledger: Ledger, text: str, place: Path | None = None) -> dict[str, str]:
    """Begin a run, write its line, then leave its file."""
    ledger.begin(AttemptKind.PERFORMANCE, RUN, "aa")
    path = (place or ledger.results) / RUN / "run.json"
    files = put(path, text)
    files = {f"{RUN}/run.json": next(iter(files.values()))}
    ledger.append(StepKind.SERVED, files, what=AttemptKind.PERFORMANCE, of=RUN, nonce="aa")
    return files


def test_each_line_is_numbered_and_linked_to_the_one_before(ledger: Ledger) -> None:
    """Without links a line could go and nobody would know."""
    serve(ledger, "one")
    ledger.append(StepKind.CHECKED)
    assert holds(ledger) and [step.step for step in ledger.read_steps()] == [
        "begin",
        "served",
        "checked",
    ]
    assert compute_ledger_head(ledger.read_bytes()) == compute_line_sha256(
        ledger.read_bytes().splitlines()[-1]
    )


@pytest.mark.parametrize("keep", [1, 20, -1])
def test_a_torn_last_line_is_dropped_by_the_next_writer(ledger: Ledger, keep: int) -> None:
    """Its writer was killed: half a line must neither count nor swallow the next."""
    serve(ledger, "one")
    whole = ledger.read_bytes()
    last = whole.splitlines(keepends=True)[-1]
    ledger.path.write_bytes(whole + last[:keep])
    ledger.append(StepKind.CHECKED)
    assert ledger.read_bytes().startswith(whole) and holds(ledger) and len(ledger.read_steps()) == 3


def test_a_full_disk_is_one_sentence_and_the_chain_goes_on_with_room_again(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line that was half written must not end a campaign for good."""
    serve(ledger, "one")
    real = os.write

    def full(descriptor: int, text: bytes) -> int:
        if len(text) > 10:
            return real(descriptor, text[:10])
        raise OSError(errno.ENOSPC, "No space left on device")

    with (
        monkeypatch.context() as patch,
        pytest.raises(
            LedgerError, match="No space left on device; no attempt counts without its line"
        ),
    ):
        patch.setattr(
            book.os,
            "write",
            lambda descriptor, text: (
                full(descriptor, text) if len(text) > 30 else full(descriptor, b"0")
            ),
        )
        ledger.append(StepKind.CHECKED)
    ledger.append(StepKind.CHECKED)
    assert holds(ledger) and len(ledger.read_steps()) == 3


def test_a_link_and_a_folder_in_its_place_are_refused(ledger: Ledger, tmp_path: Path) -> None:
    """Writing through a link would change somebody else's file."""
    other = tmp_path / "other.jsonl"
    other.write_text("")
    ledger.path.parent.mkdir(parents=True)
    ledger.path.symlink_to(other)
    with pytest.raises(LedgerError):
        ledger.append(StepKind.CHECKED)
    ledger.path.unlink()
    ledger.path.mkdir()
    with pytest.raises(LedgerError, match="must be readable"):
        ledger.settle()
    assert other.read_text() == ""


def test_what_was_there_before_the_ledger_stands_in_its_first_line_alone(ledger: Ledger) -> None:
    """Else nobody could go on with results of an earlier podium; a file that comes later without a
    step must not slip in.
    """
    put(ledger.results / SET / "result_0.txt")
    put(ledger.results / SET / "Server" / "accuracy" / "run.json")
    put(ledger.results / "checkpoints" / "net" / "ab" / "record.json")
    ledger.begin(AttemptKind.TRAINING, SET, "bb")
    put(ledger.results / SET / "result_1.txt")
    ledger.begin(AttemptKind.TRAINING, SET, "bb")
    first, second = ledger.read_steps()
    assert (
        sorted(first.files)
        == [
            "checkpoints/net/ab/record.json",
            f"{SET}/Server/accuracy/run.json",
            f"{SET}/result_0.txt",
        ]
        and second.files == {}
    )


def test_settling_tells_what_went_and_what_never_ended(ledger: Ledger) -> None:
    """A run that was moved aside, one whose name never came, and one that a kill ended."""
    kept = serve(ledger, "one")
    (ledger.results / RUN).rename(ledger.results / "elsewhere")
    ledger.begin(AttemptKind.PERFORMANCE, RUN, "aa")
    ledger.settle()
    gone, aborted = ledger.read_steps()[-2:]
    assert (gone.step, gone.files, gone.nonce) == (StepKind.SUPERSEDED, kept, "aa") and (
        aborted.step,
        aborted.of,
    ) == (StepKind.ABORTED, RUN)
    before = ledger.read_bytes()
    ledger.settle()
    assert ledger.read_bytes() == before and holds(ledger)


def test_a_superseded_file_that_is_put_back_stays_superseded(ledger: Ledger) -> None:
    """Else the better of two runs could be copied back, and the next command would make it
    count.
    """
    old = serve(ledger, "one")
    serve(ledger, "two")
    ledger.settle()
    (ledger.results / RUN / "run.json").write_text("one")
    ledger.settle()
    assert collect_standing_files(ledger.read_steps()) == {}
    assert [
        (step.files, step.made) for step in ledger.read_steps() if step.step is StepKind.SUPERSEDED
    ][0] == (old, 1)


def test_equal_files_of_two_runs_do_not_stand_for_one_another(ledger: Ledger) -> None:
    """Two accuracy runs give equal answers: the later one is kept, and the earlier one went."""
    serve(ledger, "one")
    serve(ledger, "one")
    ledger.append(
        StepKind.SERVED,
        {f"{RUN}/run.json": "0" * 64, f"{RUN}/accuracy.txt": "1" * 64},
        what=AttemptKind.PERFORMANCE,
        of=RUN,
        nonce="aa",
    )
    assert set(collect_standing_files(ledger.read_steps())) == {1, 3, 4}
    ledger.append(StepKind.SUPERSEDED, ledger.read_steps()[1].files, made=1)
    assert set(collect_standing_files(ledger.read_steps())) == {3, 4}
    ledger.settle()
    assert set(collect_standing_files(ledger.read_steps())) == {3}


@pytest.mark.parametrize(
    "place", [locate_staged_campaign, locate_staged_results, locate_staged_runs]
)
def test_what_is_made_beside_earlier_results_stands_and_is_written_where_these_lie(
    ledger: Ledger, place: Callable[[Path, str], Path]
) -> None:
    """A ledger below `.podium` would go with the folder."""
    made = place(ledger.results, "net")
    serve(ledger, "one", made)
    ledger.settle()
    assert (
        len(collect_standing_files(ledger.read_steps())) == 1
        and find_owning_results(made) == ledger.results
    )


def test_a_training_set_that_goes_on_is_not_given_up(ledger: Ledger) -> None:
    """An interrupted set is no attempt that failed while its state lies there."""
    ledger.begin(AttemptKind.TRAINING, SET, "cc", options={"runs": 2})
    state = ledger.results / ".podium" / "net" / "campaign.json"
    state.parent.mkdir(parents=True)
    state.write_text(json.dumps({"nonce": "cc"}))
    ledger.settle()
    assert len(ledger.read_steps()) == 1
    state.unlink()
    ledger.settle()
    assert [step.step for step in ledger.read_steps()] == ["begin", "aborted"] and not list(
        find_unended_attempts(ledger.read_steps())
    )


def test_a_bundle_leaves_out_what_packing_itself_wrote(ledger: Ledger) -> None:
    """Else packing twice would never give the same bytes."""
    serve(ledger, "one")
    whole = ledger.read_bytes()
    ledger.append(StepKind.PACKED, {"bundles/a": "0" * 64})
    ledger.append(StepKind.PACKED, {"bundles/b": "1" * 64})
    assert strip_packed_lines(ledger.read_bytes()) == whole
    ledger.append(StepKind.CHECKED)
    assert strip_packed_lines(ledger.read_bytes()) == ledger.read_bytes()


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"[]",
        b"{}",
        b'{"n": 0}',
        b"\xff",
        b'{"n": 0, "step": "dance", "utc": "", "files": {}, "previous": ""}',
        b"[" * 100_000,
    ]
    + [
        b'{"n": 0, "step": "begin", "utc": "", "files": {"a": 1}, "previous": ""}',
        b'{"n": "0", "step": "begin", "utc": "", "files": {}, "previous": ""}',
    ],
)
def test_a_line_of_anybodys_is_passed_over(ledger: Ledger, line: bytes) -> None:
    """The judge tells of it; a command must not end in a traceback."""
    assert parse_ledger_line(line) is None
    ledger.path.parent.mkdir(parents=True)
    ledger.path.write_bytes(line + b"\n")
    ledger.settle()
    ledger.append(StepKind.CHECKED)
    assert [step.n for step in parse_ledger(ledger.read_bytes())] == [1]


@pytest.mark.parametrize(
    "name", ["/etc/hostname", "../../outside", "a\ud800", "a\0b", "x" * 5000, ""]
)
def test_a_name_that_no_result_can_have_is_settled_as_gone(ledger: Ledger, name: str) -> None:
    """A ledger may be anybody's: nothing outside the results folder is looked at."""
    ledger.append(
        StepKind.SERVED, {name: "0" * 64}, what=AttemptKind.PERFORMANCE, of=RUN, nonce="aa"
    )
    ledger.settle()
    assert [step.step for step in ledger.read_steps()] == ["served", "superseded"] and holds(ledger)


def test_what_is_written_is_read_back(ledger: Ledger) -> None:
    step = LedgerStep(
        n=3,
        step=StepKind.BEGIN,
        utc="u",
        files={"a": "b"},
        previous="p",
        nonce="n",
        what="w",
        of="o",
        options={"k": [1, None]},
        system="s",
        challenge="c",
        random="r",
        verdict="v",
    )
    assert parse_ledger_line(encode_ledger_step(step)[:-1]) == step


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("ab" * 8, True),
        ("ab" * 64, True),
        ("ab" * 7, False),
        ("ab" * 65, False),
        ("AB" * 8, False),
        ("xy" * 8, False),
        ("a" * 17, False),
        ("", False),
    ],
)
def test_a_challenge_has_8_to_64_bytes_of_hexadecimal_digits(text: str, good: bool) -> None:
    assert (find_challenge_fault(text) is None) is good


def test_a_nonce_depends_on_challenge_and_random_bytes() -> None:
    """Were it not, a nonce could be drawn before the challenge was known."""
    found: set[Any] = {
        compute_campaign_nonce(a * 8, b * 32) for a in ("00", "01") for b in ("00", "01")
    }
    assert len(found) == 4 and all(len(each) == 64 for each in found)


def test_a_folder_that_is_not_finished_is_named_as_it_will_be(tmp_path: Path) -> None:
    """The line comes before the name."""
    partial = tmp_path / RUN.replace("run_1", "run_1.partial")
    put(partial / "run.json")
    assert list(compute_target_hashes(partial, tmp_path / RUN, tmp_path)) == [f"{RUN}/run.json"]

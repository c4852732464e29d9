"""Where the rules of training logs draw their lines: what is just allowed, and what is just not."""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import making
import pytest
from judged_examples import EXAMPLES
from making import Event, changed, training_events, without, write_log
from modes import run_without_powers
from spoiling import resumed

from compliance.judge import Judge
from compliance.kinds.podium.documents.training import (
    parse_logged_scores,
    read_training_log,
)
from compliance.kinds.podium.rules.training import hyperparameters
from compliance.verdict import Finding, Severity, Verdict
from suite import registry
from suite.rounds.quality import has_reached_target
from suite.terms import Profile

FULL = Profile.FULL
ABORTED = {"status": "aborted"}
AFTER = ("checkpoint_sha256", "reference_accuracy")


def broken(tmp_path: Path, events: Sequence[Event]) -> set[str]:
    """The rules that a log breaks, warnings too."""
    path = write_log(tmp_path / "result_0.txt", events)
    return {finding.rule for finding in Judge().judge_path(str(path)).findings}


def missed(tmp_path: Path, events: Sequence[Event]) -> Finding:
    """The finding on a run that did not converge."""
    path = write_log(tmp_path / "result_0.txt", events)
    findings = Judge().judge_path(str(path)).findings
    return next(finding for finding in findings if finding.rule == "training.converged")


def aborted(events: Sequence[Event]) -> list[Event]:
    return [
        event for event in changed(events, "run_stop", metadata=ABORTED) if event.key not in AFTER
    ]


def logged(key: str, value: Any, profile: Profile = Profile.SMOKE) -> list[Event]:
    return changed(
        training_events(
            0, profile, scores=(*making.RISING, 0.77) if profile is FULL else making.SCORES
        ),
        key,
        value=value,
    )


@pytest.mark.parametrize(
    ("score", "rules"),
    [
        (0.759, set()),
        (0.7589999, {"training.target"}),
        (0.99999, set()),
        (1, {"training.accuracy"}),
        (-0.1, {"training.accuracy", "training.target"}),
        ("0.875", {"training.accuracy", "training.target"}),
        (True, {"training.accuracy", "training.target"}),
        (None, {"training.accuracy", "training.target"}),
        ({"top1": 0.875}, {"training.accuracy", "training.target"}),
        ([0.875], {"training.accuracy", "training.target"}),
    ],
)
def test_an_accuracy_is_a_number_that_reaches_the_target(
    tmp_path: Path, score: object, rules: set[str]
) -> None:
    assert (
        broken(tmp_path, logged("eval_accuracy", score))
        - {"training.grain", "training.reference_level"}
        == rules
    )


@pytest.mark.parametrize(
    ("score", "reference", "precision", "rules"),
    [
        (882 / 1008, 882 / 1008, "fp32", set()),
        (882 / 1008, 892 / 1008, "fp32", set()),
        (882 / 1008, 893 / 1008, "fp32", {"training.reference_level"}),
        (882 / 1008, 871 / 1008, "fp32", {"training.reference_level"}),
        (882 / 1008, 853 / 1008, "bf16", set()),
        (882 / 1008, 851 / 1008, "bf16", {"training.reference_level"}),
        (0.86, 882 / 1008, "bf16", {"training.grain"}),
    ],
)
def test_last_evaluation_and_reference_are_scores_of_the_same_weights(
    tmp_path: Path, score: float, reference: float, precision: str, rules: set[str]
) -> None:
    """A score that was typed to reach the target, or a bar that was lowered for serving: one of
    1,008 pictures is 0.00099.
    """
    events = changed(
        logged("eval_accuracy", score), "reference_accuracy", value={"top1": reference}
    )
    assert broken(tmp_path, changed(events, "precision", value=precision)) == rules


def test_two_metrics_must_both_reach_their_targets() -> None:
    """Mask R-CNN has a box and a mask target; one of them is not enough."""
    target, keys = {"box": 0.377, "mask": 0.339}, {"box": "BBOX", "mask": "SEGM"}
    assert has_reached_target(parse_logged_scores({"BBOX": 0.377, "SEGM": 0.339}, keys), target)
    assert not has_reached_target(parse_logged_scores({"BBOX": 0.5, "SEGM": 0.338}, keys), target)
    assert not has_reached_target(parse_logged_scores({"BBOX": 0.5}, keys), target)
    assert not has_reached_target(parse_logged_scores(0.5, keys), target)
    assert not has_reached_target({}, target)


@pytest.mark.parametrize(
    ("first", "rules"),
    [(4, set()), (5, set()), (7, set()), (8, {"training.schedule"}), (3, {"training.schedule"})],
)
def test_the_first_evaluation_may_come_at_an_offset(
    tmp_path: Path, first: int, rules: set[str]
) -> None:
    """MLPerf's ResNet: every 4 epochs, the first at epoch 4 to 7."""
    events = training_events(0, FULL, scores=(0.77,), every=first)
    assert broken(tmp_path, events) - {"training.fewest_epochs"} == rules


def test_later_evaluations_keep_the_interval(tmp_path: Path) -> None:
    events = changed(
        training_events(0, FULL, scores=(0.5,), every=5), "reference_accuracy", value={"top1": 0.77}
    )
    at = next(place for place, event in enumerate(events) if event.key == "run_stop")
    for second, rules in ((4, set()), (5, {"training.schedule"})):
        found = broken(
            tmp_path, [*events[:at], *making.block_events(6, second, 0.77, 1281167), *events[at:]]
        )
        assert found - {"training.fewest_epochs"} == rules


@pytest.mark.parametrize(
    ("named", "last", "due"),
    [
        ((), None, [4, 5]),
        ((), 5, [9]),
        ((40, 50), None, [40]),
        ((40, 50), 40, [50]),
        ((40, 50), 50, []),
        ((40, 50), 45, [50]),
    ],
)
def test_evaluations_come_at_every_kth_epoch_or_at_those_that_the_row_names(
    named: tuple[int, ...], last: object, due: list[int]
) -> None:
    """SSD's rules name epochs 40, 50, 55 and so on: one that is left out, or one more, is another
    schedule.
    """
    row = registry.load_round().benchmark("resnet50").training[FULL]
    own = replace(
        row, evaluate_every_epochs=4, evaluate_offset_epochs=(0, 1), evaluation_epochs=named
    )
    assert own.list_due_epochs(last) == due


@pytest.mark.parametrize(
    ("after_ms", "rules"), [(1_199_000, set()), (1_201_000, {"training.init"})]
)
def test_initialisation_may_take_twenty_minutes(
    tmp_path: Path, after_ms: int, rules: set[str]
) -> None:
    assert (
        broken(tmp_path, changed(training_events(), "init_stop", after_ms=after_ms - 3_000))
        == rules
    )


@pytest.mark.parametrize(
    ("value", "metadata", "rules"),
    [
        (True, {}, set()),
        (None, {"reason": "no"}, set()),
        (None, {}, {"training.cache"}),
        (False, {"reason": "no"}, {"training.cache"}),
        ("true", {}, {"training.cache"}),
        (1, {}, {"training.cache"}),
    ],
)
def test_a_cache_is_cleared_or_a_reason_given(
    tmp_path: Path, value: object, metadata: dict[str, str], rules: set[str]
) -> None:
    assert (
        broken(tmp_path, changed(training_events(), "cache_clear", value=value, metadata=metadata))
        == rules
    )


@pytest.mark.parametrize(
    "key", ["block_start", "block_stop", "epoch_start", "epoch_stop", "eval_start", "eval_stop"]
)
def test_no_mark_may_be_missing(tmp_path: Path, key: str) -> None:
    assert broken(tmp_path, without(training_events(), key)) & {
        "training.nesting",
        "training.epochs",
        "training.evaluated",
    }


@pytest.mark.parametrize(
    "key",
    [
        "block_start",
        "block_stop",
        "epoch_start",
        "epoch_stop",
        "eval_start",
        "eval_stop",
        "eval_accuracy",
    ],
)
def test_no_mark_may_stand_twice(tmp_path: Path, key: str) -> None:
    events = training_events()
    at = next(place for place, event in enumerate(events) if event.key == key)
    assert broken(tmp_path, [*events[: at + 1], events[at], *events[at + 1 :]]) & {
        "training.nesting",
        "training.epochs",
        "training.evaluated",
    }


@pytest.mark.parametrize(
    "key", ["epoch_start", "epoch_stop", "eval_start", "eval_accuracy", "eval_stop"]
)
@pytest.mark.parametrize("number", [1, 4, None, "3", 2.5])
def test_a_mark_names_its_epoch(tmp_path: Path, key: str, number: object) -> None:
    """The last epoch is the third."""
    assert broken(tmp_path, changed(training_events(), key, metadata={"epoch_num": number}))


def test_a_block_may_hold_several_epochs_and_says_how_many(tmp_path: Path) -> None:
    events = training_events(0, FULL, scores=(*making.RISING, 0.77))
    assert broken(tmp_path, events) == set()
    assert "training.epochs" in broken(
        tmp_path, changed(events, "block_start", metadata={"first_epoch_num": 1, "epoch_count": 3})
    )


@pytest.mark.parametrize(
    "key",
    [event.key for event in training_events() if event.key.startswith(("podium_", "submission_"))],
)
def test_each_stamp_must_be_a_known_one(tmp_path: Path, key: str) -> None:
    """A stamp that is made up must not pass; a version, organisation or system may have any
    name.
    """
    free = {"podium_version", "submission_org", "submission_platform"}
    assert bool(broken(tmp_path, logged(key, "made up"))) is (key not in free)
    assert broken(tmp_path, logged(key, 7))


@pytest.mark.parametrize(
    ("key", "value", "legal"),
    [
        ("lars_opt_weight_decay", 0.0001, True),
        ("lars_opt_weight_decay", 0.000025, True),
        ("lars_opt_weight_decay", 0.00021, False),
        ("lars_opt_momentum", 0.9, True),
        ("lars_opt_momentum", 0.95, False),
        ("lars_epsilon", 0.0, True),
        ("lars_epsilon", 1e-6, False),
        ("lars_opt_end_learning_rate", 0.0001, True),
        ("lars_opt_end_learning_rate", 0.0, False),
        ("opt_name", "adam", False),
    ],
)
def test_closed_hyperparameters_are_legal_or_not(
    tmp_path: Path, key: str, value: object, legal: bool
) -> None:
    assert ("training.legality" not in broken(tmp_path, logged(key, value, FULL))) is legal


def test_open_hyperparameters_are_free_but_of_their_type(tmp_path: Path) -> None:
    """The value must still be the one that the settings make, so both are changed."""
    events = logged("lars_opt_momentum", 0.123)
    settings = next(event.value for event in events if event.key == "settings")
    assert (
        broken(
            tmp_path, changed(events, "settings", value={**settings, "lars_opt_momentum": 0.123})
        )
        == set()
    )
    assert "training.types" in broken(
        tmp_path,
        changed(
            logged("lars_opt_momentum", "0.9"),
            "settings",
            value={**settings, "lars_opt_momentum": "0.9"},
        ),
    )


@pytest.mark.parametrize(
    "settings",
    [None, [], "text", {}, {"opt_name": []}, {"opt_name": "sgd"}, {"lars_opt_momentum": {"a": 1}}],
)
def test_settings_that_make_no_sense_do_not_crash_the_judge(
    tmp_path: Path, settings: object
) -> None:
    broken(tmp_path, logged("settings", settings))


@pytest.mark.parametrize(
    ("gap", "rules"), [(0, set()), (-1, {"training.clock"}), (-(10**13), {"training.clock"})]
)
def test_time_never_runs_backwards(tmp_path: Path, gap: int, rules: set[str]) -> None:
    assert broken(tmp_path, changed(training_events(), "eval_stop", after_ms=gap)) == rules


def test_a_run_takes_time(tmp_path: Path) -> None:
    events = [making.replace(event, after_ms=0) for event in training_events()]
    assert "training.clock" in broken(tmp_path, events)


def test_an_aborted_run_is_not_converged_whatever_it_reached(tmp_path: Path) -> None:
    """Published rounds count any status but success as the slowest."""
    assert broken(tmp_path, aborted(training_events())) == {"training.converged"}
    assert broken(tmp_path, aborted(training_events(scores=(0.125, 0.25)))) == {
        "training.converged"
    }


def test_an_aborted_run_may_end_in_the_middle_of_an_epoch(tmp_path: Path) -> None:
    """Ctrl-C: what is open stays open."""
    events = aborted(training_events())
    cut = [
        event
        for event in events
        if event.key
        not in (
            "epoch_stop",
            "block_stop",
            "eval_start",
            "eval_accuracy",
            "eval_stop",
            "tracked_stats",
        )
    ]
    once = [
        event
        for event in cut
        if (event.metadata or {}).get("epoch_num") not in (2, 3)
        and (event.metadata or {}).get("first_epoch_num") not in (2, 3)
    ]
    assert broken(tmp_path, once) == {"training.converged"}


def test_a_run_that_was_broken_off_is_advised_no_other_seed(tmp_path: Path) -> None:
    """Before its first evaluation nothing is known of its quality; behind one it is a miss."""
    events = [event for event in aborted(training_events()) if not event.key.startswith("eval_")]
    early = missed(tmp_path, events)
    assert "broken off by an error of the machine or program, not by its quality" in early.found
    assert "seed" not in early.advice
    late = missed(tmp_path, aborted(training_events()))
    assert "broken off" not in late.found and "another seed" in late.advice


@pytest.mark.parametrize(
    ("changes", "rules"),
    [
        ({"value": {"top1": 0.875}, "metadata": {"checkpoint_sha256": making.SHA256}}, set()),
        ({"value": {"top1": 1.0}}, {"training.reference_level"}),
        ({"value": {"top1": 1.01}}, {"training.reference", "training.reference_level"}),
        ({"value": {}}, {"training.reference"}),
        ({"value": {"top1": 0.875, "top5": 0.9}}, {"training.reference"}),
        ({"value": 0.8}, {"training.reference"}),
        ({"value": {"top1": None}}, {"training.reference"}),
        ({"metadata": {}}, {"training.reference"}),
    ],
)
def test_a_reference_is_of_the_checkpoint_and_of_each_metric(
    tmp_path: Path, changes: dict[str, Any], rules: set[str]
) -> None:
    assert broken(tmp_path, changed(training_events(), "reference_accuracy", **changes)) == rules


def test_a_checkpoint_is_a_digest(tmp_path: Path) -> None:
    for sha256 in ("5A" * 32, "5a" * 31, 7):
        assert "training.reference" in broken(tmp_path, logged("checkpoint_sha256", sha256))


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"epoch": 1}, None),
        ({"epoch": 2}, "training.resumed"),
        ({"epoch": 1, "offset": 0}, "training.resumed"),
        ({"epoch": 1, "offset": 5000}, "training.resumed"),
        ({"epoch": 1, "offset": 10**9}, "training.resumed"),
        ({"epoch": 1, "void": "seed"}, "training.resumed"),
        ({"epoch": 1, "void": "momentum"}, "training.resumed"),
        ({"epoch": 1, "void": "evaluation_example"}, None),
        ({"epoch": 1, "again": 0.39}, "training.repeated"),
    ],
)
def test_only_marks_behind_the_checkpoint_become_void(
    tmp_path: Path, changes: dict[str, Any], rule: str | None
) -> None:
    resumed(training_events(), **changes)(tmp_path)
    found = {
        finding.rule for finding in Judge().judge_path(str(tmp_path / "result_0.txt")).findings
    }
    assert found == set() if rule is None else rule in found


@pytest.mark.parametrize(
    ("before", "rules"), [("eval_accuracy", set()), ("init_start", {"training.order"})]
)
def test_an_example_of_an_evaluation_stands_in_the_run_and_counts_for_nothing(
    tmp_path: Path, before: str, rules: set[str]
) -> None:
    """Its value is its workload's own; before the clock, nothing has been evaluated."""
    events = training_events()
    at = next(place for place, event in enumerate(events) if event.key == before)
    assert (
        broken(
            tmp_path,
            [
                *events[:at],
                Event("evaluation_example", {"moves": "C3"}, {"epoch_num": 1}),
                *events[at:],
            ],
        )
        == rules
    )


@pytest.mark.parametrize(
    ("before", "rules"), [("init_stop", set()), ("eval_accuracy", {"training.order"})]
)
def test_steps_are_prepared_before_the_clock(tmp_path: Path, before: str, rules: set[str]) -> None:
    """What was compiled or recorded stands in the initialisation, and counts for nothing."""
    events = training_events()
    at = next(place for place, event in enumerate(events) if event.key == before)
    prepared = Event("step_preparation", {"train.compile": 34.1, "train.graphs": None}, {})
    assert broken(tmp_path, [*events[:at], prepared, *events[at:]]) == rules


def test_an_interrupted_run_stop_becomes_void(tmp_path: Path) -> None:
    """Ctrl-C writes run_stop aborted; the run that goes on makes it void."""
    events = training_events()
    at = next(place for place, event in enumerate(events) if event.key == "eval_start") + 3
    prefix = making.written(events[:at])
    back = Event("resumed", None, {"epoch_num": 1, "step": 0, "log_offset": len(prefix.encode())})
    assert (
        broken(tmp_path, [*events[:at], Event("run_stop", None, ABORTED), back, *events[at:]])
        == set()
    )
    log = read_training_log(tmp_path / "result_0.txt", registry.load_round(), None)
    assert log.status == "success"
    assert [record.key for record in log.void] == ["run_stop"]


def test_metadata_of_any_kind_does_not_crash_the_judge(tmp_path: Path) -> None:
    for key in (
        "resumed",
        "block_start",
        "epoch_start",
        "eval_accuracy",
        "run_stop",
        "reference_accuracy",
        "tracked_stats",
    ):
        for value in (None, -1, 1.5, "x", [], {}, [[1]], True):
            events = [
                *training_events(),
                Event(
                    key,
                    value,
                    {
                        "epoch_num": value,
                        "first_epoch_num": value,
                        "epoch_count": value,
                        "log_offset": value,
                    },
                ),
            ]
            broken(tmp_path, events)


@pytest.mark.parametrize("workload", ["resnet50", "ssd", "maskrcnn", "gnmt", "transformer"])
def test_no_network_is_trained_in_an_instant(tmp_path: Path, workload: str) -> None:
    """An epoch of 1 ms, throughput typed to match: no device makes its steps so fast, whatever the
    network.
    """
    row = registry.load_round().benchmark(workload)
    smoke = row.training[Profile.SMOKE]
    told = {
        "podium_workload": workload,
        "train_samples": smoke.train_samples,
        "global_batch_size": smoke.settings["global_batch_size"],
    }
    events = training_events()
    for key, value in told.items():
        events = changed(events, key, value=value)
    assert "training.pace" not in broken(tmp_path, events)
    squeezed = [
        replace(event, after_ms=0) if event.key in ("epoch_stop", "eval_accuracy") else event
        for event in events
    ]
    squeezed = changed(squeezed, "tracked_stats", value={"throughput": 1e9, "loss": 1.0})
    assert "training.pace" in broken(tmp_path, squeezed)


@pytest.mark.parametrize("workload", ["resnet50", "ssd", "maskrcnn", "gnmt", "transformer"])
@pytest.mark.parametrize("profile", [Profile.SMOKE, Profile.FULL])
def test_no_target_is_reached_in_one_epoch_where_no_run_has_reached_it(
    workload: str, profile: Profile
) -> None:
    """Transformer reaches smoke's target in its first epoch, as GNMT did with an earlier text, and
    Transformer full's in its second: there one is none too few.
    """
    row = registry.load_round().benchmark(workload).training[profile]
    at_once = workload == "transformer" or (workload == "gnmt" and profile is Profile.SMOKE)
    assert row.fewest_epochs == 1 if at_once else 1 < row.fewest_epochs < row.max_epochs


@pytest.mark.parametrize(
    ("profile", "runs", "broken"),
    [
        (Profile.SMOKE, 1, False),
        (Profile.SMOKE, 3, False),
        (FULL, 4, True),
        (FULL, 5, False),
        (FULL, 6, True),
    ],
)
def test_more_runs_than_asked_for_tell_more_but_in_full(
    tmp_path: Path, profile: Profile, runs: int, broken: bool
) -> None:
    """A comparison needs three runs a side, and smoke asks for one; MLPerf's sets have as many as
    its rules say.
    """
    for index in range(runs):
        write_log(
            tmp_path / "resnet" / f"result_{index}.txt",
            training_events(index, profile),
            making.START_MS + index * 10**8,
        )
    found = {finding.rule for finding in Judge().judge_path(str(tmp_path / "resnet")).findings}
    assert ("set.runs" in found) is broken


# ---- losses ----


def losing(*losses: float, scores: Sequence[float] = (0.3, 0.5, 0.6, 0.875)) -> list[Event]:
    """A run with these losses."""
    told = iter(losses)
    return [
        (
            replace(event, value={**event.value, "loss": next(told)})
            if event.key == "tracked_stats"
            else event
        )
        for event in training_events(scores=scores)
    ]


@pytest.mark.parametrize(
    ("losses", "severities"),
    [
        ((1.2, 1.1, 1.0, 0.9), []),
        ((1.2, 1.3, 1.25, 1.2000001), []),
        ((1.2, 1.1, 1.1, 0.9), [Severity.WARNING]),
        ((1.2, 1.2, 1.2, 1.2), [Severity.ERROR]),
    ],
)
def test_a_loss_that_was_typed_for_all_epochs_is_found(
    tmp_path: Path, losses: Sequence[float], severities: Sequence[Severity]
) -> None:
    """Weights that learn change it; one pair alone may still be chance."""
    result = Judge().judge_path(str(write_log(tmp_path / "result_0.txt", losing(*losses))))
    assert [
        finding.severity for finding in result.findings if finding.rule == "training.losses"
    ] == severities


def test_a_loss_that_never_changes_may_be_of_a_run_that_did_not_learn(tmp_path: Path) -> None:
    """Such a run misses its target, which is legal."""
    assert "training.losses" not in broken(
        tmp_path, aborted(losing(1.2, 1.2, 1.2, 1.2, scores=(0.1, 0.1, 0.1, 0.1)))
    )


# ---- the command line ----


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["podium", "train", "resnet50"], set()),
        (["/opt/venv/bin/podium", "run", "resnet50", "ssd", "--seed", "3"], set()),
        (
            [
                "podium",
                "train",
                "resnet50",
                "--profile",
                "smoke",
                "--set",
                "lars_opt_momentum=0.90",
            ],
            set(),
        ),
        (["podium", "train", "resnet50", "--set=lars_opt_momentum=9e-1"], set()),
        (["podium", "train", "resnet50", "--set", "opt_name=sgd", "--set", "opt_name=lars"], set()),
        (["podium", "train", "resnet50", "--set", "data.shuffle_labels=False"], set()),
        (["python", "-m", "ours", "ssd", "--profile", "full"], set()),
        (["podium", "other", "ssd", "--profile", "full"], set()),
        (["podium", "train", "ssd"], {"training.command"}),
        (["podium", "train", "resnet50", "--profile=quick"], {"training.command"}),
        (["podium", "train", "resnet50", "--set", "lars_opt_momentum=0.8"], {"training.command"}),
        (
            ["podium", "train", "resnet50", "--set", "data.shuffle_labels=true"],
            {"training.command"},
        ),
        (["podium", "train", "resnet50", "--set", "opt_name=sgd"], {"training.command"}),
    ],
)
def test_a_command_line_tells_what_the_log_tells(
    tmp_path: Path, words: Sequence[str], found: set[str]
) -> None:
    """Edited words would tell the reader of another run; words of another program are not read."""
    assert broken(tmp_path, changed(training_events(), "command_line", value=list(words))) == found


# ---- settings that a log does not have ----

OTHER_OPTIMIZER = "sgd_opt_"
"""How SGD's settings begin; the runs here are trained with LARS."""


def lacking(events: Sequence[Event], *keys: str, records: bool = True) -> list[Event]:
    """The events of a run by a podium that did not know some settings yet."""
    told = next(event.value for event in events if event.key == "settings")
    events = changed(
        events, "settings", value={key: value for key, value in told.items() if key not in keys}
    )
    return [event for event in events if event.key not in keys] if records else list(events)


@pytest.mark.parametrize("profile", [Profile.SMOKE, FULL])
def test_a_setting_that_an_older_podium_did_not_know_is_a_warning(
    tmp_path: Path, profile: Profile
) -> None:
    """A row that gains a setting breaks no bundle from before: each setting in turn is taken as the
    one that came later.
    """
    row = making.RESNET50.row.training[profile]
    events = training_events(
        0, profile, scores=(*making.RISING, 0.77) if profile is FULL else making.SCORES
    )
    others = {key for key in row.settings if key.startswith(OTHER_OPTIMIZER)}
    for key in sorted(set(row.settings) - set(row.required) - others):
        result = Judge().judge_path(
            str(write_log(tmp_path / key / "result_0.txt", lacking(events, key)))
        )
        found = {(finding.rule, finding.severity) for finding in result.findings}
        assert (
            found == {("training.settings", Severity.WARNING)} and result.verdict is Verdict.VALID
        ), (key, found)


def test_settings_of_an_optimizer_that_did_not_train_may_be_missing(tmp_path: Path) -> None:
    """Bundles from before smoke took LARS have none of its settings, and must be judged as they
    were.
    """
    others = [
        key
        for key in making.RESNET50.row.training[Profile.SMOKE].settings
        if key.startswith(OTHER_OPTIMIZER)
    ]
    assert others and broken(tmp_path, lacking(training_events(), *others)) == set()


@pytest.mark.parametrize("hidden", [False, True])
def test_no_optimizer_hides_behind_another_ones_name(tmp_path: Path, hidden: bool) -> None:
    """Naming SGD, or leaving the optimizer's setting out, would excuse LARS's settings from being
    told.
    """
    told = next(event.value for event in training_events() if event.key == "settings")
    others = {key: value for key, value in told.items() if key != "opt_name"}
    events = changed(
        training_events(), "settings", value=others if hidden else {**others, "opt_name": "sgd"}
    )
    assert "training.settings" in broken(tmp_path, events)
    assert Judge().judge_path(str(tmp_path / "result_0.txt")).verdict is Verdict.BROKEN


def of_minigo() -> list[Event]:
    """A run of Mini-Go, as far as the rules of hyperparameters look."""
    subject = making.Subject(
        workload="minigo",
        metric="moves",
        others={"results": 0.5},
        served=0.5,
        answers=[],
        write_truth=lambda folder: None,
    )
    return training_events(scores=(0.55,), every=4, subject=subject)


def test_a_hyperparameter_that_is_derived_is_no_setting_and_still_logged(tmp_path: Path) -> None:
    """Mini-Go's games per generation follow from its settings: asked of the log, and not of the
    settings.
    """
    derived = "actual_selfplay_games_per_generation"
    assert not {"training.settings", "training.hyperparameters"} & broken(tmp_path, of_minigo())
    result = Judge().judge_path(
        str(write_log(tmp_path / "without" / "result_0.txt", without(of_minigo(), derived)))
    )
    assert ("training.hyperparameters", f"no {derived}") in {
        (finding.rule, finding.found) for finding in result.findings
    }


def test_a_derived_hyperparameter_that_no_row_requires_is_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stands in no list of settings, so nothing else would ask for it; a log from before the
    workload had it stays valid.
    """
    monkeypatch.setattr(
        hyperparameters, "compute_workload_hyperparameters", lambda log: {"opt_of_tomorrow": 3}
    )
    result = Judge().judge_path(str(write_log(tmp_path / "result_0.txt", training_events())))
    assert [(finding.rule, finding.severity) for finding in result.findings] == [
        ("training.hyperparameters", Severity.WARNING)
    ]
    monkeypatch.setattr(
        hyperparameters,
        "compute_workload_hyperparameters",
        lambda log: {"opt_of_tomorrow": 3, "lars_opt_momentum": 0.5},
    )
    assert Judge().judge_path(str(tmp_path / "result_0.txt")).verdict is Verdict.BROKEN


@pytest.mark.parametrize(("samples", "rules"), [(72, set()), (228, {"training.samples"})])
def test_games_of_mini_go_are_as_many_as_its_row_says(
    tmp_path: Path, samples: int, rules: set[str]
) -> None:
    """No rule holds them against the positions that are served, so the row alone does."""
    assert (
        broken(tmp_path, changed(of_minigo(), "eval_samples", value=samples)) & {"training.samples"}
        == rules
    )


def test_a_setting_that_is_logged_but_not_listed_was_cut_out(tmp_path: Path) -> None:
    """Whoever logs a hyperparameter knows it as a setting."""
    events = lacking(training_events(), "lars_opt_momentum", records=False)
    assert broken(tmp_path, events) == {"training.settings"}
    assert Judge().judge_path(str(tmp_path / "result_0.txt")).verdict is Verdict.BROKEN


@pytest.mark.parametrize("key", ["sgd.nesterov", "lars_opt_momentum"])
def test_a_setting_that_is_left_out_softens_no_other_rule(tmp_path: Path, key: str) -> None:
    """It counts as the row's, so a run in too few epochs is still one with the row's settings, and
    a condition on it still holds.
    """
    path = write_log(tmp_path / "result_0.txt", lacking(training_events(scores=(0.875,)), key))
    assert ("training.fewest_epochs", Severity.ERROR) in {
        (finding.rule, finding.severity) for finding in Judge().judge_path(str(path)).findings
    }
    full = changed(
        training_events(0, FULL, scores=(*making.RISING, 0.77)),
        "lars_opt_weight_decay",
        value=0.0003,
    )
    assert "training.legality" in broken(tmp_path / "full", lacking(full, "opt_name"))


@pytest.mark.parametrize(
    ("loss", "rules"), [(0.0, set()), (-1e-7, set()), (-0.01, {"training.stats"})]
)
def test_a_cross_entropy_is_not_negative(tmp_path: Path, loss: float, rules: set[str]) -> None:
    """Rounding may take a hair of it, an edit more."""
    events = [
        (
            replace(event, value={**event.value, "loss": loss})
            if event.key == "tracked_stats"
            else event
        )
        for event in training_events()
    ]
    assert broken(tmp_path, events) - {"training.losses"} == rules


@pytest.mark.parametrize(
    ("after_ms", "ranks", "rules"),
    [
        (9_000, 1, set()),
        (11_000, 1, {"training.init"}),
        (59_000, 2, set()),
        (61_000, 2, {"training.init"}),
    ],
)
def test_the_clock_starts_when_initialisation_ends(
    tmp_path: Path, after_ms: int, ranks: int, rules: set[str]
) -> None:
    """Epochs before run_start would lie between init_stop and it; two ranks may wait for each
    other.
    """
    events = changed(training_events(), "world_size", value=ranks)
    assert broken(tmp_path, changed(events, "run_start", after_ms=after_ms)) == rules


def test_weights_that_cannot_be_read_are_not_called_changed(tmp_path: Path) -> None:
    """Of another user's results, whose weights only the user may read."""
    results = tmp_path / "results"
    shutil.copytree(EXAMPLES / "valid" / "ledger.nonce", results)
    (record,) = results.glob("checkpoints/resnet50/*/record.json")
    weights = record.with_name("model.safetensors")
    weights.write_text("weights")
    weights.chmod(0)
    told = " ".join(run_without_powers("check", results).stdout.split())
    assert "model.safetensors: cannot be read (Permission denied)" in told
    assert "make them readable" in told and "train again" not in told

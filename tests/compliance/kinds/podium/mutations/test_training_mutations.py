"""A good training log with one thing wrong, everywhere that it can be wrong: each event deleted,
doubled, moved, retyped.

What is let through is named here with the reason; anything else that passes is a hole in the rules.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from making import Event, training_events, write_log
from spoiling import resumed

from compliance.judge import Judge
from compliance.verdict import Verdict

GOOD = training_events()
MARKERS = {event.key for event in GOOD if event.key.endswith(("_start", "_stop"))}
HEADER = [
    event.key
    for event in GOOD[
        : next(place for place, event in enumerate(GOOD) if event.key == "cache_clear")
    ]
]
TEXTS = {
    "submission_org",
    "submission_platform",
    "podium_version",
    "framework",
    "input_pipeline",
    "device",
    "metric_signature",
}
"""Names that only another file can contradict: any text is one."""
TAIL = {"checkpoint_sha256", "reference_accuracy"}
"""Both come after the clock, in either order."""
Mutation = tuple[str, list[Event]]


def verdict(folder: Path, events: Sequence[Event]) -> Verdict:
    return Judge().judge_path(str(write_log(folder / "result_0.txt", events))).verdict


def holes(folder: Path, mutations: Iterator[Mutation]) -> set[str]:
    """Name the mutations that nobody notices."""
    return {name for name, events in mutations if verdict(folder, events) is not Verdict.BROKEN}


def deleted() -> Iterator[Mutation]:
    for place, event in enumerate(GOOD):
        yield event.key, [*GOOD[:place], *GOOD[place + 1 :]]


def doubled() -> Iterator[Mutation]:
    for place, event in enumerate(GOOD):
        yield event.key, [*GOOD[: place + 1], *GOOD[place:]]


def moved_to_the_end() -> Iterator[Mutation]:
    for place, event in enumerate(GOOD[:-1]):
        yield event.key, [*GOOD[:place], *GOOD[place + 1 :], event]


def moved_to_the_front() -> Iterator[Mutation]:
    for place, event in enumerate(GOOD[1:], 1):
        yield event.key, [event, *GOOD[:place], *GOOD[place + 1 :]]


def without_metadata() -> Iterator[Mutation]:
    for place, event in enumerate(GOOD):
        if event.metadata:
            yield event.key, [*GOOD[:place], replace(event, metadata={}), *GOOD[place + 1 :]]


def renamed() -> Iterator[Mutation]:
    for place, event in enumerate(GOOD):
        yield event.key, [*GOOD[:place], replace(event, key=event.key + "x"), *GOOD[place + 1 :]]


@pytest.mark.parametrize(
    ("mutations", "accepted"),
    [
        (deleted, {"tracked_stats"}),
        (doubled, {"cache_clear"}),
        (moved_to_the_end, {"checkpoint_sha256"}),
        (moved_to_the_front, set(HEADER[1:])),
        (without_metadata, set()),
        (renamed, set()),
    ],
    ids=[
        "deleted",
        "doubled",
        "moved to the end",
        "moved to the front",
        "without metadata",
        "renamed",
    ],
)
def test_no_event_can_be_touched_unnoticed(
    tmp_path: Path, mutations: Callable[[], Iterator[Mutation]], accepted: set[str]
) -> None:
    """Throughput is told for people and may be left out; the cache may be cleared twice; the header
    has no order of its own.
    """
    assert holes(tmp_path, mutations()) == accepted


def valued(values: Sequence[Any]) -> Iterator[Mutation]:
    for place, event in enumerate(GOOD):
        for value in values:
            if type(value) is not type(event.value) or value != event.value:
                yield (
                    f"{event.key} {json.dumps(value)}",
                    [
                        *GOOD[:place],
                        replace(event, value=value),
                        *GOOD[place + 1 :],
                    ],
                )


ODD: list[Any] = [None, True, -1, [], {}]


@pytest.mark.parametrize("value", ODD, ids=map(json.dumps, ODD))
def test_no_value_can_be_replaced_by_another_kind_of_thing(tmp_path: Path, value: Any) -> None:
    """Markers have none, everything else has its own; a cleared cache is true, a run that did not
    need it says null.
    """
    assert holes(tmp_path, valued([value])) == ({"cache_clear true"} if value is True else set())


def test_no_name_can_be_replaced_by_any_other(tmp_path: Path) -> None:
    """But for those that only another file knows better: folders, system description, run records.
    A workload of that name is not installed here.
    """
    mutations = list(valued(["zzz"]))
    assert holes(tmp_path, iter(mutations)) == {
        f'{key} "zzz"' for key in (*TEXTS, "podium_workload")
    }
    (events,) = (events for name, events in mutations if name == 'podium_workload "zzz"')
    assert verdict(tmp_path, events) is Verdict.UNKNOWN


def test_no_number_can_be_replaced_by_any_other(tmp_path: Path) -> None:
    """An early evaluation may have been anything below the target; a seed, a thread more: those are
    claims of this log alone.
    """
    found = holes(tmp_path, valued([7]))
    assert {name.split()[0] for name in found} == {"seed", "threads", "world_size"}


def swapped() -> Iterator[Mutation]:
    for place in range(len(GOOD) - 1):
        one, other = GOOD[place], GOOD[place + 1]
        yield f"{one.key} {other.key}", [*GOOD[:place], other, one, *GOOD[place + 2 :]]


def test_neighbours_cannot_change_places_but_where_order_says_nothing(tmp_path: Path) -> None:
    """Within the header, among hyper-parameters and facts, and behind the clock."""
    facts = {
        event.key for event in GOOD[len(HEADER) : [event.key for event in GOOD].index("init_stop")]
    } - {"init_start", "cache_clear"}
    for name in holes(tmp_path, swapped()):
        pair = set(name.split())
        assert pair <= set(HEADER) or pair <= facts or pair == TAIL, name


@pytest.mark.parametrize("marker", sorted(MARKERS))
def test_a_marker_cannot_be_backdated(tmp_path: Path, marker: str) -> None:
    """A second off each clock reading would be the cheapest way to a better score."""
    place = next(place for place, event in enumerate(GOOD) if event.key == marker)
    events = [*GOOD[:place], replace(GOOD[place], after_ms=-5000), *GOOD[place + 1 :]]
    assert verdict(tmp_path, events) is Verdict.BROKEN


@pytest.mark.parametrize("epoch", [0, 2, 7, "1", None, 1.5, True])
@pytest.mark.parametrize(
    "key", ["epoch_start", "epoch_stop", "eval_start", "eval_accuracy", "eval_stop"]
)
def test_an_epoch_number_that_is_not_the_next_is_found(
    tmp_path: Path, key: str, epoch: object
) -> None:
    """An evaluation of another epoch than the one that was trained last."""
    place = next(place for place, event in enumerate(GOOD) if event.key == key)
    events = [
        *GOOD[:place],
        replace(GOOD[place], metadata={"epoch_num": epoch}),
        *GOOD[place + 1 :],
    ]
    if epoch is True:
        assert verdict(tmp_path, events) in (
            Verdict.BROKEN,
            Verdict.VALID,
        ), "1 and true are one number in Python; no exception, though"
    else:
        assert verdict(tmp_path, events) is Verdict.BROKEN


@pytest.mark.parametrize("cut", range(1, len(GOOD), 3))
def test_a_log_that_ends_early_is_no_result(tmp_path: Path, cut: int) -> None:
    """Wherever it was cut, between two lines; before the round's stamp its day and benchmark are
    those of a published round.
    """
    assert verdict(tmp_path, GOOD[:cut]) is Verdict.BROKEN


@pytest.mark.parametrize("change", [{"epoch": 9}, {"offset": 0}, {"offset": 10**9}, {"offset": 7}])
def test_a_resumed_run_cannot_make_void_what_it_likes(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    """The offset is that of a line, and the epoch the one that goes on."""
    resumed(training_events(), **{"epoch": 1, **change})(tmp_path)
    assert Judge().judge_path(str(tmp_path)).verdict is Verdict.BROKEN

"""Which answers may come from one model, and which may not."""

import struct

import pytest

from suite import registry
from workloads.ssd.agreement import agree

Row = tuple[float, ...]
BASE: list[Row] = [
    (3, 0.1, 0.1, 0.4, 0.5, 0.9, 1),
    (3, 0.5, 0.5, 0.9, 0.8, 0.6, 2),
    (3, 0.2, 0.6, 0.3, 0.7, 0.06, 1),
]


def packed(rows: list[Row]) -> bytes:
    return b"".join(struct.pack("<7f", *row) for row in rows)


def changed(number: int, field: int, value: float) -> list[Row]:
    rows = [list(row) for row in BASE]
    rows[number][field] = value
    return [tuple(row) for row in rows]


@pytest.mark.parametrize(
    ("other", "held"),
    [
        (BASE, True),
        (BASE[::-1], True),
        (changed(0, 5, 0.88), True),
        (changed(0, 1, 0.102), True),
        (BASE[:2], True),
        ([*BASE, (3, 0.0, 0.0, 0.1, 0.1, 0.2, 1)], True),
        (BASE[1:], False),
        (changed(0, 5, 0.7), False),
        (changed(0, 6, 2), False),
        (changed(0, 2, 0.45), False),
        ([*BASE, (3, 0.0, 0.0, 0.1, 0.1, 0.9, 1)], False),
        ([(4, *row[1:]) for row in BASE], False),
        ([(3, 0, 0, 0, 0, 0, 0)], False),
        ([], False),
        (changed(0, 1, float("nan")), False),
        (changed(0, 3, 1e30), False),
    ],
)
def test_small_differences_are_one_model_s(other: list[Row], held: bool) -> None:
    """Scores and boxes that move a little, and what is unsure; not another class, place, sample, or
    a detection more or less.
    """
    assert agree(packed(BASE), packed(other)) is held
    assert agree(packed(other), packed(BASE)) is held


def test_one_of_many_may_be_odd() -> None:
    """Where one box suppresses another that had suppressed a third, a detection comes or goes."""
    many: list[Row] = [
        (3, number / 10, 0.0, number / 10 + 0.09, 0.1, 0.8, 1) for number in range(6)
    ]
    assert agree(packed(many), packed(many[1:]))
    assert not agree(packed(many), packed(many[2:]))


def test_answers_that_are_cut_off_agree_with_nothing() -> None:
    """The judge compares anybody's bytes."""
    assert not agree(packed(BASE)[:-1], packed(BASE))
    assert not agree(packed(BASE), packed(BASE)[:-4])


def test_answers_without_end_agree_with_nothing() -> None:
    """A hundred thousand detections are three megabytes in the log, and their pairs were eighty
    gigabytes of the judge's memory.
    """
    assert not agree(packed(BASE * 50_000), packed(BASE * 50_001))


def test_the_judge_asks_the_workload() -> None:
    """Only where bytes differ; a workload that says nothing has its bytes compared."""
    assert registry.load_agreement("ssd")(packed(BASE), packed(BASE[::-1]))
    assert registry.load_agreement("nobody")(b"a", b"a") and not registry.load_agreement("nobody")(
        b"a", b"b"
    )

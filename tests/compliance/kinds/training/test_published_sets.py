"""What is the same in two runs of a published set, however it is written."""

import pytest

from compliance.kinds.training.rules.run_set import format_canonical_value


@pytest.mark.parametrize(
    ("left", "right"),
    [(4096, 4096.0), ([30, 60.0], [30.0, 60]), ([], []), ("adam", "adam"), (-0.0, 0)],
    ids=["whole number", "list", "empty list", "text", "zero"],
)
def test_the_same_value_in_another_spelling_is_no_difference(left: object, right: object) -> None:
    assert format_canonical_value(left) == format_canonical_value(right)


@pytest.mark.parametrize(
    ("left", "right"),
    [(1, True), (4096, "4096"), (0.1, 0.10001), ([30, 60], [60, 30]), (None, "None"), ("a", "A")],
    ids=["truth", "text", "near", "order", "null", "case"],
)
def test_another_value_is_a_difference(left: object, right: object) -> None:
    assert format_canonical_value(left) != format_canonical_value(right)

"""The figure of a table: dots that can be told apart, whatever lies between the best and the
worst.
"""

import re

import pytest
from changed_results import change_result

from submissions.publish.groups import GroupedRows
from submissions.publish.intervals_figure import LEFT, RIGHT, draw_intervals_figure
from submissions.published_rows import read_published_rows


@pytest.mark.parametrize(
    ("values", "far"),
    [
        ((6.0, 8.0, 30.0, 9_000.0), True),
        ((6.0, 6.5, 7.0, 9.0), False),
        ((0.0, 1.0, 5.0, 9_000.0), False),
    ],
)
def test_an_axis_is_logarithmic_where_dots_would_lie_on_one_another(
    values: tuple[float, ...], far: bool
) -> None:
    """Minutes of a chip beside those of a thousand."""
    row = next(row for row in read_published_rows("training-v0.7") if row.workload == "resnet50")
    rows = tuple(change_result(row, value=value, runs=(value,)) for value in values)
    drawn = str(draw_intervals_figure(GroupedRows(rows=rows, letters=("a",) * len(rows)), "figure"))
    places = [float(x) for x in re.findall(r'<circle [^>]*cx="([0-9.]+)"', drawn)]
    assert (
        len(places) == len(values)
        and all(LEFT <= x <= RIGHT for x in places)
        and places == sorted(places)
    )
    assert ("on a logarithmic axis" in drawn) is far
    if far:
        assert min(later - earlier for earlier, later in zip(places, places[1:], strict=False)) > 5


def test_systems_of_one_machine_keep_their_engine_and_precision() -> None:
    """Names were cut at their end, which is all that differs."""
    row = read_published_rows("training-v0.7")[0]
    means = ("onnxruntime-fp32", "onnxruntime-int8")
    rows = tuple(
        change_result(row, system=f"2c-intel-xeon-processor-{each}", value=1.0, runs=(1.0,))
        for each in means
    )
    drawn = str(draw_intervals_figure(GroupedRows(rows=rows, letters=("", "")), "figure"))
    names = re.findall(r">(2c-[^<]*)</text>", drawn)
    assert len(names) == 2
    assert all(name.endswith(each[-9:]) for name, each in zip(names, means, strict=True))

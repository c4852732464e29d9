"""The columns of results, in the order in which programs read them."""

import json

import pytest
from columns_snapshot import RECORDED, collect_columns

pytest.importorskip("pandas")


@pytest.mark.slow
def test_names_and_order_of_columns_stay() -> None:
    """A program that reads a column by its name or its place would read another one, or none;
    columns_snapshot.py records an intended change.
    """
    recorded = json.loads(RECORDED.read_text("utf-8"))
    found = json.loads(json.dumps(collect_columns()))
    assert list(found) == [name for name in recorded if name in found]
    for name, columns in found.items():
        assert columns == recorded[name], name

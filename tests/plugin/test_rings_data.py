"""What a table of one's own is refused for is one sentence that says what to change."""

from importlib import import_module
from pathlib import Path

import pytest

from suite.errors import RequestError

RINGS = Path(__file__).parents[2] / "examples" / "rings"


@pytest.mark.parametrize(
    "table", ["age,income,class\n1,2,0\n", "1,2,mid\n", '"age"\n1\n', "1,2,0\n1,0\n"]
)
def test_a_table_with_words_is_refused_without_what_to_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    monkeypatch.syspath_prepend(str(RINGS))
    path = tmp_path / "train.csv"
    path.write_text(table)
    with pytest.raises(RequestError, match=r"train.csv: remove a header, and .* class, counted"):
        import_module("podium_rings.data").read(path)

"""What stands beside weights, read and written without a framework."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from suite.errors import RequestError
from workloads.common import weights_description


@dataclass(frozen=True, slots=True, kw_only=True)
class Kite:
    """A description."""

    workload: str
    tails: int


def test_a_description_comes_back(tmp_path: Path) -> None:
    weights_description.write_weights_description(Kite(workload="kites", tails=3), tmp_path)
    assert weights_description.read_weights_description(tmp_path, Kite, "kites") == Kite(
        workload="kites", tails=3
    )


@pytest.mark.parametrize(
    "content", ["", "[]", '{"workload": "kites"}', '{"workload": "kites", "tails": "many"}']
)
def test_what_is_no_description_is_refused(tmp_path: Path, content: str) -> None:
    """One sentence that names the file."""
    (tmp_path / weights_description.DESCRIPTION_FILE).write_text(content)
    with pytest.raises(RequestError, match="no readable model.json of kites"):
        weights_description.read_weights_description(tmp_path, Kite, "kites")


def test_no_framework_is_imported() -> None:
    """Weights of one framework are served by another, which may stand alone."""
    code = (
        "import sys; import workloads.common.weights_description; assert not {'torch',"
        " 'tensorflow'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)

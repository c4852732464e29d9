"""What one compliance test of a scenario hands on to the next."""

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from harness.serving.audits.turns import last_reference

EXAMPLE = Path(__file__).parents[3] / "examples/base/audited/open/acme/compliance/box-torch-fp32/resnet50/Offline/TEST04"


def test_a_reference_run_that_stayed_invalid_is_not_handed_on(tmp_path: Path) -> None:
    """The next test would fail with it, without a reference run of its own."""
    folder = tmp_path / "TEST04"
    shutil.copytree(EXAMPLE, folder)
    ran: Any = SimpleNamespace(outcome=object(), reference=[1.0, 1.0], beside={})
    last = folder / "reference" / "run_2"
    handed = last_reference(ran, folder)
    assert handed is not None and handed.folder == last
    record = last / "run.json"
    record.write_text(record.read_text().replace('"VALID"', '"INVALID"'))
    assert last_reference(ran, folder) is None

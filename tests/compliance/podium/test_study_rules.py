"""A study's table held against its runs: what an edit of several files alike must not get past."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from examples import result_of
from kinds.study import faster, row, study, study_in
from making_study import SYSTEM
from spoiling import setting

from compliance.verdict import Severity
from suite.files.layout import DETAIL
from suite.studies.documents import STUDY, share_key

Edit = Callable[[Path], object]


def errors(folder: Path) -> set[str]:
    return {finding.rule for finding in result_of(folder).findings if finding.severity is Severity.ERROR}


def warnings(folder: Path) -> set[str]:
    return {finding.rule for finding in result_of(folder).findings if finding.severity is Severity.WARNING}


def edited(folder: Path, edit: Callable[[dict[str, Any]], object], name: str = STUDY) -> None:
    """Change a study's documents of one name."""
    study(folder)
    for path in folder.rglob(name):
        document = study_in(path)
        edit(document)
        path.write_text(json.dumps(document))


def test_the_example_has_no_findings(tmp_path: Path) -> None:
    """Else every test below would pass by it."""
    study(tmp_path)
    assert not result_of(tmp_path).findings


def test_a_rate_that_was_doubled_in_log_and_table_alike_is_found(tmp_path: Path) -> None:
    """The record of queries has the latencies."""
    faster(tmp_path)
    assert "study.queries" in errors(tmp_path)


@pytest.mark.parametrize(("factor", "found"), [(0.99, errors), (1.5, warnings)])
def test_a_percentile_that_was_edited_in_log_and_table_alike_is_found(factor: float, found: Callable[[Path], set[str]], tmp_path: Path) -> None:
    """Below the record it cannot be; above it may be by what a busy machine does behind an answer."""
    study(tmp_path)
    (table,) = tmp_path.rglob(STUDY)
    p50_ns = int(study_in(table)["rows"][0]["p50_ns"] * factor)
    row(p50_ns=float(p50_ns))(table)
    (log,) = tmp_path.glob(f"**/{SYSTEM}/batch-8/{DETAIL}")
    setting(share_key("50.00"), p50_ns)(log)
    assert found(tmp_path) == {"study.queries"}

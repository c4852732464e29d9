"""Published results that are not valid here: a list that may only become shorter."""

import pytest
from corpus import MISJUDGED, PUBLISHED

from compliance.judge import Judge
from compliance.verdict import Verdict


@pytest.mark.slow
@pytest.mark.parametrize("folder", MISJUDGED)
def test_a_result_that_is_listed_as_not_valid_is_not_valid(folder: str) -> None:
    """A list that nobody shortens hides the results from all other tests for ever."""
    if not (PUBLISHED / folder).is_dir():
        pytest.skip(f"no {folder} in {PUBLISHED}")
    assert Judge().judge_path(str(PUBLISHED / folder)).verdict is not Verdict.VALID

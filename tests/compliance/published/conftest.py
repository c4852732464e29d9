"""All tests that judge published results, which are not in the repository: each of them has the
marker `corpus`, which tests/conftest.py skips where there are none.
"""

import pytest


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark each test of this folder."""
    item.add_marker(pytest.mark.corpus)

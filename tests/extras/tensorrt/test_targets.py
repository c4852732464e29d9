"""Targets are checked before TensorRT is asked for."""

import pytest

from extras.tensorrt import library
from suite.errors import RequestError


@pytest.mark.parametrize("name", ["sm999", "sm7", "75", "sm8.9"])
def test_an_unknown_target_needs_no_library(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was told to install a library of gigabytes first."""
    monkeypatch.setattr(library, "find_library_module", lambda kind: None)
    with pytest.raises(
        RequestError, match=f"target '{name}': .* builds for sm75, sm80, sm86, sm89"
    ):
        library.check_target_name(name)
    library.check_target_name("sm120")

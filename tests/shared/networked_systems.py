"""What the tests of networked systems share: a results folder with a checkpoint, certificates, and
requests.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from podium_fakes.certificates import Certificates, made
from podium_fakes.kept import keep_ceiling, keep_checkpoint


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Of an authority that the tests make."""
    return made(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A results folder with a checkpoint, and a cache of its own."""
    place = tmp_path_factory.mktemp("remote")
    keep_checkpoint(place / "results")
    keep_ceiling(place / "cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PODIUM_CACHE", str(place / "cache"))
        yield place

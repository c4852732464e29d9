"""Buyer, seller, contracts and bundles; podium as a user calls it."""

from pathlib import Path

import pytest
from contracted_bundles import Parties, deliver, parties

from submissions.accept.contract import AcceptanceContract

__all__ = ["parties"]


@pytest.fixture(scope="session")
def agreed(
    parties: Parties, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, AcceptanceContract]:
    """A contract of two clauses; two attempts are allowed."""
    path = tmp_path_factory.mktemp("agreed") / "contract.toml"
    return path, parties.write(path)


@pytest.fixture(scope="session")
def delivered(
    agreed: tuple[Path, AcceptanceContract],
    parties: Parties,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """The bundle of its first attempt, signed by the seller. Tests that change it take a copy."""
    return deliver(agreed[1], tmp_path_factory.mktemp("delivered"), key=parties.key("seller"))

"""A round of Acme's as data."""

from dataclasses import dataclass

from suite import registry
from suite.rounds.load import build_typed_value, merge_round_tables


@dataclass(frozen=True, slots=True, kw_only=True)
class AcmeRound:
    """A round."""

    name: str
    least_rate: float


def load_acme_round(name: str) -> AcmeRound:
    """Load a round; RequestError if its tables do not fit."""
    tables, _ = merge_round_tables(name, registry.collect_round_texts(name))
    limits = build_typed_value(dict[str, float], tables.get("limits", {}), "limits")
    return AcmeRound(name=name, least_rate=limits["least_rate"])

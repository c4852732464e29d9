"""A campaign's options as JSON types, split into those that training depends on and those of
serving only.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, cast

from suite import registry
from suite.cli import Options
from suite.rounds.settings import TIMED, catalogue, choose, settle
from suite.terms import Precision

SERVING: Final = (*TIMED, "batching.", "engine.")
"""Prefixes of settings that training does not depend on."""
SPELLING: Final = ("results", "config", "assignments", "engine", "power", "meter")
"""Options that name the folder, spell settings, belong to serving, or only observe a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The options of a campaign; equal requests compare equal however they were typed."""

    training: dict[str, Any]
    serving: dict[str, Any]
    """engine, precision and the settings of the LoadGen runs, with defaults filled in."""

    def differences(self, other: "Asked") -> list[tuple[str, Any, Any]]:
        """Return (key, own value, other value) for every difference."""
        mine, others = self.training | self.serving, other.training | other.serving
        return [
            (key, mine.get(key), others.get(key))
            for key in sorted(mine.keys() | others.keys())
            if mine.get(key) != others.get(key)
        ]


def read(
    name: str, options: Options, seed: int | None, runs: int | None, challenge: str | None = None
) -> Asked:
    """Parse the options of a command; RequestError for an unknown workload or setting."""
    round = registry.round()
    row = round.benchmark(name)
    row.check_data(name, options.profile, options.data)
    chosen = choose(catalogue(round, row), options.config, options.assignments)
    settings = settle(round, name, options.profile, chosen)
    plain = (
        asdict(options)
        | {"seed": seed, "runs": runs}
        | ({} if challenge is None else {"challenge": challenge})
    )
    training = {key: value for key, value in plain.items() if key not in SPELLING} | split(
        settings, serving=False
    )
    serving = {"engine": options.engine, "precision": options.precision or Precision.FP32} | split(
        settings, serving=True
    )
    return Asked(training=to_json(training), serving=to_json(serving))


def split(settings: Mapping[str, Any], *, serving: bool) -> dict[str, Any]:
    """Return the settings that only serving depends on, or the others."""
    return {key: value for key, value in settings.items() if key.startswith(SERVING) is serving}


def to_json(values: Mapping[str, Any]) -> dict[str, Any]:
    """Convert paths to text and tuples to lists."""
    return cast("dict[str, Any]", json.loads(json.dumps(values, default=str)))

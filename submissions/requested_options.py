"""A campaign's options as JSON types, split into those that training depends on and those of serving alone."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, cast

from suite import registry
from suite.cli import Options
from suite.rounds.settings import TIMED, catalogue, choose, settle
from suite.terms import Precision

SERVING: Final = (*TIMED, "batching.", "engine.")
"""Beginnings of the names of settings that training does not depend on."""
SPELLING: Final = ("results", "config", "assignments", "engine", "power", "meter")
"""Options that are the place itself, the spelling of settings, serving's, or what is observed beside a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The options of a campaign; equal requests are equal however they were typed."""

    training: dict[str, Any]
    serving: dict[str, Any]
    """engine, precision and the settings of the LoadGen runs, defaults filled in."""

    def differences(self, other: "Asked") -> list[tuple[str, Any, Any]]:
        """Return (key, mine, the other's) of everything that differs."""
        mine, others = self.training | self.serving, other.training | other.serving
        return [(key, mine.get(key), others.get(key)) for key in sorted(mine.keys() | others.keys()) if mine.get(key) != others.get(key)]


def read(name: str, options: Options, seed: int | None, runs: int | None, challenge: str | None = None) -> Asked:
    """Read the options of a command; RequestError for an unknown workload or setting."""
    round = registry.round()
    row = round.benchmark(name)
    row.check_data(name, options.profile, options.data)
    chosen = choose(catalogue(round, row), options.config, options.assignments)
    settings = settle(round, name, options.profile, chosen)
    plain = asdict(options) | {"seed": seed, "runs": runs} | ({} if challenge is None else {"challenge": challenge})
    training = {key: value for key, value in plain.items() if key not in SPELLING} | split(settings, serving=False)
    serving = {"engine": options.engine, "precision": options.precision or Precision.FP32} | split(settings, serving=True)
    return Asked(training=to_json(training), serving=to_json(serving))


def split(settings: Mapping[str, Any], *, serving: bool) -> dict[str, Any]:
    """Take the settings that only serving depends on, or the others."""
    return {key: value for key, value in settings.items() if key.startswith(SERVING) is serving}


def to_json(values: Mapping[str, Any]) -> dict[str, Any]:
    """Turn paths into text and tuples into lists."""
    return cast("dict[str, Any]", json.loads(json.dumps(values, default=str)))

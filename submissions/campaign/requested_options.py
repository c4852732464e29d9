"""A campaign's options as JSON types, split into those that training depends on and those that only
serving uses.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, cast

from suite import registry
from suite.cli import RunOptions
from suite.rounds.settings import (
    PERFORMANCE_PREFIXES,
    collect_workload_settings,
    read_chosen_settings,
    resolve_settings,
)
from suite.terms import Precision

SERVING_ONLY_PREFIXES: Final = (*PERFORMANCE_PREFIXES, "batching.", "engine.")
"""Prefixes of settings that training does not depend on."""
UNCOMPARED_OPTIONS: Final = ("results", "config", "assignments", "engine", "power", "meter")
"""Options that name the folder, give settings, belong to serving, or only observe a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedOptions:
    """The options of a campaign; equivalent requests are equal, however they were typed."""

    training: dict[str, Any]
    serving: dict[str, Any]
    """engine, precision and the settings of the LoadGen runs, with defaults filled in."""

    def list_differences(self, other: "RequestedOptions") -> list[tuple[str, Any, Any]]:
        """Return (key, own value, other value) for every difference."""
        mine, others = self.training | self.serving, other.training | other.serving
        return [
            (key, mine.get(key), others.get(key))
            for key in sorted(mine.keys() | others.keys())
            if mine.get(key) != others.get(key)
        ]


def parse_requested_options(
    name: str, options: RunOptions, seed: int | None, runs: int | None, challenge: str | None = None
) -> RequestedOptions:
    """Parse the options of a command; RequestError for an unknown workload or setting."""
    round = registry.load_round()
    row = round.benchmark(name)
    row.check_data(name, options.profile, options.data)
    chosen = read_chosen_settings(
        collect_workload_settings(round, row), options.config, options.assignments
    )
    settings = resolve_settings(round, name, options.profile, chosen)
    option_values = (
        asdict(options)
        | {"seed": seed, "runs": runs}
        | ({} if challenge is None else {"challenge": challenge})
    )
    training = {
        key: value for key, value in option_values.items() if key not in UNCOMPARED_OPTIONS
    } | select_campaign_settings(settings, serving=False)
    serving = {
        "engine": options.engine,
        "precision": options.precision or Precision.FP32,
    } | select_campaign_settings(settings, serving=True)
    return RequestedOptions(
        training=convert_to_json_types(training), serving=convert_to_json_types(serving)
    )


def select_campaign_settings(settings: Mapping[str, Any], *, serving: bool) -> dict[str, Any]:
    """Return the settings that only serving depends on, or the others."""
    return {
        key: value
        for key, value in settings.items()
        if key.startswith(SERVING_ONLY_PREFIXES) is serving
    }


def convert_to_json_types(values: Mapping[str, Any]) -> dict[str, Any]:
    """Convert paths to text and tuples to lists."""
    return cast("dict[str, Any]", json.loads(json.dumps(values, default=str)))

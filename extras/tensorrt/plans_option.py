"""`podium infer --plans`: serves engines that `podium build` made."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import click

from suite.cli import RunOptions
from suite.console.added_options import AddedOptions
from suite.console.parameters import PATH_TYPE
from suite.errors import RequestError

PLANS_ENGINE: Final = "tensorrt"
"""The engine that serves what `podium build` made."""


def add_plans_setting(options: RunOptions, values: dict[str, Any]) -> RunOptions:
    """Return the options with a folder of engines as a setting; RequestError for an engine that
    takes none.
    """
    plans: Path | None = values.pop("plans")
    if plans is None:
        return options
    if options.engine != PLANS_ENGINE:
        raise RequestError(f"--plans {plans} needs --engine {PLANS_ENGINE}, not {options.engine}")
    setting = f"engine.plans={plans.absolute()}"
    return replace(options, assignments=(*options.assignments, setting))


PLANS: Final = AddedOptions(
    options=(
        click.option(
            "--plans",
            type=PATH_TYPE,
            help="Folder of engines that podium build made; with --engine tensorrt.",
        ),
    ),
    resolve=add_plans_setting,
)

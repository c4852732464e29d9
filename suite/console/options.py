"""Options that several commands share, alone and in groups: a command offers the groups that it
uses.
"""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from suite.console.parameters import (
    ENGINE_OR_AUTO_TYPE,
    ENGINE_TYPE,
    FRAMEWORK_TYPE,
    INPUT_TYPE,
    PATH_TYPE,
)
from suite.files.layout import convert_to_slug
from suite.terms import AUTOMATIC_ENGINE, QUANTISED, Precision, Profile

OptionDecorator = Callable[[Callable[..., Any]], Callable[..., Any]]

ORGANISATION_NAME: Final = re.compile(r"(?!-|\.\.?$)[A-Za-z0-9._-]+", re.ASCII)
"""An organisation's name is a folder of the results tree and an argument of commands: it must not
leave the tree, and must not look like an option.
"""

DEFAULT_RESULTS: Final = Path("results")
"""Results folder of commands that are given none."""

MAX_NAME_LENGTH: Final = 200
"""Characters of an organisation's or a system's name: file systems take 255, and podium adds more,
such as `_podium_SingleStream.json.partial`.
"""


def require_valid_organisation(_: click.Context, __: click.Parameter, name: str) -> str:
    """Refuse a name that is not a plain folder name."""
    if not ORGANISATION_NAME.fullmatch(name):
        raise click.BadParameter(
            f"{name!r} is not a valid name: use only A-Z, a-z, 0-9, '.', '_' and '-', do not begin"
            " with '-', and do not use '.' or '..' alone"
        )
    require_short_name(name)
    return name


def require_valid_system(_: click.Context, __: click.Parameter, name: str | None) -> str | None:
    """Refuse a name from which no file name can be made."""
    require_short_name(convert_to_slug(name or ""))
    return name


def require_short_name(name: str) -> None:
    """Refuse a name that is too long for a file name."""
    if len(name) > MAX_NAME_LENGTH:
        raise click.BadParameter(
            f"{name[:20]}... has {len(name)} characters; use at most {MAX_NAME_LENGTH}, since files"
            " are named after it"
        )


def require_available_threads(_: click.Context, __: click.Parameter, threads: int) -> int:
    """Refuse more threads than there are cores: they would only wait for one another."""
    if threads > (cores := len(os.sched_getaffinity(0))):
        raise click.BadParameter(
            f"{threads} is more than the {cores} CPU cores available to podium; 0 uses the"
            " idle ones"
        )
    return threads


def build_profile_option(text: str, default: Profile = Profile.SMOKE) -> OptionDecorator:
    """Return the option --profile, with the help text of a command."""
    return click.option(
        "--profile",
        type=click.Choice([profile.value for profile in Profile]),
        default=default.value,
        show_default=True,
        help=text,
    )


def build_format_option(*formats: str, default: str = "text") -> OptionDecorator:
    """Return the option --format, which a command gets as `output_format`."""
    return click.option(
        "--format",
        "output_format",
        type=click.Choice(formats),
        default=default,
        show_default=True,
        help="Output format.",
    )


def build_label_option() -> OptionDecorator:
    """Return the option --label, which a command gets as `labels`."""
    return click.option(
        "--label",
        "labels",
        multiple=True,
        metavar="A=NAME",
        help=(
            "Name of a path, by its letter: the first is A, the second B, and so on; repeatable."
        ),
    )


def build_dry_run_option(tried: str) -> OptionDecorator:
    """Return the option --dry-run, with what the command tries, such as `take a few steps`."""
    return click.option(
        "--dry-run",
        is_flag=True,
        help=(
            f"Check everything, {tried}, then print how long the full command will take. Writes no"
            " result."
        ),
    )


PROFILE_OPTION: Final = build_profile_option("How much of the round to run.")
FRAMEWORK_OPTION: Final = click.option(
    "--framework",
    type=FRAMEWORK_TYPE,
    default="torch",
    show_default=True,
    help="Framework of the model.",
)
CONFIG_OPTION: Final = click.option("--config", type=PATH_TYPE, help="TOML file of settings.")
SET_OPTION: Final = click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="KEY=VALUE",
    help="Change one setting; repeatable. podium list settings WORKLOAD shows them.",
)
ENGINE_OPTION: Final = click.option(
    "--engine",
    type=ENGINE_OR_AUTO_TYPE,
    default=AUTOMATIC_ENGINE,
    show_default=True,
    help="Inference engine; auto: the fastest here that answers as accurately as the others.",
)
OWN_ENGINE_OPTION: Final = click.option(
    "--engine", type=ENGINE_TYPE, help="Inference engine (default: the framework's own)."
)
"""For commands that serve without choosing among engines."""
PRECISION_OPTION: Final = click.option(
    "--precision",
    type=click.Choice(list(map(str, Precision))),
    help="Number format (default: the workload's own for training, fp32 for serving).",
)
"""For a command that trains and serves."""
SERVED_PRECISION_OPTION: Final = click.option(
    "--precision",
    type=click.Choice(list(map(str, Precision))),
    default=Precision.FP32.value,
    show_default=True,
    help="Number format.",
)
TRAINING_PRECISION_OPTION: Final = click.option(
    "--precision",
    type=click.Choice([each.value for each in Precision if each not in QUANTISED]),
    help="Number format (default: the workload's own).",
)
INPUT_OPTION: Final = click.option(
    "--input", type=INPUT_TYPE, default="default", show_default=True, help="Input pipeline."
)
DATA_OPTION: Final = click.option(
    "--data",
    type=PATH_TYPE,
    help="Folder of the real data set; required for quick and full (smoke: the embedded data).",
)
RESULTS_OPTION: Final = click.option(
    "--results",
    type=PATH_TYPE,
    default=DEFAULT_RESULTS,
    show_default=True,
    help="Results folder.",
)
DEVICE_OPTION: Final = click.option(
    "--device",
    default="auto",
    show_default=True,
    help="cpu, cuda, cuda:1, or auto: a GPU if there is one.",
)
SERVING_DEVICES_OPTION: Final = click.option(
    "--device",
    default="auto",
    show_default=True,
    help=("cpu, cuda, cuda:1; several GPUs: cuda:0-7,9 or cuda:all; auto: a GPU if there is one."),
)
THREADS_OPTION: Final = click.option(
    "--threads",
    type=click.IntRange(min=0),
    default=0,
    callback=require_available_threads,
    show_default=True,
    help="CPU threads; 0 uses the cores that other programs leave idle, at least half of all.",
)
ORGANISATION_OPTION: Final = click.option(
    "--org",
    default="unaffiliated",
    show_default=True,
    callback=require_valid_organisation,
    help="Name of the organisation in the results tree.",
)
SYSTEM_OPTION: Final = click.option(
    "--system",
    callback=require_valid_system,
    help="Name of the system (default: derived from the detected hardware).",
)
SYSTEM_FILE_OPTION: Final = click.option(
    "--system-file",
    type=PATH_TYPE,
    help="TOML file of system description fields that cannot be detected.",
)
POWER_OPTION: Final = click.option(
    "--power",
    default="auto",
    show_default=True,
    metavar="auto|off|NAME,...",
    help="Power sources to read; podium power lists them.",
)
METER_OPTION: Final = click.option(
    "--meter",
    metavar="tcp://HOST:PORT|COMMAND",
    help="External power meter; podium help meter says how it is read.",
)
CHECKPOINT_OPTION: Final = click.option(
    "--checkpoint",
    type=PATH_TYPE,
    help="Folder of exported weights (default: the newest checkpoint that reached the target).",
)

MODEL_OPTIONS: Final = (PROFILE_OPTION, FRAMEWORK_OPTION, CONFIG_OPTION, SET_OPTION)
"""Which network, with which settings."""
ENGINE_OPTIONS: Final = (ENGINE_OPTION, SERVED_PRECISION_OPTION, INPUT_OPTION)
"""How the network runs and how its samples are read."""
DATA_OPTIONS: Final = (DATA_OPTION, RESULTS_OPTION)
MACHINE_OPTIONS: Final = (DEVICE_OPTION, THREADS_OPTION)
SERVING_MACHINE_OPTIONS: Final = (SERVING_DEVICES_OPTION, THREADS_OPTION)
"""For commands whose system under test may have several GPUs."""
SYSTEM_OPTIONS: Final = (SYSTEM_OPTION, SYSTEM_FILE_OPTION)
FILING_OPTIONS: Final = (ORGANISATION_OPTION, *SYSTEM_OPTIONS)
"""Where the results are filed, and how their system is described."""
POWER_OPTIONS: Final = (POWER_OPTION, METER_OPTION)
RUN_OPTIONS: Final = (
    *MODEL_OPTIONS,
    ENGINE_OPTION,
    PRECISION_OPTION,
    INPUT_OPTION,
    *DATA_OPTIONS,
    *MACHINE_OPTIONS,
    *FILING_OPTIONS,
    *POWER_OPTIONS,
)
"""All of them: for a command that trains, serves and files results."""
SERVING_RUN_OPTIONS: Final = (
    *MODEL_OPTIONS,
    *ENGINE_OPTIONS,
    *DATA_OPTIONS,
    *SERVING_MACHINE_OPTIONS,
    *FILING_OPTIONS,
    *POWER_OPTIONS,
)
"""The same for a command that serves, also on several GPUs."""

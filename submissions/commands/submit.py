"""The command `submit`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from suite.console.options import require_valid_organisation
from suite.console.parameters import PATH_TYPE, RESULT_PATH_TYPE

TARGET_OPTION: Final = click.option(
    "-o",
    "--output",
    "target",
    type=PATH_TYPE,
    required=True,
    metavar="TREE",
    help="New folder for the submission.",
)
ORG_OPTION: Final = click.option(
    "--org",
    required=True,
    callback=require_valid_organisation,
    help="Name of the organisation that submits.",
)
SYSTEM_NAME_OPTION: Final = click.option(
    "--system",
    callback=lambda _, __, name: name and require_valid_organisation(_, __, name),
    help="Name of the system in the tree (default: podium's).",
)
SYSTEM_FILE_OPTION: Final = click.option(
    "--system-file",
    type=PATH_TYPE,
    metavar="FILE",
    help="TOML file of what podium does not know, in a table for each of the round's documents.",
)
CODE_OPTION: Final = click.option(
    "--code", type=PATH_TYPE, metavar="DIR", help="Folder of the code of the benchmark."
)
INCOMPLETE_OPTION: Final = click.option(
    "--incomplete",
    is_flag=True,
    help="Write the tree although something is missing; the exit code stays 1.",
)
ROUND_OPTION: Final = click.option(
    "--round",
    "edition",
    required=True,
    metavar="vN.N",
    help="Round, for example v6.1.",
)
COMMON_OPTIONS: Final = (
    TARGET_OPTION,
    ORG_OPTION,
    SYSTEM_NAME_OPTION,
    SYSTEM_FILE_OPTION,
    CODE_OPTION,
    INCOMPLETE_OPTION,
)


def add_common_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that each submission has."""
    for option in reversed(COMMON_OPTIONS):
        command = option(command)
    return command


@click.group()
def submit() -> None:
    """Build a submission to MLCommons from podium's own results.

    What the round asks for and podium does not have is listed first, with its rule. Nothing is
    written unless all is there, or with --incomplete. Files of LoadGen and of mllog are copied as
    they were written.

    Exit codes: 0 if podium finds no error in the tree, 1 if something is missing, 2 for a wrong
    request, 3 if --checker is not installed.

    Example: podium submit endpoints results/studies/llama-curve-box -o tree --org acme
    """


@submit.command()
@click.argument("curve", type=RESULT_PATH_TYPE)
@add_common_options
@click.option(
    "--name",
    callback=lambda _, __, name: name and require_valid_organisation(_, __, name),
    help="Name of the submission (default: the system's).",
)
@click.option("--docs", type=PATH_TYPE, metavar="DIR", help="Folder of documents to submit.")
@click.option("--checker", is_flag=True, help="Ask endpoints-submission-cli, too.")
def endpoints(
    curve: Path,
    target: Path,
    org: str,
    name: str | None,
    system: str | None,
    system_file: Path | None,
    code: Path | None,
    docs: Path | None,
    incomplete: bool,
    checker: bool,
) -> None:
    """Build a submission to MLPerf Endpoints from the CURVE of a language model, as podium curve
    saves it.

    The file of --system-file has the tables [system] (system_desc.json), [point] (point.yaml) and
    [power] (system_power.json).

    Example: podium submit endpoints results/studies/llama-curve-box -o tree --org acme
    """
    from submissions.submit.endpoints import CurveOptions, submit_curve
    from submissions.submit.official import EndpointsChecker
    from submissions.submit.tree import WritingOptions
    from suite.studies.concurrency_curve import CURVE_ROUND

    submit_curve(
        curve,
        CurveOptions(
            round=CURVE_ROUND,
            org=org,
            name=name,
            system=system,
            system_file=system_file,
            code=code,
            docs=docs,
        ),
        WritingOptions(
            target=target,
            incomplete=incomplete,
            checker=EndpointsChecker() if checker else None,
        ),
    )


@submit.command()
@click.argument("results", type=RESULT_PATH_TYPE)
@ROUND_OPTION
@add_common_options
@click.option("--checker", is_flag=True, help="Ask the package checker of mlperf-logging, too.")
def training(
    results: Path,
    edition: str,
    target: Path,
    org: str,
    system: str | None,
    system_file: Path | None,
    code: Path | None,
    incomplete: bool,
    checker: bool,
) -> None:
    """Build a submission to a round of MLPerf Training from the run sets in RESULTS, those whose
    benchmark the round has.

    The file of --system-file has the table [system]: fields of systems/<system>.json that podium
    does not know.

    Example: podium submit training results --round v6.1 -o tree --org acme --code my-code
    """
    from submissions.submit.official import TrainingChecker
    from submissions.submit.results import ResultOptions
    from submissions.submit.training import submit_training
    from submissions.submit.tree import WritingOptions

    submit_training(
        results,
        ResultOptions(
            round=f"training-{edition}",
            org=org,
            system=system,
            system_file=system_file,
            code=code,
        ),
        WritingOptions(
            target=target, incomplete=incomplete, checker=TrainingChecker() if checker else None
        ),
    )


@submit.command()
@click.argument("results", type=RESULT_PATH_TYPE)
@ROUND_OPTION
@add_common_options
@click.option(
    "--measurements",
    type=PATH_TYPE,
    metavar="DIR",
    help="Folder with user.conf and a README, for the measurements of each scenario.",
)
@click.option(
    "--checker",
    type=PATH_TYPE,
    metavar="DIR",
    help="Checkout of mlcommons/inference, whose submission checker to ask, too.",
)
def inference(
    results: Path,
    edition: str,
    target: Path,
    org: str,
    system: str | None,
    system_file: Path | None,
    code: Path | None,
    incomplete: bool,
    measurements: Path | None,
    checker: Path | None,
) -> None:
    """Build a submission to a round of MLPerf Inference from the served results in RESULTS, those
    whose benchmark the round has.

    The file of --system-file has the table [system]: fields of systems/<system>.json that podium
    does not know.

    Example: podium submit inference results --round v6.1 -o tree --org acme --code my-code
    """
    from submissions.submit.inference import submit_inference
    from submissions.submit.official import InferenceChecker
    from submissions.submit.results import ResultOptions
    from submissions.submit.tree import WritingOptions

    submit_inference(
        results,
        ResultOptions(
            round=f"inference-{edition}",
            org=org,
            system=system,
            system_file=system_file,
            code=code,
        ),
        measurements,
        WritingOptions(
            target=target,
            incomplete=incomplete,
            checker=InferenceChecker(checkout=checker) if checker else None,
        ),
    )

"""The command `audit`."""

from pathlib import Path
from typing import Any

import click

from harness.missing_modules import report_missing_modules
from harness.serving.network.endpoint_options import (
    add_endpoint_options,
    choose_serving_site,
    resolve_infer_scenarios,
)
from suite.audits.names import AUDIT_RULE_NAMES, AuditTest
from suite.cli import RunOptions, add_run_options
from suite.console.options import (
    CHECKPOINT_OPTION,
    DATA_OPTIONS,
    ENGINE_OPTIONS,
    FILING_OPTIONS,
    MODEL_OPTIONS,
    SERVING_MACHINE_OPTIONS,
)
from suite.console.parameters import SCENARIO_TYPE, WORKLOAD_TYPE


@click.command("audit")
@click.argument("workload", type=WORKLOAD_TYPE, metavar="WORKLOAD")
@add_run_options(
    *MODEL_OPTIONS, *ENGINE_OPTIONS, *DATA_OPTIONS, *SERVING_MACHINE_OPTIONS, *FILING_OPTIONS
)
@click.option(
    "--scenario",
    type=SCENARIO_TYPE,
    default="all",
    show_default=True,
    help="Scenario whose results are audited.",
)
@click.option(
    "--test",
    type=click.Choice(["all", *AuditTest]),
    default="all",
    show_default=True,
    help="Compliance test to run.",
)
@click.option(
    "--rules",
    type=click.Choice(AUDIT_RULE_NAMES),
    default=AUDIT_RULE_NAMES[0],
    show_default=True,
    help="Source of the settings and limits: podium's own rules, or those of a round.",
)
@CHECKPOINT_OPTION
@add_endpoint_options
def audit_command(
    workload: str,
    options: RunOptions,
    scenario: str,
    test: str,
    rules: str,
    checkpoint: Path | None,
    **values: Any,
) -> None:
    """Run MLPerf's compliance tests on the results of WORKLOAD, alternating with reference runs.

    TEST01 compares the answers of performance runs with those of the accuracy run. TEST04 issues
    one sample repeatedly. TEST05 uses other seeds. TEST06 checks the tokens of generated answers.
    SALTED asks servers prompts that each begin otherwise.
    A failed test is shown beside the result, which keeps its verdict. --endpoint audits results of
    servers, on the same servers.

    Example: podium audit resnet50 --scenario offline --test TEST04
    """
    scenarios = resolve_infer_scenarios(values, scenario)
    with report_missing_modules():
        from harness.serving.audits.command import audit_workload

        audit_workload(
            workload,
            options,
            scenarios=scenarios,
            test=test,
            rules=rules,
            checkpoint=checkpoint,
            site=choose_serving_site(values, scenarios),
        )

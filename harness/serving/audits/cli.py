"""The command audit; thin, so that `--help` loads no framework."""

from pathlib import Path

import click

from harness.installed import installed
from suite.audits.names import AUDIT_RULE_NAMES, AuditTest
from suite.cli import PATH_TYPE, RunOptions, add_common_options
from suite.console.parameters import SCENARIO_TYPE, WORKLOAD_TYPE
from suite.loadgen.scenario import parse_scenarios


@click.command("audit")
@click.argument("workload", type=WORKLOAD_TYPE, metavar="WORKLOAD")
@add_common_options
@click.option(
    "--scenario",
    type=SCENARIO_TYPE,
    default="all",
    show_default=True,
    help="Whose results to audit.",
)
@click.option(
    "--test",
    type=click.Choice(["all", *AuditTest]),
    default="all",
    show_default=True,
    help="Which compliance test.",
)
@click.option(
    "--rules",
    type=click.Choice(AUDIT_RULE_NAMES),
    default=AUDIT_RULE_NAMES[0],
    show_default=True,
    help="Whose settings and limits: podium's own, or a round's.",
)
@click.option(
    "--checkpoint",
    type=PATH_TYPE,
    help="Folder of exported weights; without it, the newest that reached the target.",
)
def audit_command(
    workload: str,
    options: RunOptions,
    scenario: str,
    test: str,
    rules: str,
    checkpoint: Path | None,
) -> None:
    """Run MLPerf's compliance tests of the results of WORKLOAD, each in turns with reference runs.

    TEST01 compares the answers of performance runs with the accuracy run's, TEST04 issues one
    sample again and again, TEST05 takes other
    seeds. A test that fails makes the result one that does not count.

    Example: podium audit resnet50 --scenario offline --test TEST04
    """
    with installed():
        from harness.serving.audits.command import audit_workload

        audit_workload(
            workload,
            options,
            scenarios=parse_scenarios(scenario),
            test=test,
            rules=rules,
            checkpoint=checkpoint,
        )

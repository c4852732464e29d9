"""The command `accept` and its subcommands."""

from datetime import datetime
from pathlib import Path
from typing import Final

import click

from suite.cli import RunOptions, add_run_options
from suite.console.command_help import FoldedCommand
from suite.console.options import (
    PROFILE_OPTION,
    RUN_OPTIONS,
    build_format_option,
    build_profile_option,
)
from suite.console.parameters import PATH_TYPE, RESULT_PATH_TYPE, WORKLOAD_TYPE, FiniteRange
from suite.terms import Profile

DEADLINE_FORMS: Final = ("%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%dT%H:%M%z")
SELLER_OPTIONS: Final = tuple(each for each in RUN_OPTIONS if each is not PROFILE_OPTION)
"""Options of `podium run` that the seller chooses; the contract has the others."""
EVERYDAY_OPTIONS: Final = ("rehearse", "again", "key", "engine", "precision", "results", "device")
"""Parameters of `podium accept run` that `--help` shows."""
EVERYDAY_TERMS: Final = (
    "workload",
    "scenario",
    "bounds",
    "price",
    "deadline",
    "attempts",
    "buyer",
    "buyer_key",
    "seller",
    "seller_key",
)
"""Parameters of `podium accept new` that `--help` shows."""


@click.group()
def accept() -> None:
    """Buy and sell by a number: write a contract, run it, and check what was delivered.

    Example: podium accept check contract.toml mine.tar.zst
    """


@accept.command(
    "new",
    cls=FoldedCommand,
    everyday=EVERYDAY_TERMS,
    short_help="Write a contract, with a comment for each term.",
)
@click.argument("contract", type=PATH_TYPE)
@click.option(
    "--workload", type=WORKLOAD_TYPE, metavar="WORKLOAD", required=True, help="What is measured."
)
@click.option(
    "--scenario",
    default="offline",
    show_default=True,
    metavar="SCENARIO|training",
    help="Scenario of LoadGen, or training.",
)
@build_profile_option("How much of the round to run.")
@click.option(
    "--bound",
    "bounds",
    multiple=True,
    metavar="CLAUSE",
    help="A clause, as 'samples_per_second >= 900 samples/s'; repeatable. Without one, the file"
    " lists what can be bounded.",
)
@click.option(
    "--price", metavar="AMOUNT", help="The price, as '2.50 EUR/hour', or '9000 EUR' for all."
)
@click.option(
    "--runs",
    type=click.IntRange(min=1),
    default=3,
    show_default=True,
    help="Performance runs, or trainings of a contract about training.",
)
@click.option(
    "--confidence",
    type=FiniteRange(min=0.5, max=0.999),
    default=0.95,
    show_default=True,
    help="Confidence of the interval of each clause.",
)
@click.option(
    "--attempts",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="How often the seller may try.",
)
@click.option(
    "--deadline",
    type=click.DateTime(DEADLINE_FORMS),
    metavar="TIME",
    help="Last moment of a run, as 2027-01-31T12:00:00Z (default: in 30 days).",
)
@click.option("--buyer", required=True, metavar="NAME", help="The buyer, as buyer@example.org.")
@click.option(
    "--buyer-key", type=PATH_TYPE, required=True, metavar="FILE", help="The buyer's .pub file."
)
@click.option("--seller", required=True, metavar="NAME", help="The seller, as lab@example.org.")
@click.option(
    "--seller-key",
    type=PATH_TYPE,
    metavar="FILE",
    help="The seller's .pub file; a bundle must then be signed with that key.",
)
@click.option(
    "--machine",
    multiple=True,
    metavar="FIELD=VALUE",
    help="A field of the system description that names the machine; repeatable.",
)
@click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="KEY=VALUE",
    help="A setting of the workload that differs from the profile's; repeatable.",
)
@click.option("--force", is_flag=True, help="Replace CONTRACT if it exists.")
def new(
    contract: Path,
    workload: str,
    scenario: str,
    profile: str,
    bounds: tuple[str, ...],
    price: str | None,
    runs: int,
    confidence: float,
    attempts: int,
    deadline: datetime | None,
    buyer: str,
    buyer_key: Path,
    seller: str,
    seller_key: Path | None,
    machine: tuple[str, ...],
    assignments: tuple[str, ...],
    force: bool,
) -> None:
    """Write CONTRACT, a TOML file with a new random nonce. Both sides keep it byte for byte.

    Example: podium accept new contract.toml --workload resnet50 --buyer me@buyer.example
    --buyer-key id.pub --seller lab@example.org --bound 'samples_per_second >= 900 samples/s'
    """
    from submissions.accept.command import run_new_command
    from submissions.accept.template import ContractDraft

    draft = ContractDraft(
        workload=workload,
        scenario=scenario,
        profile=Profile(profile),
        runs=runs,
        confidence=confidence,
        attempts=attempts,
        deadline=deadline,
        bounds=bounds,
        price=price,
        buyer=buyer,
        buyer_key=buyer_key,
        seller=seller,
        seller_key=seller_key,
        machine=machine,
        assignments=assignments,
    )
    run_new_command(contract, draft, force)


@accept.command(
    "run",
    cls=FoldedCommand,
    everyday=EVERYDAY_OPTIONS,
    short_help="Run an attempt of a contract, or rehearse it.",
)
@click.argument("contract", type=PATH_TYPE)
@click.option(
    "--rehearse", is_flag=True, help="Run without using an attempt; the ledger says that it was so."
)
@click.option(
    "--again", is_flag=True, help="Begin a further attempt or rehearsal after one that is over."
)
@click.option(
    "--key",
    type=PATH_TYPE,
    metavar="FILE",
    help="Private SSH key to sign the bundle with, as podium sign does.",
)
@add_run_options(*SELLER_OPTIONS)
def run(contract: Path, options: RunOptions, rehearse: bool, again: bool, key: Path | None) -> int:
    """Run the campaign that CONTRACT asks for, seal it, and print what the buyer will see.

    Finished steps are skipped, so the same command resumes an interrupted attempt.

    Example: podium accept run contract.toml --key ~/.ssh/id_ed25519
    """
    from submissions.accept.command import run_run_command

    return run_run_command(contract, options, rehearse=rehearse, again=again, key=key)


@accept.command("check", short_help="Check a bundle by a contract, clause by clause.")
@click.argument("contract", type=PATH_TYPE)
@click.argument("bundle", type=RESULT_PATH_TYPE)
@click.option(
    "--ca",
    "authorities",
    type=PATH_TYPE,
    metavar="FILE",
    help="Certificates of the trusted time-stamping authorities (PEM).",
)
@click.option(
    "--earlier",
    type=PATH_TYPE,
    multiple=True,
    metavar="BUNDLE",
    help="A bundle for this contract that you received before; repeatable.",
)
@click.option("--page", type=PATH_TYPE, metavar="FILE", help="Write the page that both sign.")
@build_format_option("text", "json")
def check(
    contract: Path,
    bundle: Path,
    authorities: Path | None,
    earlier: tuple[Path, ...],
    page: Path | None,
    output_format: str,
) -> int:
    """Say of each clause of CONTRACT whether BUNDLE shows that it is met, not met, or neither.

    Exit code: 0 all clauses are met, 1 one is not met, 2 one is not shown, 4 the bundle is refused.

    Example: podium accept check contract.toml mine.tar.zst --page acceptance.html
    """
    from submissions.accept.command import run_check_command

    return run_check_command(
        contract,
        bundle,
        authorities=authorities,
        earlier=earlier,
        page=page,
        output_format=output_format,
    )

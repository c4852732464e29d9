"""`accept` as commands: what they print and write, and their exit codes."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click

from submissions.accept.check import Acceptance, AcceptanceRequest, check_acceptance
from submissions.accept.clauses import CLAUSE_TABLE, ClauseFinding
from submissions.accept.contract import read_contract
from submissions.accept.page import render_acceptance_page
from submissions.accept.run import run_contract
from submissions.accept.signers import CONTRACT_NAMESPACE, locate_contract_signature
from submissions.accept.template import ContractDraft, build_contract_text
from submissions.output_file import check_output_target, write_report_file
from submissions.signatures.command import check_files_exist
from submissions.tables import apply_answer_colour
from suite.cli import RunOptions
from suite.errors import RefusedError, RequestError
from suite.files.untrusted_files import replace_unprintable
from suite.ledger.contract_challenge import TryKind

NAME_WIDTH: Final = 9
"""Width of the longest name of a line of evidence, `measured`, and a blank."""


def run_new_command(path: Path, draft: ContractDraft, replace: bool) -> None:
    """Write a contract; RequestError for terms that make no sense, or a file that exists."""
    text = build_contract_text(draft)
    check_output_target("CONTRACT", path, ())
    if path.exists() and not replace:
        raise RequestError(f"{path} exists; name another file, or replace it with --force")
    write_report_file(path, text.encode())
    if not draft.bounds:
        click.echo(f"{path}: written without a clause; give it at least one")
        return
    contract = read_contract(path)
    click.echo(f"{path}: sha256:{contract.digest}")
    for clause in contract.terms.clause:
        click.echo(f"  {clause.words}")
    click.echo(
        f"next: ssh-keygen -Y sign -n {CONTRACT_NAMESPACE} -f KEY {path}, and send both files to"
        f" {contract.terms.seller.name}"
    )


def run_run_command(
    path: Path, options: RunOptions, *, rehearse: bool, again: bool, key: Path | None
) -> int:
    """Run an attempt or a rehearsal, and print what the buyer will see; return the exit code of
    that check.
    """
    kind = TryKind.ATTEMPT
    if rehearse:
        kind = TryKind.REHEARSAL
    contract, bundle = run_contract(path, options, kind=kind, again=again, key=key)
    found = check_acceptance(
        AcceptanceRequest(contract=contract, contract_path=path, bundle=bundle, wanted=kind)
    )
    print_acceptance(found)
    return require_unrefused(found)


def run_check_command(
    path: Path,
    bundle: Path,
    *,
    authorities: Path | None,
    earlier: Sequence[Path],
    page: Path | None,
    output_format: str,
) -> int:
    """Check a bundle, print the answer and write the page; return the exit code."""
    for option, file in (("--ca", authorities), *(("--earlier", each) for each in earlier)):
        check_files_exist({option: file})
    contract = read_contract(path)
    if page is not None:
        signature = locate_contract_signature(path)
        check_output_target("--page", page, (path, bundle, signature, *earlier))
    found = check_acceptance(
        AcceptanceRequest(
            contract=contract,
            contract_path=path,
            bundle=bundle,
            authorities=authorities,
            earlier=tuple(earlier),
        )
    )
    if output_format == "json":
        click.echo(json.dumps(describe_acceptance(found), indent=2))
    else:
        print_acceptance(found)
    if page is not None:
        write_report_file(page, render_acceptance_page(found, page.name).encode())
        click.echo(f"page: {page}", err=output_format == "json")
    return require_unrefused(found)


def require_unrefused(found: Acceptance) -> int:
    """Return the exit code that the clauses give; RefusedError for a bundle that is refused."""
    if found.refusals:
        raise RefusedError(f"{found.bundle}: {found.conclusion}")
    return found.code


def print_acceptance(found: Acceptance) -> None:
    """Print refusals, evidence, clauses and the conclusion."""
    for refusal in found.refusals:
        click.echo(replace_unprintable(f"refused, {refusal.kind.value}: {refusal.sentence}"))
    for each in found.evidence:
        click.echo(replace_unprintable(f"{each.name:<{NAME_WIDTH}} {each.text}"))
    if found.clauses:
        lines = CLAUSE_TABLE.list_aligned_lines(found.clauses, apply_answer_colour)
        click.echo("\n".join(["", *lines, "", found.conclusion]))


def describe_acceptance(found: Acceptance) -> dict[str, Any]:
    """Return the answer as JSON types."""
    return {
        "contract": found.contract.digest,
        "bundle": found.bundle,
        "bundle_sha256": found.bundle_sha256,
        "code": int(found.code),
        "conclusion": found.conclusion,
        "refusals": [{"name": each.kind.value, "reason": each.sentence} for each in found.refusals],
        "evidence": {each.name: each.text for each in found.evidence},
        "clauses": [describe_clause(each) for each in found.clauses],
    }


def describe_clause(found: ClauseFinding) -> dict[str, Any]:
    """Return a clause as JSON types, with all digits."""
    clause, figure = found.clause, found.figure
    return {
        "metric": clause.metric,
        "direction": clause.direction,
        "bound": clause.bound,
        "unit": clause.unit,
        "value": figure.value,
        "low": figure.low,
        "high": figure.high,
        "runs": list(found.runs),
        "state": found.state.value,
        "evidence": found.evidence,
    }

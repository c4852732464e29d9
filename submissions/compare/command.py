"""`podium compare`: reads results, compares and prints them, and reports those that are not
compliant.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

import click

from submissions.compare.compared_results import Side, read
from submissions.compare.comparison import Comparison, Request, compare
from submissions.compare.per_unit import Basis, Per
from submissions.compare.scaling import Scaling, scalings
from submissions.compare.verdicts import Asked, Verdict
from submissions.cost.prices import read_prices
from submissions.published_rows import LEGEND, load
from suite.errors import JudgedError, RequestError
from suite.files.untrusted_files import printable

LOWEST: Final = 0.5
HIGHEST: Final = 0.999
"""Upper limit of the confidence."""
UNVERIFIED: Final = (
    "Results of podium's own rounds: result not verified by MLCommons Association. Unverified"
    " results have not been through an MLPerf review and may use measurement methodologies and/or"
    " workload implementations that are inconsistent with the MLPerf specification for verified"
    " results."
)
"""Source: mlcommons/policies, MLPerf_Results_Messaging_Guidelines.adoc, sections 1 and 5."""


class Require(StrEnum):
    """Condition without which the command ends with 1."""

    COMPARABLE = "comparable"
    SEPARABLE = "separable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of the command line."""

    form: str
    baseline: Path | None
    confidence: float
    runs_for: str | None
    per: str | None
    prices: Path | None
    scaling: bool
    published: tuple[str, ...]
    require: str | None


def report(paths: Sequence[Path], options: Options) -> None:
    """Print the comparison; JudgedError at the end if something could not be read, does not count,
    or misses a requirement.
    """
    request = request_of(paths, options)  # reports an invalid request before anything is read
    problems: list[str] = []
    sides = read(paths, problems)
    found = compare(sides, [str(path) for path in paths], request)
    scaled = scalings(found) if options.scaling else []
    show(found, scaled, request, options.form)
    problems += [f"{named(each)} is not compliant" for each in sides if not each.score.compliant]
    if problems:
        raise JudgedError("\n  ".join(["some results are not compliant:", *problems]))
    if options.require and (unmet := [*missing(found, Require(options.require))]):
        raise JudgedError("\n  ".join([f"not everything is {options.require}:", *unmet]))


def named(one: Side) -> str:
    """Name a result in a sentence."""
    return printable(
        f"{one.path}: {one.score.system}, {one.score.workload} {one.score.scenario or 'training'}"
    )


def request_of(paths: Sequence[Path], options: Options) -> Request:
    """Parse the request; RequestError if it makes no sense."""
    if options.baseline is not None and options.baseline not in paths:
        raise RequestError(
            f"--baseline {options.baseline} is not one of the paths: {', '.join(map(str, paths))}"
        )
    if not LOWEST <= options.confidence <= HIGHEST:
        raise RequestError(
            f"--confidence {options.confidence:g}: give a value from {LOWEST:g} to {HIGHEST:g}"
        )
    return Request(
        baseline=str(options.baseline) if options.baseline is not None else None,
        asked=Asked(
            confidence=options.confidence,
            share=share_of(options.runs_for) if options.runs_for else None,
        ),
        per=per_of(options),
        references=tuple(row for name in dict.fromkeys(options.published) for row in load(name)),
    )


def share_of(text: str) -> float:
    """Parse a difference in percent."""
    try:
        share = float(text.removesuffix("%")) / 100
    except ValueError:
        share = 0.0
    if not text.endswith("%") or not 0.001 <= share <= 10:
        raise RequestError(
            f"--runs-for {text}: give a difference from 0.1% to 1000%, as in --runs-for 5%"
        )
    return share


def per_of(options: Options) -> Per | None:
    """Parse which figures to derive."""
    if options.prices and options.per != Basis.DOLLAR:
        raise RequestError("--prices requires --per dollar")
    if options.per == Basis.DOLLAR and not options.prices:
        raise RequestError("--per dollar needs --prices FILE")
    return (
        Per(
            basis=Basis(options.per), prices=read_prices(options.prices) if options.prices else None
        )
        if options.per
        else None
    )


def missing(found: Sequence[Comparison], require: Require) -> Iterator[str]:
    """Yield violations of the requirement: that all results are comparable, or that each ratio is a
    difference.
    """
    if not found:
        yield "nothing was compared"
    for each in found:
        name = f"{each.workload} {each.scenario or 'training'}"
        if not each.comparable:
            reasons = dict.fromkeys(reason for result in each.results for reason in result.reasons)
            yield f"{name}: {'; '.join(reasons) or 'nothing to compare it with'}"
        elif require is Require.SEPARABLE:
            yield from (
                f"{name}: {result.path} is {result.verdict}"
                for result in each.results
                if result.ratio and undecided(result.verdict)
            )


def undecided(verdict: Verdict | None) -> bool:
    """Return whether a verdict leaves a difference open; the baseline has none."""
    return verdict in (Verdict.NOT_SEPARABLE, Verdict.NOT_TESTED)


def show(
    found: Sequence[Comparison], scaled: Sequence[Scaling], request: Request, form: str
) -> None:
    """Print in the requested form."""
    legend = legend_of(found, request)
    if form == "json":
        document = {
            "confidence": request.asked.confidence,
            "comparisons": [asdict(each) for each in found],
        }
        click.echo(
            json.dumps(
                document | {"scaling": [asdict(each) for each in scaled], "legend": legend},
                indent=2,
            )
        )
    elif form == "markdown":
        from submissions.compare.tables import markdown

        click.echo("\n\n".join([*markdown(found, scaled), *legend]))
    elif found:
        from submissions.compare.tables import print_comparisons, print_scalings

        print_comparisons(found)
        print_scalings(scaled)
        click.echo("\n".join(legend))


def legend_of(found: Sequence[Comparison], request: Request) -> list[str]:
    """Return the notes needed to read the numbers."""
    lines = [
        f"intervals and verdicts at confidence {request.asked.confidence:g}, adjusted for all rows"
        " (Holm); in brackets: not tested"
    ]
    if request.per:
        lines.append(f"derived figures are no official metrics: {request.per.about}")
    if any(each.references for each in found):
        lines += [*LEGEND, UNVERIFIED]
    return lines

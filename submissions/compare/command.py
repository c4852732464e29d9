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

from submissions.compare.compared_results import ComparisonSide, read_comparison_sides
from submissions.compare.comparison import CompareRequest, Comparison, compare_results
from submissions.compare.per_unit import FigureBasis, FigureRequest
from submissions.compare.scaling import Scaling, build_scalings
from submissions.compare.verdicts import SignificanceSettings, SpeedVerdict
from submissions.cost.prices import read_prices
from submissions.published_rows import PUBLISHED_LEGEND, read_published_rows
from suite.errors import JudgedError, RequestError
from suite.files.untrusted_files import replace_unprintable

MIN_CONFIDENCE: Final = 0.5
MAX_CONFIDENCE: Final = 0.999
"""Upper limit of the confidence."""
UNVERIFIED_NOTE: Final = (
    "Results of podium's own rounds: result not verified by MLCommons Association. Unverified"
    " results have not been through an MLPerf review and may use measurement methodologies and/or"
    " workload implementations that are inconsistent with the MLPerf specification for verified"
    " results."
)
"""Source: mlcommons/policies, MLPerf_Results_Messaging_Guidelines.adoc, sections 1 and 5."""


class Requirement(StrEnum):
    """A condition that must hold, or the command exits with 1."""

    COMPARABLE = "comparable"
    SEPARABLE = "separable"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareOptions:
    """Command-line options."""

    form: str
    baseline: Path | None
    confidence: float
    runs_for: str | None
    per: str | None
    prices: Path | None
    scaling: bool
    published: tuple[str, ...]
    require: str | None


def run_compare_command(paths: Sequence[Path], options: CompareOptions) -> None:
    """Print the comparison, then raise JudgedError if a result could not be read, is not compliant,
    or misses a requirement.
    """
    request = parse_compare_request(
        paths, options
    )  # rejects an invalid request before anything is read
    problems: list[str] = []
    sides = read_comparison_sides(paths, problems)
    found = compare_results(sides, [str(path) for path in paths], request)
    scaled = build_scalings(found) if options.scaling else []
    print_comparison_output(found, scaled, request, options.form)
    problems += [
        f"{format_result_name(each)} is not compliant" for each in sides if not each.score.compliant
    ]
    if problems:
        raise JudgedError("\n  ".join(["some results are not compliant:", *problems]))
    if options.require and (
        unmet := [*find_unmet_requirements(found, Requirement(options.require))]
    ):
        raise JudgedError("\n  ".join([f"some results are not {options.require}:", *unmet]))


def format_result_name(side: ComparisonSide) -> str:
    """Format the name of a result for use in a sentence."""
    return replace_unprintable(
        f"{side.path}: {side.score.system}, {side.score.workload}"
        f" {side.score.scenario or 'training'}"
    )


def parse_compare_request(paths: Sequence[Path], options: CompareOptions) -> CompareRequest:
    """Parse the request; RequestError if it makes no sense."""
    if options.baseline is not None and options.baseline not in paths:
        raise RequestError(
            f"--baseline {options.baseline} is not one of the paths: {', '.join(map(str, paths))}"
        )
    if not MIN_CONFIDENCE <= options.confidence <= MAX_CONFIDENCE:
        raise RequestError(
            f"--confidence {options.confidence:g}: give a value from {MIN_CONFIDENCE:g} to"
            f" {MAX_CONFIDENCE:g}"
        )
    return CompareRequest(
        baseline=str(options.baseline) if options.baseline is not None else None,
        significance=SignificanceSettings(
            confidence=options.confidence,
            share=parse_difference_share(options.runs_for) if options.runs_for else None,
        ),
        per=parse_derived_basis(options),
        references=tuple(
            row for name in dict.fromkeys(options.published) for row in read_published_rows(name)
        ),
    )


def parse_difference_share(text: str) -> float:
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


def parse_derived_basis(options: CompareOptions) -> FigureRequest | None:
    """Parse which figures to derive."""
    if options.prices and options.per != FigureBasis.DOLLAR:
        raise RequestError("--prices requires --per dollar")
    if options.per == FigureBasis.DOLLAR and not options.prices:
        raise RequestError("--per dollar needs --prices FILE")
    return (
        FigureRequest(
            basis=FigureBasis(options.per),
            prices=read_prices(options.prices) if options.prices else None,
        )
        if options.per
        else None
    )


def find_unmet_requirements(found: Sequence[Comparison], require: Requirement) -> Iterator[str]:
    """Yield violations of the requirement: all results must be comparable, or each ratio must be a
    significant difference.
    """
    if not found:
        yield "no results were compared"
    for each in found:
        name = f"{each.workload} {each.scenario or 'training'}"
        if not each.comparable:
            reasons = dict.fromkeys(reason for result in each.results for reason in result.reasons)
            yield f"{name}: {'; '.join(reasons) or 'nothing to compare it with'}"
        elif require is Requirement.SEPARABLE:
            yield from (
                f"{name}: {result.path} is {result.verdict}"
                for result in each.results
                if result.ratio and is_undecided_verdict(result.verdict)
            )


def is_undecided_verdict(verdict: SpeedVerdict | None) -> bool:
    """Return whether a verdict leaves open which result is faster; the baseline has no verdict."""
    return verdict in (SpeedVerdict.NOT_SEPARABLE, SpeedVerdict.NOT_TESTED)


def print_comparison_output(
    found: Sequence[Comparison], scaled: Sequence[Scaling], request: CompareRequest, form: str
) -> None:
    """Print the comparison in the requested format."""
    legend = build_comparison_legend(found, request)
    if form == "json":
        document = {
            "confidence": request.significance.confidence,
            "comparisons": [asdict(each) for each in found],
        }
        click.echo(
            json.dumps(
                document | {"scaling": [asdict(each) for each in scaled], "legend": legend},
                indent=2,
            )
        )
    elif form == "markdown":
        from submissions.compare.tables import render_comparison_tables

        click.echo("\n\n".join([*render_comparison_tables(found, scaled), *legend]))
    elif found:
        from submissions.compare.tables import print_comparisons, print_scalings

        print_comparisons(found)
        print_scalings(scaled)
        click.echo("\n".join(legend))


def build_comparison_legend(found: Sequence[Comparison], request: CompareRequest) -> list[str]:
    """Return the notes needed to read the numbers."""
    lines = [
        f"intervals and verdicts at confidence {request.significance.confidence:g}, adjusted for"
        " all rows (Holm); in brackets: not tested"
    ]
    if request.per:
        lines.append(f"derived figures are not official metrics: {request.per.inputs_note}")
    if any(each.references for each in found):
        lines += [*PUBLISHED_LEGEND, UNVERIFIED_NOTE]
    return lines

"""`podium compare`: reads results, compares and prints them, and reports those that are not
compliant.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

import click

from submissions.compare.compared_results import (
    ComparisonSide,
    apply_convergence_factor,
    judge_comparison_sides,
)
from submissions.compare.comparison import (
    ComparedResult,
    CompareRequest,
    Comparison,
    compare_results,
)
from submissions.compare.per_unit import FigureBasis, parse_figure_request
from submissions.compare.scaling import Scaling, build_scalings
from submissions.compare.verdicts import SignificanceSettings, SpeedVerdict
from submissions.curves.podium_curve import has_comparable_curves
from submissions.output_file import check_output_target, write_report_file
from submissions.published_rows import PUBLISHED_LEGEND, read_published_rows
from suite import registry
from suite.errors import JudgedError, RequestError
from suite.files.untrusted_files import replace_unprintable
from suite.loadgen.scenario import Scenario
from suite.rounds import RoundKind

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


MISSING_INPUTS: Final = {
    FigureBasis.ACCELERATOR: "no result is a rate or a time to train of a system whose description"
    " states its accelerators",
    FigureBasis.DOLLAR: "no price fits a system or its accelerator",
    FigureBasis.WATT: "no power of the same kind was measured",
}
"""Basis of derived figures -> why there may be none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareOptions:
    """Command-line options."""

    output_format: str
    baseline: str | None
    confidence: float
    runs_for: str | None
    per: str | None
    prices: Path | None
    scaling: bool
    published: tuple[str, ...]
    require: str | None
    output: Path | None = None
    """Page to write instead of printing."""


def run_compare_command(paths: Sequence[Path], options: CompareOptions) -> None:
    """Print the comparison, then raise JudgedError if a result could not be read, is not compliant,
    or misses a requirement.
    """
    if any(map(has_comparable_curves, paths)):
        from submissions.curves.command import run_curve_comparison

        run_curve_comparison(paths, options)
        return
    request = parse_compare_request(
        paths, options
    )  # rejects an invalid request before anything is read
    if options.output is not None:
        if options.output_format != "text":
            raise RequestError(f"-o writes a page, not --format {options.output_format}")
        check_output_target("-o", options.output, paths)
    problems: list[str] = []
    sides = [apply_convergence_factor(each) for each in judge_comparison_sides(paths, problems)]
    check_baseline_name(options.baseline, paths, [each.score.system for each in sides])
    found = compare_results(sides, [str(path) for path in paths], request)
    scaled = build_scalings(found) if options.scaling else []
    if found:
        check_derived_figures(found, scaled, request, options.scaling)
    if options.output is not None and found:
        write_comparison_page(options.output, found, build_comparison_legend(found, request))
    elif options.output is None:
        print_comparison_output(found, scaled, request, options.output_format)
    problems += [
        f"{format_result_name(each)} is not compliant" for each in sides if not each.score.compliant
    ]
    if problems:
        raise JudgedError("\n  ".join(["some results are not compliant:", *problems]))
    if options.require and (
        unmet := [*find_unmet_requirements(found, Requirement(options.require))]
    ):
        raise JudgedError("\n  ".join([f"some results are not {options.require}:", *unmet]))


def check_baseline_name(name: str | None, paths: Sequence[Path], systems: Iterable[str]) -> None:
    """Raise RequestError if the baseline is neither one of the paths nor a system in them."""
    systems = dict.fromkeys(systems)
    if name is not None and name not in {*map(str, paths), *systems}:
        raise RequestError(
            f"--baseline {name}: neither one of the paths ({', '.join(map(str, paths))}) nor a"
            f" system in them ({', '.join(map(replace_unprintable, systems)) or 'none'})"
        )


def check_derived_figures(
    found: Sequence[Comparison],
    scaled: Sequence[Scaling],
    request: CompareRequest,
    scaling: bool,
) -> None:
    """Raise RequestError if an option derives nothing from any result."""
    results = [each for comparison in found for each in comparison.results]
    if request.per and not any(each.derived for each in results):
        raise RequestError(
            f"--per {request.per.basis}: nothing to derive; {MISSING_INPUTS[request.per.basis]}"
        )
    if scaling and not scaled:
        raise RequestError(
            "--scaling: nothing to show; it needs comparable results on one kind of accelerator,"
            " in different numbers, as their system descriptions state them"
        )


def format_result_name(side: ComparisonSide) -> str:
    """Format the name of a result for use in a sentence."""
    return replace_unprintable(
        f"{side.path}: {side.score.system}, {side.score.workload}"
        f" {side.score.scenario or 'training'}"
    )


def parse_compare_request(paths: Sequence[Path], options: CompareOptions) -> CompareRequest:
    """Parse the request; RequestError if it makes no sense."""
    if not MIN_CONFIDENCE <= options.confidence <= MAX_CONFIDENCE:
        raise RequestError(
            f"--confidence {options.confidence:g}: give a value from {MIN_CONFIDENCE:g} to"
            f" {MAX_CONFIDENCE:g}"
        )
    return CompareRequest(
        baseline=options.baseline,
        significance=SignificanceSettings(
            confidence=options.confidence,
            share=parse_difference_share(options.runs_for) if options.runs_for else None,
        ),
        per=parse_figure_request(options.per, options.prices),
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
    found: Sequence[Comparison],
    scaled: Sequence[Scaling],
    request: CompareRequest,
    output_format: str,
) -> None:
    """Print the comparison in the requested format."""
    legend = build_comparison_legend(found, request)
    if output_format == "json":
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
    elif output_format == "markdown":
        from submissions.compare.tables import render_comparison_tables

        click.echo("\n\n".join([*render_comparison_tables(found, scaled), *legend]))
    elif found:
        from submissions.compare.tables import print_comparisons, print_scalings

        print_comparisons(found)
        print_scalings(scaled)
        click.echo("\n".join(legend))


def write_comparison_page(target: Path, found: Sequence[Comparison], legend: Sequence[str]) -> None:
    """Write the comparison as a page."""
    from submissions.report.command import render_document_html
    from submissions.report.document import convert_document_to_data, parse_document_data
    from submissions.report.sections.comparison import build_comparison_document

    document = build_comparison_document(found, legend)
    html = render_document_html(parse_document_data(convert_document_to_data(document)))
    write_report_file(target, html.encode())
    click.echo(f"comparison: {target}")


def build_comparison_legend(found: Sequence[Comparison], request: CompareRequest) -> list[str]:
    """Return the notes needed to read the numbers."""
    lines = [
        f"intervals and verdicts at confidence {request.significance.confidence:g}, adjusted for"
        " all rows (Holm); in brackets: not tested"
    ]
    if request.per:
        lines.append(f"derived figures are not official metrics: {request.per.inputs_note}")
    results = [each for comparison in found for each in comparison.results]
    if any(each.convergence_factor is not None for each in results):
        lines.append("minutes of published sets include the factor, as in MLCommons' tables")
    if any(each.references for each in found):
        lines += [*PUBLISHED_LEGEND, UNVERIFIED_NOTE]
    lines += explain_missing_verdicts(found)
    return lines


def explain_missing_verdicts(found: Sequence[Comparison]) -> list[str]:
    """Say what to run so that podium's own results get a verdict; nothing if all have one."""
    untested = [
        each for each in found if any(is_own_untested_result(result) for result in each.results)
    ]
    if not untested:
        return []
    workloads = dict.fromkeys(each.workload for each in untested)
    commands = ", ".join(f"podium run {workload} --runs 3" for workload in workloads)
    peak = any(each.scenario == Scenario.SERVER.value for each in untested)
    return [
        f"verdicts need three runs on each side: {commands}{'; Server: --peak' if peak else ''}"
    ]


def is_own_untested_result(result: ComparedResult) -> bool:
    """Return whether a result of a round that podium runs got no verdict."""
    return (
        result.verdict is SpeedVerdict.NOT_TESTED
        and result.round is not None
        and registry.load_round_kind(result.round) == RoundKind.PODIUM
    )

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

from submissions.compare.compared_results import judge_compared_results
from submissions.compare.comparison import (
    ComparedResult,
    CompareRequest,
    Comparison,
    compare_results,
)
from submissions.compare.comparison_data import list_comparison_data
from submissions.compare.conclusions import count_conclusions, list_conclusions
from submissions.compare.per_unit import FigureBasis, parse_figure_request
from submissions.compare.scaling import Scaling, build_scalings
from submissions.compare.studied import read_compared_studies, sort_study_comparisons
from submissions.compare.verdicts import SignificanceSettings, SpeedVerdict
from submissions.curves.podium_curve import has_comparable_curves
from submissions.labels import PathLabels, parse_path_labels
from submissions.output_file import check_output_target, write_report_file
from submissions.published_rows import PUBLISHED_LEGEND, read_published_rows
from submissions.result_index import find_requested_results, has_studies, is_study_path
from suite import registry
from suite.errors import JudgedError, RequestError
from suite.files.untrusted_files import replace_unprintable
from suite.human_numbers import format_plain_number, format_share_as_percent
from suite.measurement.intervals import MIN_INTERVAL_RUNS
from suite.result import Result, scale_to_headline
from suite.studies.documents import STUDIES_FOLDER

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


RATIO_NOTE: Final = (
    "a tested ratio is that of the geometric means of all runs; a result is its slowest run, or of"
    " a run set the mean"
)


STUDY_RATIO_NOTE: Final = (
    "a tested ratio is that of the geometric means of a point's runs; its figure is their mean"
)
STUDY_NOTE: Final = "figures of studies are not results"


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
    labels: tuple[str, ...] = ()
    """Names of paths, each as LETTER=NAME."""
    output: Path | None = None
    """Page to write instead of printing."""


def check_comparable_path(path: Path) -> None:
    """RequestError for a folder that only holds studies: each is compared by its own folder."""
    if path.is_dir() and not find_requested_results(path) and has_studies(path):
        raise RequestError(
            f"{path}: contains no results, only studies; give the folders of two studies of one"
            f" kind, as in podium compare {path / STUDIES_FOLDER / 'ONE'} ANOTHER"
        )


def check_study_options(options: CompareOptions) -> None:
    """RequestError for options that studies do not have."""
    given = {
        "--per": options.per,
        "--prices": options.prices,
        "--scaling": options.scaling,
        "--published": options.published,
    }
    if unused := [name for name, value in given.items() if value]:
        raise RequestError(f"{', '.join(unused)}: not for studies, whose figures are no results")


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
    sides = read_compared_sides(paths, options, problems)
    check_baseline_name(options.baseline, paths, [each.system for each in sides])
    found = compare_results(sides, [str(path) for path in paths], request)
    if any(each.origin.study for each in sides):
        found = sort_study_comparisons(found, sides)
    scaled = build_scalings(found) if options.scaling else []
    if found:
        check_derived_figures(found, scaled, request, options.scaling)
    if options.output is not None and found:
        write_comparison_page(options.output, found, build_comparison_legend(found, request))
    elif options.output is None:
        print_comparison_output(found, scaled, request, options.output_format)
    problems += [
        f"{format_result_name(each)} {each.judgement.unjudged or 'is not compliant'}"
        for each in sides
        if not each.compliant
    ]
    if problems:
        raise JudgedError("\n  ".join(["some results are not compliant:", *problems]))
    if options.require and (
        unmet := [*find_unmet_requirements(found, Requirement(options.require))]
    ):
        raise JudgedError("\n  ".join([f"some results are not {options.require}:", *unmet]))


def read_compared_sides(
    paths: Sequence[Path], options: CompareOptions, problems: list[str]
) -> list[Result]:
    """Read the results, or the studies, in the paths; add what cannot be read to `problems`."""
    if any(map(is_study_path, paths)):
        check_study_options(options)
        return read_compared_studies(paths, problems)
    for path in paths:
        check_comparable_path(path)
    return [scale_to_headline(each) for each in judge_compared_results(paths, problems)]


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


def format_result_name(side: Result) -> str:
    """Format the name of a result for use in a sentence."""
    return replace_unprintable(
        f"{side.source}: {side.system}, {side.workload} {side.scenario or 'training'}"
    )


def parse_compare_request(paths: Sequence[Path], options: CompareOptions) -> CompareRequest:
    """Parse the request; RequestError if it makes no sense."""
    if not MIN_CONFIDENCE <= options.confidence <= MAX_CONFIDENCE:
        raise RequestError(
            f"--confidence {format_plain_number(options.confidence)}: give a value from"
            f" {MIN_CONFIDENCE} to {MAX_CONFIDENCE}"
        )
    share = None
    if options.runs_for:
        share = parse_difference_share(options.runs_for, "--runs-for")
    return CompareRequest(
        baseline=options.baseline,
        significance=SignificanceSettings(confidence=options.confidence, share=share),
        per=parse_figure_request(options.per, options.prices),
        references=tuple(
            row for name in dict.fromkeys(options.published) for row in read_published_rows(name)
        ),
        labels=parse_path_labels(paths, options.labels),
    )


def parse_difference_share(text: str, option: str) -> float:
    """Parse a difference in percent, the value of an option."""
    try:
        share = float(text.removesuffix("%")) / 100
    except ValueError:
        share = 0.0
    if not text.endswith("%") or not 0.001 <= share <= 10:
        raise RequestError(
            f"{option} {text}: give a difference from 0.1% to 1000%, as in {option} 5%"
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
    labels, confidence = request.labels or PathLabels(), request.significance.confidence
    if output_format == "json":
        document = {
            "confidence": confidence,
            "labels": [{"path": path, "label": labels.name_path(path)} for path in labels.letters],
            "conclusions": list_conclusions(found, confidence),
            "comparisons": list_comparison_data(found),
        }
        click.echo(
            json.dumps(
                document | {"scaling": [asdict(each) for each in scaled], "legend": legend},
                indent=2,
            )
        )
    elif output_format == "markdown":
        from submissions.compare.tables import render_comparison_tables, render_conclusions

        heading = render_conclusions(found, labels, confidence)
        tables = render_comparison_tables(found, scaled)
        click.echo("\n\n".join([*heading, *tables, *legend]))
    elif found:
        from submissions.compare.tables import print_comparisons, print_scalings
        from submissions.tables import print_wrapped_line

        print_comparisons(found, labels, confidence)
        print_scalings(scaled)
        click.echo()
        for line in legend:
            print_wrapped_line(line)


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
    confidence = format_share_as_percent(request.significance.confidence)
    lines = [
        f"intervals and conclusions at {confidence} confidence, adjusted for all rows (Holm); in"
        " brackets: not tested"
    ]
    if conclusions := count_conclusions(found):
        lines.insert(0, f"conclusions: {conclusions}")
    if request.per:
        lines.append(f"derived figures are not official metrics: {request.per.inputs_note}")
    results = [each for comparison in found for each in comparison.results]
    if any(each.result.figure.factor is not None for each in results):
        lines.append("minutes of published sets include the factor, as in MLCommons' tables")
    of_studies = any(each.result.origin.study for each in results)
    if any(each.ratio_interval for each in results):
        lines.append(STUDY_RATIO_NOTE if of_studies else RATIO_NOTE)
    if of_studies:
        lines.append(STUDY_NOTE)
    if any(each.references for each in found):
        lines += [*PUBLISHED_LEGEND, UNVERIFIED_NOTE]
    lines += explain_missing_conclusions(found)
    return lines


def explain_missing_conclusions(found: Sequence[Comparison]) -> list[str]:
    """Say what to run so that podium's own results get a conclusion; nothing if all have one, or if
    none that is missing could be had.
    """
    short = [each.workload for each in found if any(map(is_short_of_runs, find_untested(each)))]
    requested = [
        each.workload
        for each in found
        if any(result.result.made_with.asked for result in find_untested(each))
    ]
    lines = []
    if short:
        commands = ", ".join(f"podium run {each} --runs 3" for each in dict.fromkeys(short))
        lines.append(f"conclusions need three runs on each side: {commands}")
    if requested:
        commands = ", ".join(
            f"podium run {each} --runs 3 --peak" for each in dict.fromkeys(requested)
        )
        lines.append(f"a conclusion on Server needs rates that were searched for: {commands}")
    return lines


def find_untested(found: Comparison) -> list[ComparedResult]:
    """Find the results of rounds that podium runs that are comparable, but got no verdict, and the
    baseline that they were not tested against.
    """
    untested = [
        each
        for each in found.results
        if each.verdict is SpeedVerdict.NOT_TESTED
        and not each.reasons
        and not each.absent
        and not each.result.origin.study
        and not registry.load_round_kind(each.result.round).published
    ]
    return [*untested, *(each for each in found.results if each.baseline and untested)]


def is_short_of_runs(result: ComparedResult) -> bool:
    """Return whether a result has too few runs for a test."""
    return len(result.result.runs) < MIN_INTERVAL_RUNS

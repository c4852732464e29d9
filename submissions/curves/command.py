"""`podium compare` of curves: compares each with that of the baseline, and prints the steps."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import click

from compliance.results.curves import ScoredCurve
from submissions.compare.command import CompareOptions, Requirement, check_baseline_name
from submissions.compare.verdicts import SignificanceSettings
from submissions.curves.comparison import (
    NOT_SEPARABLE,
    CurveComparison,
    compare_with_baselines,
    iterate_unpaired_curves,
    select_first_curves,
)
from submissions.curves.podium_curve import has_only_comparable_curves, read_comparable_curves
from submissions.curves.point_columns import format_figure
from submissions.curves.point_scores import describe_curve
from submissions.curves.tables import (
    describe_step_test,
    print_curve_comparisons,
    render_curve_comparisons,
)
from suite.errors import JudgedError, RequestError

NO_INTERVAL: Final = "one run per point has no interval, so no difference is significant"


def run_curve_comparison(paths: Sequence[Path], options: CompareOptions) -> None:
    """Print how each curve compares with the baseline's of its model, then raise JudgedError if a
    curve is not compliant, or a requirement is missed.
    """
    check_curve_request(paths, options)
    curves = {path: read_comparable_curves(path) for path in paths}
    every = [each for found in curves.values() for each in found]
    check_baseline_name(options.baseline, paths, [each.system for each in every])
    alone = len(curves) == 1 and not options.baseline
    baselines = select_baseline_curves(curves, options.baseline or str(paths[0]))
    baselines = select_first_curves(every) if alone else baselines
    compared = compare_with_baselines(every, baselines)
    unpaired = [] if alone else [*iterate_unpaired_curves(every, baselines)]
    if not compared:
        nothing = (
            f"{', '.join(map(str, paths))}: nothing to compare; specify two curves of one model"
        )
        raise RequestError("\n  ".join([nothing, *unpaired]))
    print_curve_output(compared, unpaired, options.output_format)
    if problems := [describe_broken_curve(each) for each in every if not each.compliant]:
        raise JudgedError("\n  ".join(["some results are not compliant:", *problems]))
    if options.require:
        unmet = [*unpaired, *find_unmet_curves(compared, Requirement(options.require))]
        if unmet:
            raise JudgedError("\n  ".join([f"some results are not {options.require}:", *unmet]))


def select_baseline_curves(
    curves: Mapping[Path, Sequence[ScoredCurve]], name: str
) -> Sequence[ScoredCurve]:
    """Select the curves of the path, or of the system, that is the baseline."""
    for path, found in curves.items():
        if str(path) == name:
            return found
    every = [each for found in curves.values() for each in found]
    return [each for each in every if each.system == name]


def check_curve_request(paths: Sequence[Path], options: CompareOptions) -> None:
    """Raise RequestError for curves among other results, and for options that curves do not have;
    JudgedError for a path that does not exist.
    """
    for path in paths:
        if not path.exists():
            raise JudgedError(f"{path}: no such file or folder")
        if not has_only_comparable_curves(path):
            raise RequestError(
                f"{path}: has other results than curves, which only compare with each other"
            )
    defaults = SignificanceSettings()
    given = {
        "--confidence": options.confidence != defaults.confidence,
        "--runs-for": options.runs_for,
        "--per": options.per,
        "--prices": options.prices,
        "--scaling": options.scaling,
        "--published": options.published,
        "-o": options.output,
    }
    if unused := [name for name, value in given.items() if value]:
        raise RequestError(
            f"{', '.join(unused)}: not for curves, which are compared at each speed per user"
        )


def print_curve_output(
    found: Sequence[CurveComparison], unpaired: Sequence[str], output_format: str
) -> None:
    """Print the comparisons in the requested format, and the curves that are compared with none."""
    if output_format == "json":
        document = {
            "comparisons": [describe_comparison(each) for each in found],
            "unpaired": [*unpaired],
            "legend": list(dict.fromkeys(map(describe_step_test, found))),
        }
        click.echo(json.dumps(document, indent=2))
    elif output_format == "markdown":
        click.echo(render_curve_comparisons(found, unpaired))
    else:
        print_curve_comparisons(found, unpaired)


def describe_comparison(found: CurveComparison) -> dict[str, Any]:
    """Return a comparison as plain data, with a summary of both curves."""
    curves = {"first": describe_curve(found.first), "other": describe_curve(found.other)}
    return asdict(found) | curves | {"comparable": not found.reasons}


def describe_broken_curve(curve: ScoredCurve) -> str:
    """Say that a curve is not compliant, with its rules."""
    broken = [*curve.failed_rules, *(rule for each in curve.points for rule in each.failed_rules)]
    rules = ", ".join(dict.fromkeys(broken))
    return f"{curve.path}: {curve.system}, {curve.model} is not compliant: {rules}"


def find_unmet_curves(found: Sequence[CurveComparison], require: Requirement) -> Iterator[str]:
    """Yield violations of the requirement: all curves must be comparable, or one ahead of the other
    beyond the intervals of both, at each speed that both reach.
    """
    for each in found:
        name = f"{each.first.path} and {each.other.path}"
        if each.reasons:
            yield f"{name}: {'; '.join(each.reasons)}"
        elif require is Requirement.SEPARABLE and each.single_runs:
            yield f"{name}: {NO_INTERVAL}"
        elif require is Requirement.SEPARABLE:
            yield from (
                f"{name}: {NOT_SEPARABLE} at {format_figure(step.tps_per_user)} tokens/s per user"
                for step in each.steps
                if step.ratio and not step.ahead
            )

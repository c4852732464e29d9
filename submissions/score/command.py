"""`podium score`: scores the results and the curves in some paths, and prints them."""

import json
from collections.abc import Iterable
from pathlib import Path

import click

from compliance.results.curves import ScoredCurve
from submissions.curves.curve import has_only_curves, read_path_curves
from submissions.curves.point_scores import describe_curve, iterate_point_scores
from submissions.result_columns import iterate_score_data
from submissions.score.score import score_paths
from suite.errors import JudgedError, MissingError, RequestError
from suite.result import Result


def run_score_command(paths: Iterable[Path], output_format: str) -> None:
    """Print the scores, then raise JudgedError if something could not be read, and
    MissingError if only a workload's package was missing to judge it.
    """
    paths = tuple(paths)
    problems: list[str] = []
    curves = [curve for path in paths for curve in read_path_curves(path)]
    if output_format == "mlcommons":
        print_mlcommons_table(paths, curves, problems)
        raise_scoring_problems(problems)
        return
    rows = score_paths((path for path in paths if not has_only_curves(path)), problems)
    if output_format == "json":
        click.echo(format_scores_json(rows, curves))
    elif output_format == "csv":
        from submissions.score.csv_table import format_scores_csv

        click.echo(format_scores_csv([*rows, *iterate_point_scores(curves)]), nl=False)
    else:
        print_scored_tables(rows, curves, paths)
    raise_scoring_problems(problems)
    if unjudged := [row.judgement.unjudged for row in rows if row.judgement.unjudged]:
        raise MissingError("; ".join(dict.fromkeys(unjudged)))


def print_mlcommons_table(
    paths: Iterable[Path], curves: Iterable[ScoredCurve], problems: list[str]
) -> None:
    """Print the scores in the columns of MLCommons' summaries, which have none for curves."""
    from submissions.score.mlcommons_table import format_mlcommons_table

    if any(curves):
        raise RequestError("--format mlcommons: curves have no columns in MLCommons' summaries")
    if results := score_paths(paths, problems):
        click.echo(format_mlcommons_table(results), nl=False)


def raise_scoring_problems(problems: list[str]) -> None:
    """Raise JudgedError if something could not be scored."""
    if problems:
        raise JudgedError("\n  ".join(["some results could not be scored:", *problems]))


def format_scores_json(rows: Iterable[Result], curves: Iterable[ScoredCurve]) -> str:
    """Format the rows as JSON, with the curves that points belong to, if there are any."""
    curves = tuple(curves)
    scores = [*rows, *iterate_point_scores(curves)]
    document: dict[str, object] = {"scores": list(iterate_score_data(scores))}
    if curves:
        document["curves"] = [describe_curve(curve) for curve in curves]
    return json.dumps(document, indent=2)


def print_scored_tables(
    rows: list[Result], curves: list[ScoredCurve], paths: Iterable[Path]
) -> None:
    """Print a table per curve, then one of all other results."""
    if curves:
        from submissions.curves.tables import print_curves

        print_curves(curves)
    if rows:
        from submissions.score.text_table import print_scores

        print_scores(rows, paths)

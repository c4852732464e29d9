"""Costs of a sweep's rows. Their rates have no verdict, so a study is priced only if it passes its
own check.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from extras.cost.costs import compute_cost
from extras.cost.prices import Prices
from submissions import compliance_check
from submissions.report.sections.studies.section import StudyHeader, read_study_table
from submissions.result_index import locate_study
from suite.errors import JudgedError
from suite.files.untrusted_files import replace_unprintable
from suite.loadgen.headline import SAMPLE_RATE_UNIT
from suite.loadgen.token_figures import TokenFigures
from suite.measurement.intervals import Interval
from suite.result import Figure, MadeWith, Result, ResultOrigin, ResultPlace
from suite.studies.measured import MeasuredStudy, read_measured_study
from suite.studies.sweep import SWEEP_KIND, StudyRow, list_sweep_rows


def compute_study_costs(path: Path, prices: Prices, problems: list[str]) -> list[Result]:
    """Return the costs of a sweep's rows. If the study is of another kind, cannot be read or does
    not pass its check, return none and add the reason to `problems`.
    """
    folder = locate_study(path)
    try:
        kind = read_study_table(folder, StudyHeader).kind
        if kind != SWEEP_KIND:
            raise JudgedError(
                f"{path}: a study of {kind} has no cost; only rows of a sweep have one"
            )
        if errors := compliance_check.list_error_sentences(path):
            raise JudgedError(
                f"{path}: the study does not pass `podium check`, so its rates have no cost:"
                f" {errors[0]}"
            )
        study = read_measured_study(folder)
    except JudgedError as error:
        problems.append(replace_unprintable(str(error)))
        return []
    rows = [row for row in list_sweep_rows(study) if row.samples_per_second]
    if not rows:
        problems.append(f"{replace_unprintable(str(path))}: contains no rate")
    return list(compute_study_row_costs(path, study, rows, prices, problems))


def compute_study_row_costs(
    path: Path, study: MeasuredStudy, rows: list[StudyRow], prices: Prices, problems: list[str]
) -> Iterator[Result]:
    """Yield the cost of each row; a system without a price is added to `problems`."""
    for row in rows:
        system = row.folder.partition("/")[0]
        price = prices.find_price(system, study.subject.system)
        if price is None:
            problems.append(
                f"{replace_unprintable(str(path))}: no [[system]] of the prices matches"
                f" {replace_unprintable(system)}"
            )
            continue
        result = convert_study_row(path, study, row)
        yield replace(result, cost=compute_cost(result, price, prices))


def convert_study_row(path: Path, study: MeasuredStudy, row: StudyRow) -> Result:
    """Convert a row of a study to a result, which nobody judges."""
    interval = None
    if row.low and row.high:
        interval = Interval(low=row.low, high=row.high)
    return Result(
        place=ResultPlace(
            profile="" if study.request.bare else study.subject.profile,
            system=row.folder.partition("/")[0],
            workload=study.subject.workload,
        ),
        origin=ResultOrigin(source=str(path), study=locate_study(path).name),
        figure=Figure(
            unit=SAMPLE_RATE_UNIT,
            value=row.samples_per_second,
            stated_interval=interval,
            tokens=TokenFigures(tokens_per_s=row.tokens_per_second),
        ),
        made_with=MadeWith(engine=row.engine, precision=row.precision, batch=row.batch),
        energy=row.energy,
    )

"""The rows of a sweep with their costs: rates without the verdict of a round, so a study is priced
only if it passes its own check.
"""

from collections.abc import Iterator
from pathlib import Path

from compliance.recognition.path_kind import Kind, recognise
from submissions import compliance_check
from submissions.cost.costs import RATES, Cost, Measured, amounts
from submissions.cost.prices import Prices
from submissions.report.sections.studies import Kinded, decoded
from suite.errors import JudgedError
from suite.files.untrusted_files import printable
from suite.studies.documents import Row, Study
from suite.studies.rates import PEAK, SPEED


def is_study(path: Path) -> bool:
    """Return whether a path is a study: its folder, or its table."""
    return recognise(path).kind is Kind.STUDY


def study_costs(path: Path, prices: Prices, problems: list[str]) -> list[Cost]:
    """Return the costs of a sweep's rows; none, and the reason in `problems`, if it is another
    study, cannot be read or does not pass its check.
    """
    folder = recognise(path).path
    try:
        kind = decoded(folder, Kinded).kind
        if kind in (PEAK, SPEED):
            raise JudgedError(
                f"{path}: a study of {kind}, which has no cost; of studies, the rows of a sweep"
                " have one"
            )
        if errors := compliance_check.errors(path):
            raise JudgedError(
                f"{path}: the study does not pass `podium check`, so its rates have no cost:"
                f" {errors[0]}"
            )
        study: Study = decoded(folder, Study)
    except JudgedError as error:
        problems.append(printable(str(error)))
        return []
    rows = [row for row in study.rows if row.samples_per_second]
    if not rows:
        problems.append(f"{printable(str(path))}: no rate in it")
    return list(priced(path, study, rows, prices, problems))


def priced(
    path: Path, study: Study, rows: list[Row], prices: Prices, problems: list[str]
) -> Iterator[Cost]:
    """Yield the cost of each row; a system without a price is reported in `problems`."""
    for row in rows:
        system = row.folder.partition("/")[0]
        price = prices.of(system, study.system)
        if price is None:
            problems.append(
                f"{printable(str(path))}: no [[system]] of the prices fits {printable(system)}"
            )
            continue
        rate = row.samples_per_second or 0.0
        found = Measured(
            value=rate,
            unit=RATES[0],
            energy=row.energy,
            interval=(row.low, row.high) if row.low and row.high else None,
        )
        yield Cost(
            path=str(path),
            org="",
            system=system,
            round="",
            profile=study.profile or "",
            workload=study.subject,
            scenario=None,
            engine=row.engine,
            precision=row.precision,
            value=rate,
            unit=RATES[0],
            compliant=False,
            study=recognise(path).path.name,
            batch=row.batch,
            value_low=row.low,
            value_high=row.high,
            **amounts(found, price, prices),
        )

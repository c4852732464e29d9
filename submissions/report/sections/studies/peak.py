"""A search for the highest rate in a report: its probes and runs against the bound."""

from submissions.report.document import Axis, Chart, Line, Mark, Note, Section, Table
from submissions.report.sections.studies.cells import NO_RESULT_NOTE
from suite.loadgen.scenario import Scenario
from suite.studies.rates import (
    RUN_PURPOSE,
    VALID_VERDICT,
    PeakStudy,
    RateAttempt,
    format_peak_bound,
)


def build_peak_section(study: PeakStudy, name: str) -> Section:
    """Build the section of a search: its chart, every probe and run, and what they show."""
    sought, answer = study.sought, study.answer
    unit = "queries/s" if sought.scenario == Scenario.SERVER.label else "samples per query"
    chance = (
        ()
        if answer.passes is None
        else (
            Note(
                text=(
                    "With the observed dispersion, a run like the best passes in about "
                    f"{100 * answer.passes:.0f} % of cases."
                )
            ),
        )
    )
    intro = (
        f"{study.stamps.workload} within {format_peak_bound(sought)} at"
        f" p{sought.percentile:g}. {NO_RESULT_NOTE}"
    )
    return Section(
        id=f"study-{name}",
        title=f"Peak of {study.stamps.workload}",
        intro=intro,
        charts=(build_peak_chart(study, name, unit),),
        tables=(build_peak_table(study, unit),),
        notes=chance,
    )


def build_peak_chart(study: PeakStudy, name: str, unit: str) -> Chart:
    """Draw the share of queries over the bound against the rate, for every probe and run of a
    search.
    """
    sought, answer = study.sought, study.answer
    kinds = {
        "probes": [each for each in study.trials if each.purpose != RUN_PURPOSE],
        "VALID runs": [each for each in study.trials if is_full_run_of_verdict(each, True)],
        "INVALID runs": [each for each in study.trials if is_full_run_of_verdict(each, False)],
    }
    lines = tuple(
        Line(
            name=kind,
            points=tuple(
                sorted((each.rate, 100 * each.over / max(each.queries, 1)) for each in attempts)
            ),
            dots=True,
        )
        for kind, attempts in kinds.items()
        if attempts
    )
    allowed = 100 - sought.percentile
    valid = f"{answer.valid:,.4g} {unit} VALID" if answer.valid else "no VALID rate"
    description = (
        f"{valid}{f', {answer.invalid:,.4g} INVALID' if answer.invalid else ''}; {answer.runs} full"
        f" runs, {answer.probes} probes."
    )
    return Chart(
        id=f"study-{name}-peak",
        title="Late queries against rate",
        description=description,
        x=Axis(name="rate", unit=unit),
        y=Axis(name="over the bound", unit="%", low=0.0),
        lines=lines,
        marks=(Mark(name=f"{allowed:g} % allowed", value=allowed, upright=False),),
    )


def build_peak_table(study: PeakStudy, unit: str) -> Table:
    """List every probe and run of a search."""
    rows = tuple(
        (
            each.purpose,
            f"{each.rate:,.4g}",
            f"{each.over:,} of {each.queries:,}",
            f"{each.dispersion:.1f}",
            each.verdict,
        )
        for each in study.trials
    )
    return Table(
        title="Probes and runs",
        columns=("kind", unit, "over the bound", "dispersion", "verdict"),
        rows=rows,
        numeric=(1, 2, 3),
    )


def is_full_run_of_verdict(attempt: RateAttempt, valid: bool) -> bool:
    """Return whether a run is a full run with this verdict."""
    return attempt.purpose == RUN_PURPOSE and (attempt.verdict == VALID_VERDICT) is valid

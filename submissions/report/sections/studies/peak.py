"""A search for the highest rate in a report: its probes and runs against the bound."""

from collections.abc import Sequence
from dataclasses import replace

from submissions.report.document import Axis, Chart, Line, Mark, Note, Section
from submissions.report.sections.studies.cells import NO_RESULT_NOTE
from submissions.report.sections.studies.measured import build_measured_section
from suite.human_numbers import format_plain_number
from suite.loadgen.headline import VALID_RUN
from suite.loadgen.scenario import Scenario
from suite.studies.measured import MeasuredStudy
from suite.studies.peak import build_attempt
from suite.studies.rates import (
    RUN_PURPOSE,
    PeakAnswer,
    PeakRequest,
    RateAttempt,
    describe_pass_chance,
    format_peak_bound,
)


def build_peak_section(study: MeasuredStudy, name: str) -> Section:
    """Build the section of a search: that of any study, with its chart and what its runs show."""
    request, answer = study.request, study.answer
    attempts = [build_attempt(each) for each in study.points]
    told = describe_pass_chance(answer, attempts)
    workload = study.subject.workload or name
    return replace(
        build_measured_section(study, name),
        title=f"Peak of {workload}",
        intro=(
            f"{workload} within {format_peak_bound(request)} at p{request.percentile:g}."
            f" {NO_RESULT_NOTE}"
        ),
        charts=(build_peak_chart(request, answer, attempts, name),),
        notes=(Note(text=f"{told}."),) if told else (),
    )


def build_peak_chart(
    sought: PeakRequest, answer: PeakAnswer, attempts: Sequence[RateAttempt], name: str
) -> Chart:
    """Draw the share of queries over the bound against the rate, for every probe and run of a
    search.
    """
    unit = "samples per query"
    if sought.scenario == Scenario.SERVER.label:
        unit = "queries/s"
    kinds = {
        "probes": [each for each in attempts if each.purpose != RUN_PURPOSE],
        "VALID runs": [each for each in attempts if is_full_run_of_verdict(each, True)],
        "INVALID runs": [each for each in attempts if is_full_run_of_verdict(each, False)],
    }
    lines = tuple(
        Line(
            name=kind,
            points=tuple(
                sorted((each.rate, 100 * each.over / max(each.queries, 1)) for each in found)
            ),
            dots=True,
        )
        for kind, found in kinds.items()
        if found
    )
    allowed = 100 - sought.percentile
    valid = "no VALID rate"
    if answer.valid:
        valid = f"{format_plain_number(answer.valid)} {unit} VALID"
    invalid = ""
    if answer.invalid:
        invalid = f", {format_plain_number(answer.invalid)} INVALID"
    description = f"{valid}{invalid}; {answer.runs} full runs, {answer.probes} probes."
    return Chart(
        id=f"study-{name}-peak",
        title="Late queries against rate",
        description=description,
        x=Axis(name="rate", unit=unit),
        y=Axis(name="over the bound", unit="%", low=0.0),
        lines=lines,
        marks=(Mark(name=f"{allowed:g} % allowed", value=allowed, upright=False),),
    )


def is_full_run_of_verdict(attempt: RateAttempt, valid: bool) -> bool:
    """Return whether a run is a full run with this verdict."""
    return attempt.purpose == RUN_PURPOSE and (attempt.verdict == VALID_RUN) is valid

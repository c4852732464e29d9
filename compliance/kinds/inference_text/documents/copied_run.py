"""What tells a LoadGen run before 1.0 from all others."""

from compliance.documents.submitted_runs import RunMark, SubmittedRun, TimeShape
from compliance.kinds.inference_text.documents.entry import TextRun
from compliance.logs.finite_numbers import parse_finite_number

SUMMARY_LATENCIES = (
    "Min latency",
    "Max latency",
    "Mean latency",
    "50.00 percentile latency",
    "90.00 percentile latency",
    "99.00 percentile latency",
)


def identify_run_start(run: TextRun) -> tuple[str, int, int] | None:
    """Return what identifies a run: its date, and the times at which its queries were generated and
    ended.
    """
    date, phase = run.find_value("test_datetime"), run.phase
    if date is None or phase is None or not phase.generated or not phase.counters:
        return None
    return date, phase.generated[-1].time_ns, phase.counters[-1][1]


def list_summary_latencies(run: TextRun) -> tuple[str, ...] | None:
    """Return the latencies of a summary; None for each missing one."""
    found = tuple(
        value.text for name in SUMMARY_LATENCIES if (value := run.summary.values.get(name))
    )
    if len(found) == len(SUMMARY_LATENCIES):
        return found
    return None


def identify_text_run(run: TextRun, organisation: str, system: str) -> SubmittedRun:
    """Return the start of a run and, of a performance run, its latencies."""
    marks, shape = [], None
    if begun := identify_run_start(run):
        marks.append(RunMark("start", begun))
    latencies = list_summary_latencies(run)
    if run.performance and latencies:
        marks.append(RunMark("latencies", latencies))
        times = [parse_finite_number(each) or 0.0 for each in latencies]
        shape = TimeShape(counts=(run.scenario, run.benchmark), times=times)
    return SubmittedRun(
        file=run.path, organisation=organisation, system=system, marks=marks, shape=shape
    )

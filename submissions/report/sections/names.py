"""How a report names the system of a result, in tiles, headings and figures."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from submissions.machines import describe_published_system
from submissions.report.document import Section
from suite.result import PUBLISHED_PROFILE, Result

PROCESSOR_FIELD: Final = "host_processor_model_name"
PROCESSORS_FIELD: Final = "host_processors_per_node"


def is_published_score(score: Result) -> bool:
    """Return whether a result is of a published round."""
    return score.profile == PUBLISHED_PROFILE


def build_result_id(score: Result) -> str:
    """Return the part of an id that identifies a result on a page: in a published round several
    organisations may give their systems the same name.
    """
    place = (score.division, score.org) if is_published_score(score) else ()
    return "-".join((score.workload, *filter(None, place), score.system))


def format_side_machine(side: Result) -> str:
    """Format the machine of a result: its accelerators, or the processors of one without any."""
    described = describe_published_system(side)
    processor = described.get(PROCESSOR_FIELD)
    if side.machine.accelerators or not processor:
        return str(side.machine)
    nodes = side.machine.nodes
    count = described.get(PROCESSORS_FIELD)
    return (f"{count} x {processor}" if count else processor) + (
        f", {nodes} node{'s' * (nodes != 1)}" if nodes is not None else ""
    )


def format_result_origin(side: Result, *, several: bool, machine: bool = False) -> str:
    """Name the system of a result, if the report has several: of a published result always, with
    its organisation and, on request, its machine.
    """
    score = side
    if is_published_score(score):
        return ", ".join(
            filter(None, (score.org, score.system, format_side_machine(side) if machine else ""))
        )
    if several:
        return score.system
    return ""


def has_several_systems(sides: Sequence[Result]) -> bool:
    """Return whether results are of several systems that have to be told apart. One machine trains
    with one system and serves with another: their names differ in framework and precision alone,
    and each result is of one of them.
    """
    systems = {(each.division, each.org, each.system) for each in sides}
    kinds = {(each.workload, each.scenario) for each in sides}
    places = {(each.division, each.org, format_side_machine(each)) for each in sides}
    one_campaign = len(kinds) == len(sides) and len(places) == 1
    return len(systems) > 1 and not one_campaign


def add_section_origin(section: Section, heading: str, figure: str) -> Section:
    """Name the system in a section's heading, and in the titles of its figures; empty texts add
    nothing.
    """
    return replace(
        section,
        title=f"{section.title}: {heading}" if heading else section.title,
        charts=tuple(
            replace(chart, title=f"{chart.title}: {figure}" if figure else chart.title)
            for chart in section.charts
        ),
    )


def list_described_fields(side: Result) -> Mapping[str, str]:
    """Return what a published result's description says of its system, by readable names."""
    machine = side.machine
    counted = {
        "organisation": side.org,
        "nodes": machine.nodes,
        "accelerators": machine.accelerators,
        "accelerator": machine.accelerator,
    }
    return {name: str(value) for name, value in counted.items() if value not in (None, "")} | {
        key.replace("_", " "): value for key, value in describe_published_system(side).items()
    }

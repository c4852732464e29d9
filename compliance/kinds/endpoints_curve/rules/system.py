"""Check the description of a point's system: its fields, its availability."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import Any, Final

from compliance.kinds.endpoints.documents.settings_table import select_tables
from compliance.kinds.endpoints_curve.documents.point import SYSTEM_FILE, EndpointsPoint
from compliance.kinds.endpoints_curve.rules.point import MAX_QUOTED_CHARACTERS
from compliance.rules import rule
from compliance.verdict import About, Fault

SYSTEM_STATUSES: Final = ("available", "preview", "rdi")
STATUS_FIELDS: Final = (
    "system_availability_status",
    "publication_status",
    "availability_status",
)
CORE_FIELDS: Final = ("host_processor_core_count", "host_processor_vcpu_count")
SHORT_NAME: Final = "shortened_system_name"


@rule("endpoints.system_fields", EndpointsPoint, About.RULES, doubt="which system was measured")
def system_fields(point: EndpointsPoint) -> Iterator[Fault]:
    """The system's description has each field that the rules ask for, of the system and of each
    type of node, among them the number of cores or virtual cores. The short name of the system is
    short.

    Source: Endpoints rules, 8.2 and 8.2.1; the official checker refuses a description without
    them. No curve is published.
    Advice: fill in the missing fields of system_desc.json.
    """
    if point.system is None:
        return
    rules, file = point.round.rules, point.folder / SYSTEM_FILE
    missing = list_missing_fields(point.system, rules.system_fields)
    nodes = select_tables(point.system.get("node_types"))
    for place, node in enumerate(nodes):
        names = list_missing_fields(node, rules.node_fields)
        if all(node.get(name) is None for name in CORE_FIELDS):
            names = [*names, " or ".join(CORE_FIELDS)]
        missing += [f"node_types[{place}].{name}" for name in names]
    if missing:
        yield point.build_fault(
            f"no {', '.join(missing)}"[:MAX_QUOTED_CHARACTERS], "every field of 8.2", file=file
        )
    name = point.system.get(SHORT_NAME)
    if isinstance(name, str) and len(name) > rules.max_short_name:
        yield point.build_fault(
            f"{SHORT_NAME} {name}"[:MAX_QUOTED_CHARACTERS],
            f"at most {rules.max_short_name} characters",
            file=file,
        )


def list_missing_fields(table: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """List the fields that a table lacks, or that it has as an empty text."""
    return [
        name
        for name in names
        if table.get(name) is None or (isinstance(table[name], str) and not table[name].strip())
    ]


@rule("endpoints.system_status", EndpointsPoint, About.RULES, doubt="whether it can be published")
def system_status(point: EndpointsPoint) -> Iterator[Fault]:
    """The system's description states in one way whether the system is available, a preview or RDI,
    and where an available one can be had, or from which day a preview.

    Source: Endpoints rules, 8.2.
    Advice: fill in system_availability_status and what belongs to it.
    """
    if point.system is None:
        return
    file = point.folder / SYSTEM_FILE
    stated = {each: point.system[each] for each in STATUS_FIELDS if point.system.get(each)}
    status = next(iter(stated.values()), None)
    if len({str(each).strip().casefold() for each in stated.values()}) > 1:
        words = ", ".join(f"{name} {value}" for name, value in stated.items())
        yield point.build_fault(words[:MAX_QUOTED_CHARACTERS], "one status", file=file)
    if not isinstance(status, str) or status.strip().casefold() not in SYSTEM_STATUSES:
        yield point.build_fault(
            f"system_availability_status {status}", "Available, Preview or RDI", file=file
        )
        return
    wanted = {"available": "availability_url", "preview": "target_availability_date"}
    needed = wanted.get(status.strip().casefold())
    if needed and not point.system.get(needed):
        yield point.build_fault(f"no {needed}", f"{needed}, since it is {status}", file=file)
    day = point.system.get("target_availability_date")
    if day and not is_day(day):
        yield point.build_fault(
            f"target_availability_date {day}"[:MAX_QUOTED_CHARACTERS], "YYYY-MM-DD", file=file
        )


def is_day(value: object) -> bool:
    """Return whether a value is a day of the calendar, as YYYY-MM-DD."""
    if not isinstance(value, str) or len(value) != len("YYYY-MM-DD"):
        return False
    try:
        date.fromisoformat(value)
    except ValueError:
        return False
    return True

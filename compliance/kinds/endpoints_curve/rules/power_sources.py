"""Check the single figures in a system's description of power: their values and their sources."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from compliance.kinds.endpoints_curve.documents.curve import EndpointsCurve
from compliance.kinds.endpoints_curve.rules.point import MAX_QUOTED_CHARACTERS
from compliance.kinds.endpoints_curve.rules.power import list_described_nodes
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity

QUOTED_VALUES: Final = ("value_w", "value_kw", "value_pj")
ESTIMATE: Final = "mlc_default"
"""`source_type` of a value of MLCommons' own."""
ESTIMATE_SOURCES: Final = ("D.1", "D.2", "D.3", "D.4")
"""Parts of the rules' appendix D."""
PAGE_SOURCES: Final = ("https://", "http://")


@rule("endpoints.power_sources", EndpointsCurve, About.SCORE, doubt="the throughput per kilowatt")
def power_sources(curve: EndpointsCurve) -> Iterator[Fault]:
    """Each figure in a system's description of power has one value. Its source is a page or, for an
    estimate of MLCommons, a part of the rules' appendix D, and its sets of nodes are those of the
    system's description: others are a warning. So is any defect in a division that need not state
    power.

    Source: Endpoints rules, appendix E.1 and E.3; the official checker refuses two values, and
    other sources. No curve is published.
    Advice: give each figure once, with the address of the page that states it.
    """
    found = curve.power
    for name, figure in iterate_quoted_figures(found.values or {}):
        values = [each for each in QUOTED_VALUES if figure.get(each) is not None]
        if len(values) > 1:
            yield found.build_fault(
                f"{name} with {' and '.join(values)}",
                "one value",
                severity=Severity.WARNING if curve.is_power_optional else None,
            )
        kind, source = figure.get("source_type"), figure.get("source")
        starts = ESTIMATE_SOURCES if kind == ESTIMATE else PAGE_SOURCES
        if kind and isinstance(source, str) and source and not source.startswith(starts):
            yield found.build_fault(
                f"{name} from {source}"[:MAX_QUOTED_CHARACTERS],
                f"a source that begins with {' or '.join(starts)}",
                severity=Severity.WARNING,
            )
    described = {number for point in curve.points for number, _, _ in list_described_nodes(point)}
    for each in found.sets:
        if described and each.ensemble is not None and each.ensemble not in described:
            yield found.build_fault(
                f"nodes of set {each.ensemble}",
                "a set of nodes in the system's description",
                severity=Severity.WARNING,
            )


def iterate_quoted_figures(table: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield path and table of each figure that is quoted with its source."""
    left: list[tuple[str, object]] = [("", table)]
    while left:
        name, value = left.pop()
        if isinstance(value, list):
            left += [(f"{name}[{place}]", each) for place, each in enumerate(value)]
        elif isinstance(value, dict):
            if any(each in value for each in QUOTED_VALUES):
                yield name, value
            left += [(f"{name}.{key}".lstrip("."), each) for key, each in value.items()]

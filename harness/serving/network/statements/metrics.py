"""Reads the counters that servers publish for Prometheus, before and after a run. A server without
them is measured all the same.
"""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from harness.serving.network.access import ClientCredentials
from harness.serving.network.openai.server_checks import OK_STATUS, request_page
from harness.serving.network.wire import ROUTE_PREFIX, Endpoint
from suite.errors import JudgedError
from suite.loadgen.server_counters import COUNTER_NAMES, ServerCounters
from suite.process.installation import format_install_command

METRICS_ROUTE: Final = "/metrics"
MODEL_LABEL: Final = "model_name"
"""By which vLLM and SGLang tell the models of a server apart."""
SETTLING_S: Final = 2.0
"""House rule: how long counters may rise behind the last answer. SGLang and vLLM count at the end
of a step.
"""
SETTLING_STEP_S: Final = 0.1
MAX_COUNT: Final = 1 << 62
"""JSON's readers have 64 bits."""


@dataclass(slots=True, kw_only=True)
class CounterReader:
    """Reads the counters of a run's servers."""

    endpoints: Sequence[Endpoint]
    access: ClientCredentials
    headers: Mapping[str, str]
    model: str
    before: dict[Endpoint, Mapping[str, int]] = field(default_factory=dict)
    """Of servers that publish counters."""
    problem: str = ""
    """Why nothing can be read; empty if that is not known."""

    def read_before(self) -> None:
        """Read the counters before a run, of those servers that have such a page."""
        pages = {each: self.request_counters(each) for each in self.endpoints}
        if any(pages.values()) and find_text_parser() is None:
            missing = f"prometheus-client is not installed: {format_install_command('openai')}"
            self.problem = f"servers' counters were not read: {missing}"
            return
        found = {each: parse_counters(page, self.model) for each, page in pages.items() if page}
        self.before = {each: counts for each, counts in found.items() if counts is not None}

    def read_after(self) -> tuple[ServerCounters, ...]:
        """Read the counters after a run, as soon as they no longer rise."""
        return tuple(self.read_pairs())

    def read_pairs(self) -> Iterator[ServerCounters]:
        """Yield each server's counters before and after the run."""
        for endpoint, before in self.before.items():
            after = self.read_settled(endpoint)
            if before or after:
                yield ServerCounters(endpoint=endpoint.url, before=before, after=after)

    def read_settled(self, endpoint: Endpoint) -> Mapping[str, int]:
        """Read a server's counters until they stay, for a limited time."""
        end = time.monotonic() + SETTLING_S
        last, found = None, parse_counters(self.request_counters(endpoint), self.model)
        while found != last and time.monotonic() < end:
            time.sleep(SETTLING_STEP_S)
            last, found = found, parse_counters(self.request_counters(endpoint), self.model)
        return found or {}

    def request_counters(self, endpoint: Endpoint) -> str:
        """Request a server's page of counters; "" if it has none."""
        page = replace(endpoint, base=endpoint.base.removesuffix(ROUTE_PREFIX))
        try:
            reply = request_page(page, self.access, self.headers, METRICS_ROUTE)
        except JudgedError:
            return ""
        return reply.body.decode("utf-8", "replace") if reply.status == OK_STATUS else ""


def find_text_parser() -> Any:
    """Return the parser of Prometheus' text format; None if it is not installed."""
    try:
        from prometheus_client.parser import text_string_to_metric_families
    except ImportError:
        return None
    return text_string_to_metric_families


def parse_counters(text: str, model: str) -> Mapping[str, int] | None:
    """Return the counters that podium knows, each summed over its labels: over those of the model,
    if one of them names it. None for a text of another form.
    """
    try:
        samples = [
            sample
            for family in find_text_parser()(text)
            for sample in family.samples
            if sample.name in COUNTER_NAMES
        ]
    except (ValueError, KeyError, IndexError):
        return None
    if any(each.labels.get(MODEL_LABEL) == model for each in samples):
        samples = [each for each in samples if each.labels.get(MODEL_LABEL) == model]
    counts: dict[str, int] = {}
    for each in samples:
        if math.isfinite(each.value) and 0 <= each.value < MAX_COUNT:
            counts[each.name] = counts.get(each.name, 0) + int(each.value)
    return counts

"""Say of a set of published training runs that its power logs are not judged."""

from collections.abc import Iterator

from compliance.kinds.training.documents.log import PublishedSet
from compliance.rules import rule
from compliance.verdict import Fault, Severity
from suite.measurement.mlperf_power.session import POWER_FOLDER


@rule("runs.power", PublishedSet, severity=Severity.INFO, unchecked="power")
def power(group: PublishedSet) -> Iterator[Fault]:
    """A set with logs of its power is judged without them.

    Source: training_rules.adoc, Power measurement: power/result_<i>/node_<j>.txt.
    Advice: check the power logs with MLCommons' power checker.
    """
    folder = group.folder / POWER_FOLDER
    if folder.is_dir():
        yield group.build_fault("power logs", "nothing: they are not judged", file=folder)

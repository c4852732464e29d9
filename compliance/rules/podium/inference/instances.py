"""Several instances of one system under test: they add up to the run, and share its work."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from compliance.documents.podium.inference import LoadGenRun
from compliance.rules import rule
from compliance.verdict import Fault, Severity
from suite.files.layout import RUN_RECORD

SETTING: Final = "sut.instances"
LEAST_SHARE: Final = 0.5
"""House rule: an instance that answered less than half of an equal share was slower than the others, or idle."""
FEWEST_BATCHES: Final = 8
"""House rule: with fewer batches for each instance, shares are unequal by chance."""


@rule("loadgen.instances", LoadGenRun)
def instances(run: LoadGenRun) -> Iterator[Fault]:
    """The instances of a system are as many as its setting says, share no core, and answered the run's batches and samples together; one that
    answered less than half of an equal share is a warning.

    Source: house rule: run.json tells what each process answered; harness/serving/instances.
    Advice: do not edit run.json; where the work is unequal, look at the placement and at what else uses those cores.
    """
    record = run.record
    asked = record.settings.get(SETTING) if record else None
    if record is None or not (record.instances or asked):
        return
    if len(record.instances) != asked:
        yield run.fault(RUN_RECORD, f"{len(record.instances)} instances", f"{asked!r}, the setting {SETTING}")
        return
    cores = [core for each in record.instances for core in each.cores]
    if len(set(cores)) != len(cores):
        yield run.fault(RUN_RECORD, f"instances on the cores {cores}", "cores of their own")
    batches, samples = sum(each.batches for each in record.instances), sum(each.samples for each in record.instances)
    told = record.batches.get("count", 0.0)
    if batches != told or round(told * record.batches.get("mean_size", 0.0)) != samples or min(each.samples for each in record.instances) < 0:
        yield run.fault(RUN_RECORD, f"{batches} batches and {samples} samples of all instances", f"{told:g} batches and their samples, as the run has")
    if batches >= FEWEST_BATCHES * len(record.instances):
        yield from unequal(run, [each.samples for each in record.instances])


def unequal(run: LoadGenRun, samples: list[int]) -> Iterator[Fault]:
    """Yield the instances that did much less than their share."""
    share = sum(samples) / len(samples)
    for number, answered in enumerate(samples):
        if answered < LEAST_SHARE * share:
            found = f"{answered} samples answered by instance {number}"
            yield replace(run.fault(RUN_RECORD, found, f"about {share:g}, an equal share"), severity=Severity.WARNING)

"""Several instances of one system under test: they add up to the run, and share its work."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from compliance.documents.podium.inference import LoadGenRun
from compliance.rules import rule
from compliance.verdict import Fault, Severity
from suite.files.layout import RUN_RECORD
from suite.process.devices import expanded, members, names_several
from suite.records import RunRecord

SETTING: Final = "sut.instances"
PIN: Final = "sut.pin"
LOADGEN_CORES: Final = "sut.loadgen_cores"
LEAST_SHARE: Final = 0.5
"""House rule: an instance that answered less than half of an equal share was slower than the
others, or idle.
"""
FEWEST_BATCHES: Final = 8
"""House rule: with fewer batches for each instance, shares are unequal by chance."""


@rule("loadgen.instances", LoadGenRun)
def instances(run: LoadGenRun) -> Iterator[Fault]:
    """A system has as many instances as its setting says, on each of the devices that the run
    names; they share no core with each other or
    with LoadGen's process, are pinned where the settings say so, and answered the run's batches and
    samples together; one that answered less than half
    of an equal share is a warning.

    Source: house rule: run.json tells what each process answered; harness/serving/instances.
    Advice: do not edit run.json; where the work is unequal, look at the placement and at what else
    uses those cores.
    """
    record = run.record
    if record is None or not (
        record.instances
        or record.loadgen_cores
        or record.settings.get(SETTING)
        or names_several(record.device)
    ):
        return
    if fault := misplaced(run, record):
        yield fault
        return
    yield from unpinned(run, record)
    batches, samples = (
        sum(each.batches for each in record.instances),
        sum(each.samples for each in record.instances),
    )
    told = record.batches.get("count", 0.0)
    if (
        batches != told
        or round(told * record.batches.get("mean_size", 0.0)) != samples
        or min(each.samples for each in record.instances) < 0
    ):
        yield run.fault(
            RUN_RECORD,
            f"{batches} batches and {samples} samples of all instances",
            f"{told:g} batches and their samples, as the run has",
        )
    if batches >= FEWEST_BATCHES * len(record.instances):
        yield from unequal(run, [each.samples for each in record.instances])


def misplaced(run: LoadGenRun, record: RunRecord) -> Fault | None:
    """Return what is wrong with the number of instances on each device."""
    devices, asked = members(record.device), record.settings.get(SETTING)
    if devices is None:
        return run.fault(
            RUN_RECORD,
            f"device {record.device}",
            "GPUs in ascending order, each once, such as cuda:0-3,6",
        )
    each = asked if len(devices) == 1 else asked or 1
    counts = Counter(instance.device or record.device for instance in record.instances)
    if dict(counts) == dict.fromkeys(devices, each):
        return None
    where = ", ".join(f"{count} on {device}" for device, count in sorted(counts.items()))
    required = (
        f"the setting {SETTING}"
        if len(devices) == 1
        else f"as many on each device of {record.device}"
    )
    return run.fault(
        RUN_RECORD,
        f"{len(record.instances)} instances{where and f': {where}'}",
        f"{each!r}, {required}",
    )


def unpinned(run: LoadGenRun, record: RunRecord) -> Iterator[Fault]:
    """Yield what is wrong with the cores of the instances and of LoadGen's process."""
    cores = [core for each in record.instances for core in each.cores]
    if len(set(cores)) != len(cores):
        yield run.fault(RUN_RECORD, f"instances on the cores {cores}", "cores of their own")
    pin, asked = record.settings.get(PIN), str(record.settings.get(LOADGEN_CORES) or "")
    if (pin == "on" and not all(each.cores for each in record.instances)) or (
        pin == "off" and cores
    ):
        yield run.fault(
            RUN_RECORD, f"instances on the cores {cores}", f"{PIN} {pin}, as the setting says"
        )
    if record.loadgen_cores != (expanded(asked) if asked else ()):
        yield run.fault(
            RUN_RECORD,
            f"LoadGen on the cores {list(record.loadgen_cores)}",
            f"{asked or 'none'}, the setting {LOADGEN_CORES}",
        )
    if shared := sorted(set(cores) & set(record.loadgen_cores)):
        yield run.fault(
            RUN_RECORD, f"instances and LoadGen on the cores {shared}", "cores of their own"
        )


def unequal(run: LoadGenRun, samples: list[int]) -> Iterator[Fault]:
    """Yield the instances that did much less than their share."""
    share = sum(samples) / len(samples)
    for number, answered in enumerate(samples):
        if answered < LEAST_SHARE * share:
            found = f"{answered} samples answered by instance {number}"
            yield replace(
                run.fault(RUN_RECORD, found, f"about {share:g}, an equal share"),
                severity=Severity.WARNING,
            )

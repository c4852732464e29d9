"""Example answers of the accuracy run: some drawn by the campaign's nonce, and the worst ones."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from compliance.logs.loadgen import accuracy_log
from compliance.logs.source_file import SourceFile
from submissions.report.document import Gallery, Note, Section, Tone
from submissions.result_index import Result
from submissions.score import log_values
from submissions.score.score import Score
from suite import registry
from suite.errors import PodiumError
from suite.examples import Example, ExampleKind, Examples
from suite.files.cache import cache_folder
from suite.files.layout import ACCURACY, folder_sha256
from suite.loadgen.scenario import Scenario
from suite.records import RunRecord

DRAWN: Final = 6
"""Number of examples drawn by the nonce."""
WORST: Final = 3
"""Number of examples with the lowest quality, among those inspected."""
LOOKED_AT: Final = 1_000
"""Number of samples, drawn likewise, among which to find the worst: scoring all of COCO image by
image would take minutes.
"""
ORDER: Final = (Scenario.OFFLINE, Scenario.SINGLE_STREAM, Scenario.SERVER, Scenario.MULTI_STREAM)
"""Scenarios by preference for the accuracy run to show: all of them answer the same samples."""
NO_PICTURE: Final = (
    "Pictures and sentences are shown of the data that podium generates itself. Those of ImageNet,"
    " COCO and WMT may not be passed on."
)
NO_TRUTH: Final = (
    "The bundle holds no labels or references, so that answers cannot be shown beside them."
)


def section(served: Sequence[tuple[Result, Score]], workload: str) -> Section | None:
    """Show examples of one workload; None if it does not define how to show its answers, or nothing
    was served.
    """
    by_scenario = {result.scenario: (result, score) for result, score in served}
    found = next(
        (
            by_scenario[scenario]
            for scenario in ORDER
            if scenario in by_scenario and by_scenario[scenario][0].accuracy.is_dir()
        ),
        None,
    )
    if found is None or workload not in registry.points(registry.EXAMPLES):
        return None
    result, score = found
    where = f"examples-{workload}-{score.system}"
    try:
        record = log_values.served(result.accuracy)
        gallery, notes = shown(result, record, workload)
    except (PodiumError, ValueError, OSError) as error:
        return Section(
            id=where,
            title="What the model does",
            notes=(Note(text=f"No examples: {error}", tone=Tone.CAUTION),),
        )
    galleries = (gallery,) if gallery else ()
    return Section(id=where, title="What the model does", galleries=galleries, notes=tuple(notes))


def shown(result: Result, record: RunRecord, workload: str) -> tuple[Gallery | None, list[Note]]:
    """Choose and show examples of one accuracy run."""
    if result.home is None or not result.truth.is_dir():
        return None, [Note(text=NO_TRUTH)]
    embedded = is_embedded(result.truth, record)
    answers = accuracy_log.read(SourceFile(result.accuracy / ACCURACY))
    examples: Examples = registry.resolve(registry.EXAMPLES, "examples of workload", workload)(
        answers, result.truth, embedded, cache_folder()
    )
    picked = [examples.example(sample) for sample in chosen(examples, record.nonce)]
    notes = [] if embedded else [Note(text=NO_PICTURE)]
    if (
        embedded
        and examples.kind is not ExampleKind.TEXT
        and not any(each.picture for each in picked)
    ):
        notes.append(Note(text="The pictures can be drawn where podium-suite[run] is installed."))
    return gallery(picked, examples, record, result), notes


def is_embedded(truth: Path, record: RunRecord) -> bool:
    """Return whether the data are the ones that podium generates today.

    Their truth has the hash that the round pins. A record that lacks a setting of the row is of an
    earlier podium, whose images may have been others
    with the same labels.
    """
    if record.round not in registry.round_names():
        return False
    row = registry.round(record.round).benchmarks.get(record.workload)
    half = (
        next((half for profile, half in row.inference.items() if profile == record.profile), None)
        if row
        else None
    )
    trained = (
        next((half for profile, half in row.training.items() if profile == record.profile), None)
        if row
        else None
    )
    known = trained is None or trained.settings.keys() <= record.settings.keys()
    return bool(known and half and half.truth_sha256 and half.truth_sha256 == folder_sha256(truth))


def chosen(examples: Examples, nonce: str) -> list[int]:
    """Draw samples by the nonce, so that nobody picks them, and add the worst of those
    inspected.
    """
    order = sorted(
        range(len(examples)),
        key=lambda sample: hashlib.sha256(f"{nonce}{sample}".encode()).digest(),
    )
    drawn = order[:DRAWN]
    looked = [
        (examples.quality(sample), place, sample)
        for place, sample in enumerate(order[:LOOKED_AT])
        if sample not in drawn
    ]
    worst = [sample for quality, _, sample in sorted(looked)[:WORST] if quality < 1.0]
    return [*drawn, *worst]


def gallery(
    picked: Sequence[Example], examples: Examples, record: RunRecord, result: Result
) -> Gallery:
    """Describe the examples and how they were chosen."""
    good = sum(each.right is True for each in picked[:DRAWN])
    worst = (
        f" The last {len(picked) - DRAWN} are those that went wrong most among"
        f" {min(len(examples), LOOKED_AT):,}."
        if len(picked) > DRAWN
        else ""
    )
    run = result.scenario.label if result.scenario else "inference"
    text = (
        f"{min(DRAWN, len(picked))} of {len(examples):,} samples of the accuracy run of {run},"
        f" drawn by the campaign's nonce {record.nonce[:12]} so that nobody picks them; {good}"
        f" answered exactly as expected.{worst}"
    )
    text = " ".join(filter(None, [text, getattr(examples, "legend", "")]))
    return Gallery(
        title=f"Examples of {record.workload}",
        description=text,
        kind=examples.kind,
        shown=tuple(picked),
    )

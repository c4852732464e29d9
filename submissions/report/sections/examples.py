"""Example answers from the accuracy run: some drawn with the campaign's nonce, and the
worst ones.
"""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from compliance.kinds.podium.results import log_values
from compliance.logs.loadgen import accuracy_log
from compliance.logs.source_file import SourceFile
from compliance.results.indexed_result import IndexedResult
from submissions.report.document import Gallery, Note, Section, Tone
from suite import registry
from suite.errors import PodiumError
from suite.examples import DEFAULT_TEXT_NAMES, Example, ExampleKind, Examples
from suite.files.cache import locate_cache_folder
from suite.files.layout import ACCURACY_LOG, compute_folder_sha256
from suite.loadgen.scenario import Scenario
from suite.records import ServedRun
from suite.result import Result

DRAWN_EXAMPLES: Final = 6
"""Number of examples drawn with the nonce."""
WORST_EXAMPLES: Final = 3
"""Number of examples with the lowest quality, among those inspected."""
MAX_INSPECTED_SAMPLES: Final = 1_000
"""Number of samples, also drawn with the nonce, to search for the worst: scoring all of COCO image
by image would take minutes.
"""
SCENARIO_PREFERENCE: Final = (
    Scenario.OFFLINE,
    Scenario.SINGLE_STREAM,
    Scenario.SERVER,
    Scenario.MULTI_STREAM,
)
"""Scenarios in order of preference for the accuracy run to show; all of them answer the same
samples.
"""
NO_PICTURE_NOTE: Final = (
    "Images and texts are shown only if podium generated the data. Those of ImageNet, COCO, WMT "
    "and CNN/DailyMail may not be redistributed."
)
NO_TRUTH_NOTE: Final = (
    "The bundle contains no labels or references, so answers cannot be compared with them here."
)


def build_examples_section(
    served: Sequence[tuple[IndexedResult, Result]], workload: str
) -> Section | None:
    """Show examples for one workload; None if it does not define how to show its answers, or
    nothing was served.
    """
    by_scenario = {result.scenario: (result, score) for result, score in served}
    accuracy_result = next(
        (
            by_scenario[scenario]
            for scenario in SCENARIO_PREFERENCE
            if scenario in by_scenario and by_scenario[scenario][0].accuracy_folder.is_dir()
        ),
        None,
    )
    if accuracy_result is None:
        return None
    result, score = accuracy_result
    where = f"examples-{workload}-{score.system}"
    try:
        build_examples = registry.load_workload_part(workload, "examples of workload", "examples")
        if build_examples is None:
            return None
        record = log_values.read_loadgen_run_record(result.accuracy_folder)
        gallery, notes = collect_accuracy_examples(result, record, build_examples)
    except (PodiumError, ValueError, OSError) as error:
        return Section(
            id=where,
            title="What the model does",
            notes=(Note(text=f"No examples: {error}", tone=Tone.CAUTION),),
        )
    galleries = (gallery,) if gallery else ()
    return Section(id=where, title="What the model does", galleries=galleries, notes=tuple(notes))


def collect_accuracy_examples(
    result: IndexedResult, record: ServedRun, build_examples: Callable[..., Examples]
) -> tuple[Gallery | None, list[Note]]:
    """Select and describe examples from one accuracy run."""
    if result.organisation_folder is None or not result.truth_folder.is_dir():
        return None, [Note(text=NO_TRUTH_NOTE)]
    embedded = has_generated_data(result.truth_folder, record)
    answers = accuracy_log.index_accuracy_log(SourceFile(result.accuracy_folder / ACCURACY_LOG))
    examples = build_examples(answers, result.truth_folder, embedded, locate_cache_folder())
    samples = select_example_samples(examples, record.system.nonce)
    picked = [examples.example(sample) for sample in samples]
    notes = []
    if not embedded:
        notes.append(Note(text=NO_PICTURE_NOTE))
    if (
        embedded
        and examples.kind is not ExampleKind.TEXT
        and not any(each.picture for each in picked)
    ):
        notes.append(Note(text="To see the images, install podium-suite[run]."))
    return build_examples_gallery(picked, examples, record, result), notes


def has_generated_data(truth: Path, record: ServedRun) -> bool:
    """Return whether the data are those that this version of podium generates.

    Their truth has the hash that the round pins. A record that lacks a setting of the row is from
    an older podium, whose images may differ although their labels are the same.
    """
    if record.system.round not in registry.list_round_names():
        return False
    row = registry.load_round(record.system.round).benchmarks.get(record.system.workload)
    stamped = record.system.profile
    if row:
        half = next((half for profile, half in row.inference.items() if profile == stamped), None)
    else:
        half = None
    trained = None
    if row:
        trained = next((half for profile, half in row.training.items() if profile == stamped), None)
    known = trained is None or trained.settings.keys() <= record.settings.keys()
    return bool(
        known and half and half.truth_sha256 and half.truth_sha256 == compute_folder_sha256(truth)
    )


def select_example_samples(examples: Examples, nonce: str) -> list[int]:
    """Draw samples with the nonce, so that they cannot be hand-picked, and add the worst of those
    inspected.
    """
    order = sorted(
        range(len(examples)),
        key=lambda sample: hashlib.sha256(f"{nonce}{sample}".encode()).digest(),
    )
    drawn = order[:DRAWN_EXAMPLES]
    inspected = [
        (examples.quality(sample), position, sample)
        for position, sample in enumerate(order[:MAX_INSPECTED_SAMPLES])
        if sample not in drawn
    ]
    worst = [sample for quality, _, sample in sorted(inspected)[:WORST_EXAMPLES] if quality < 1.0]
    return [*drawn, *worst]


def build_examples_gallery(
    picked: Sequence[Example], examples: Examples, record: ServedRun, result: IndexedResult
) -> Gallery:
    """Describe the examples and how they were chosen."""
    good = sum(each.right is True for each in picked[:DRAWN_EXAMPLES])
    worst = ""
    if len(picked) > DRAWN_EXAMPLES:
        worst = (
            f" The last {len(picked) - DRAWN_EXAMPLES} are the worst among"
            f" {min(len(examples), MAX_INSPECTED_SAMPLES):,}."
        )
    run = "inference"
    if result.scenario:
        run = result.scenario.label
    text = (
        f"{min(DRAWN_EXAMPLES, len(picked))} of {len(examples):,} samples of the accuracy run of "
        f"{run}, drawn with the campaign's nonce {record.system.nonce[:12]} so that they cannot be "
        f"hand-picked; {good} answered exactly as expected.{worst}"
    )
    text = " ".join(filter(None, [text, getattr(examples, "legend", "")]))
    return Gallery(
        title=f"Examples for {record.system.workload}",
        description=text,
        kind=examples.kind,
        shown=tuple(picked),
        names=getattr(examples, "names", DEFAULT_TEXT_NAMES),
    )

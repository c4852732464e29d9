"""Examples of translations for reports."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from workloads.common.embedded_cache import create_cached_folder
from workloads.common.text import parallel_text, references, synthetic_language
from workloads.common.text.examples import TranslationExamples, read_sources_if_matching
from workloads.common.text.token_answers import unpack_token_ids
from workloads.gnmt.scoring import decode_gnmt_words, read_gnmt_vocabulary


def examples(
    answers: Mapping[int, bytes], truth: Path, embedded: bool, cache: Path
) -> TranslationExamples:
    """Read the truth; ValueError if it is invalid."""
    reference_texts, tokens = references.read_references(truth), read_gnmt_vocabulary(truth)
    if embedded:
        source_texts = read_sources_if_matching(
            partial(read_embedded_gnmt_sources, cache), len(reference_texts)
        )
    else:
        source_texts = ()
    return TranslationExamples(
        answers,
        reference_texts,
        lambda answer: " ".join(decode_gnmt_words(unpack_token_ids(answer), tokens)),
        source_texts,
    )


def read_embedded_gnmt_sources(cache: Path) -> Sequence[str]:
    """Return the embedded test sentences from the workload's cache."""
    grammar = synthetic_language.NEAR_LANGUAGE
    folder = create_cached_folder(
        cache,
        synthetic_language.format_language_folder(grammar),
        partial(synthetic_language.write_synthetic_text, grammar),
    )
    return parallel_text.read_parallel_text(
        folder, parallel_text.TEXT_TEST_SPLIT, skip=False
    ).sources

"""Examples of translations for reports."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from workloads.common.embedded_cache import create_cached_folder
from workloads.common.text import parallel_text, references, synthetic_language
from workloads.common.text.examples import TranslationExamples, read_sources_if_matching
from workloads.common.text.token_answers import unpack_token_ids
from workloads.transformer import subwords
from workloads.transformer.scoring import TRUTH_VOCABULARY_FILE


def examples(
    answers: Mapping[int, bytes], truth: Path, embedded: bool, cache: Path
) -> TranslationExamples:
    """Read the truth; ValueError or RequestError if it is invalid."""
    subwords_vocabulary, reference_texts = (
        subwords.read_subtoken_vocabulary(truth / TRUTH_VOCABULARY_FILE),
        references.read_references(truth),
    )
    if embedded:
        source_texts = read_sources_if_matching(
            partial(read_embedded_transformer_sources, cache), len(reference_texts)
        )
    else:
        source_texts = ()
    return TranslationExamples(
        answers,
        reference_texts,
        lambda answer: subwords_vocabulary.decode_ids(unpack_token_ids(answer)),
        source_texts,
    )


def read_embedded_transformer_sources(cache: Path) -> Sequence[str]:
    """Return the embedded test sentences from the workload's cache."""
    name = f"transformer-pair-{synthetic_language.LANGUAGE_VERSION}"
    folder = create_cached_folder(
        cache,
        name,
        partial(synthetic_language.write_synthetic_text, synthetic_language.FAR_LANGUAGE),
    )
    return parallel_text.read_parallel_text(
        folder, parallel_text.TEXT_TEST_SPLIT, skip=False
    ).sources

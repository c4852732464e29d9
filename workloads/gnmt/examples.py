"""Examples of translations for reports."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from workloads.common.embedded_cache import generated
from workloads.common.text import parallel_text, references, synthetic_language
from workloads.common.text.examples import TextExamples, embedded_sources
from workloads.common.text.token_answers import unpacked
from workloads.gnmt.scoring import read_vocabulary, words


def examples(
    answers: Mapping[int, bytes], truth: Path, embedded: bool, cache: Path
) -> TextExamples:
    """Read the truth; ValueError if it is invalid."""
    right, tokens = references.read(truth), read_vocabulary(truth)
    shown = embedded_sources(partial(sources, cache), len(right)) if embedded else ()
    return TextExamples(
        answers, right, lambda answer: " ".join(words(unpacked(answer), tokens)), shown
    )


def sources(cache: Path) -> Sequence[str]:
    """Return the embedded test sentences from the workload's cache."""
    grammar = synthetic_language.NEAR
    folder = generated(
        cache,
        f"language-{grammar.name}-{synthetic_language.VERSION}",
        partial(synthetic_language.write, grammar),
    )
    return parallel_text.find(folder, parallel_text.TEST, skip=False).sources

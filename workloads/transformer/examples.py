"""Examples of translations for reports."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from workloads.common.embedded_cache import generated
from workloads.common.text import parallel_text, references, synthetic_language
from workloads.common.text.examples import TextExamples, embedded_sources
from workloads.common.text.token_answers import unpacked
from workloads.transformer import subwords
from workloads.transformer.scoring import VOCABULARY


def examples(
    answers: Mapping[int, bytes], truth: Path, embedded: bool, cache: Path
) -> TextExamples:
    """Read the truth; ValueError or RequestError if it is invalid."""
    words, right = subwords.read(truth / VOCABULARY), references.read(truth)
    shown = embedded_sources(partial(sources, cache), len(right)) if embedded else ()
    return TextExamples(answers, right, lambda answer: words.decode(unpacked(answer)), shown)


def sources(cache: Path) -> Sequence[str]:
    """Return the embedded test sentences from the workload's cache."""
    name = f"transformer-pair-{synthetic_language.VERSION}"
    folder = generated(cache, name, partial(synthetic_language.write, synthetic_language.FAR))
    return parallel_text.find(folder, parallel_text.TEST, skip=False).sources

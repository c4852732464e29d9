"""Examples of translations for reports: the sentence, its reference and its translation side by
side.
"""

from collections.abc import Callable, Mapping, Sequence
from difflib import SequenceMatcher

from suite.examples import DEFAULT_TEXT_NAMES, Example, ExampleKind


class TranslationExamples:
    """Translations, or other texts, with their references and, if they may be shown, the texts that
    were read; `names` are those of what is read and of what is answered.
    """

    kind = ExampleKind.TEXT

    def __init__(
        self,
        answers: Mapping[int, bytes],
        references: Sequence[str],
        text_of: Callable[[bytes], str],
        sources: Sequence[str],
        names: tuple[str, str] = DEFAULT_TEXT_NAMES,
    ) -> None:
        self.names = names
        self._answers, self._references, self._text_of, self._sources = (
            answers,
            references,
            text_of,
            sources,
        )

    def __len__(self) -> int:
        """Return the number of sentences in the accuracy set."""
        return len(self._references)

    def quality(self, sample: int) -> float:
        """Return the fraction of words in common, in the same order; not BLEU, which means little
        for one sentence.
        """
        answered, expected = (
            self._text_of(self._answers.get(sample, b"")).split(),
            self._references[sample].split(),
        )
        return SequenceMatcher(None, expected, answered, autojunk=False).ratio()

    def example(self, sample: int) -> Example:
        """Build one example."""
        answered, expected = self._text_of(self._answers.get(sample, b"")), self._references[sample]
        source = self._sources[sample] if sample < len(self._sources) else ""
        return Example(
            sample=sample,
            right=answered.split() == expected.split(),
            expected=expected,
            answered=answered,
            source=source,
            quality=self.quality(sample),
        )


def read_sources_if_matching(
    read_sources: Callable[[], Sequence[str]], count: int
) -> Sequence[str]:
    """Return the embedded sentences; none if their number differs from the references', or if they
    cannot be written to the cache.
    """
    try:
        sources = read_sources()
    except OSError:
        return ()
    return sources if len(sources) == count else ()

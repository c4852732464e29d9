"""Examples of classified pictures for reports; embedded ones are rendered again, since each is a
function of class and number.
"""

from collections.abc import Mapping
from pathlib import Path

from suite.examples import Example, ExampleKind
from workloads.resnet50.scoring import classes, read_labels


class LabelExamples:
    """Pictures with their true class and the predicted one."""

    kind = ExampleKind.LABELS

    def __init__(self, answers: Mapping[int, bytes], labels: list[int], embedded: bool) -> None:
        self._answers, self._labels, self._embedded = answers, labels, embedded

    def __len__(self) -> int:
        """Return the number of pictures in the accuracy set."""
        return len(self._labels)

    def quality(self, sample: int) -> float:
        """1 for the right class, 0.5 if it is among the five classes of a top-5 answer."""
        told = classes(self._answers.get(sample, b""))
        return 1.0 if told[:1] == (self._labels[sample],) else 0.5 * (self._labels[sample] in told)

    def example(self, sample: int) -> Example:
        """Build one example."""
        label, told = self._labels[sample], classes(self._answers.get(sample, b""))
        url, side, names = drawn(self._labels, sample) if self._embedded else ("", 0, ())
        return Example(
            sample=sample,
            right=told[:1] == (label,),
            expected=named(label, names),
            answered=", ".join(named(each, names) for each in told) or "no answer",
            picture=url,
            width=side,
            height=side,
            quality=self.quality(sample),
        )


def drawn(labels: list[int], sample: int) -> tuple[str, int, tuple[str, ...]]:
    """Render an embedded picture: its URL, its side in pixels, and the names of all classes; empty
    if Pillow is not installed.
    """
    try:
        from workloads.common.pictures.embedding import encode_data_url
        from workloads.resnet50.images import embedded
    except ImportError:
        return "", 0, ()
    label = labels[sample]
    picture = embedded.render(
        "val", label, sample - labels.index(label)
    )  # sorted by class, like the set's folders
    return encode_data_url(picture), embedded.SIDE_PX, embedded.CLASSES


def named(label: int, names: tuple[str, ...]) -> str:
    """Return the name of a class, or its number if no names are known."""
    return names[label] if 0 <= label < len(names) else f"class {label}"


def examples(
    answers: Mapping[int, bytes], truth: Path, embedded: bool, cache: Path
) -> LabelExamples:
    """Read the truth; ValueError if it is invalid."""
    return LabelExamples(answers, read_labels(truth), embedded)

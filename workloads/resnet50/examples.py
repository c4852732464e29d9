"""Examples of classified images for reports; embedded ones are rendered again, since each is a
function of class and number.
"""

from collections.abc import Mapping
from pathlib import Path

from suite.examples import Example, ExampleKind
from workloads.resnet50.scoring import read_image_labels, unpack_class_answer


class LabelExamples:
    """Images with their true class and the predicted one."""

    kind = ExampleKind.LABELS

    def __init__(self, answers: Mapping[int, bytes], labels: list[int], embedded: bool) -> None:
        self._answers, self._labels, self._embedded = answers, labels, embedded

    def __len__(self) -> int:
        """Return the number of images in the accuracy set."""
        return len(self._labels)

    def quality(self, sample: int) -> float:
        """1 for the right class, 0.5 if it is among the five classes of a top-5 answer."""
        answered = unpack_class_answer(self._answers.get(sample, b""))
        if answered[:1] == (self._labels[sample],):
            return 1.0
        return 0.5 * (self._labels[sample] in answered)

    def example(self, sample: int) -> Example:
        """Build one example."""
        label, answered = self._labels[sample], unpack_class_answer(self._answers.get(sample, b""))
        url, side, names = (
            render_embedded_image(self._labels, sample) if self._embedded else ("", 0, ())
        )
        return Example(
            sample=sample,
            right=answered[:1] == (label,),
            expected=format_class_name(label, names),
            answered=", ".join(format_class_name(each, names) for each in answered) or "no answer",
            picture=url,
            width=side,
            height=side,
            quality=self.quality(sample),
        )


def render_embedded_image(labels: list[int], sample: int) -> tuple[str, int, tuple[str, ...]]:
    """Render an embedded image: its URL, its side in pixels, and the names of all classes; empty
    if Pillow is not installed.
    """
    try:
        from workloads.common.pictures.embedding import encode_data_url
        from workloads.resnet50.images import embedded
    except ImportError:
        return "", 0, ()
    label = labels[sample]
    # sorted by class, like the set's folders
    picture = embedded.draw_embedded_image("val", label, sample - labels.index(label))
    return encode_data_url(picture), embedded.EMBEDDED_IMAGE_SIDE_PX, embedded.EMBEDDED_CLASSES


def format_class_name(label: int, names: tuple[str, ...]) -> str:
    """Return the name of a class, or its number if no names are known."""
    return names[label] if 0 <= label < len(names) else f"class {label}"


def examples(
    answers: Mapping[int, bytes], truth: Path, embedded: bool, cache: Path
) -> LabelExamples:
    """Read the truth; ValueError if it is invalid."""
    return LabelExamples(answers, read_image_labels(truth), embedded)

"""No figure of a single point: one dot, or several above one another, is a sentence."""

from submissions.report.document import Axis, Chart, Line, Mark, Section
from submissions.report.sections.thin_figures import replace_thin_figures

ALONE = ((1.0, 18.53),)


def chart(*lines: Line) -> Chart:
    return Chart(
        id="loss",
        title="Loss per epoch",
        description="told",
        x=Axis(name="epoch", whole=True),
        y=Axis(name="loss", unit="nats"),
        lines=lines,
        marks=(Mark(name="target 5", value=5.0, upright=False),),
    )


def test_one_dot_is_a_sentence_with_its_numbers() -> None:
    section = Section(
        id="s",
        title="s",
        parts=(Section(id="p", title="p", charts=(chart(Line(name="a", points=ALONE)),)),),
    )
    (part,) = replace_thin_figures(section).parts
    assert part.charts == ()
    assert [note.text for note in part.notes] == [
        "Loss per epoch: loss 18.53 nats at epoch 1, target 5. Too few points for a figure."
    ]


def test_dots_above_one_another_are_a_sentence_and_name_their_runs() -> None:
    runs = [Line(name=f"run {number}", points=ALONE) for number in range(7)]
    found = replace_thin_figures(Section(id="s", title="s", charts=(chart(*runs),)))
    assert found.charts == ()
    assert found.notes[0].text.count("run ") == 5 and "and 2 more" in found.notes[0].text


def test_two_points_make_a_figure_of_one_line_or_of_two() -> None:
    for lines in (
        (Line(name="a", points=((1.0, 2.0), (2.0, 1.0))),),
        (Line(name="a", points=ALONE), Line(name="b", points=((2.0, 1.0),))),
    ):
        section = Section(id="s", title="s", charts=(chart(*lines),))
        assert replace_thin_figures(section) == section

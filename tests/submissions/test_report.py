"""Tables: numbers as people read them, whole names, no markup from foreign text."""

from pathlib import Path

import pytest
from changed_results import make_result

from submissions.cells import format_metric_value
from submissions.compliance_check import format_finding_line
from submissions.score.text_table import print_scores
from suite.result import Result


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (None, "minutes", "-"),
        (12.345, "minutes", "12.35 minutes"),
        (0.00123, "minutes", "0.0012 minutes"),
        (120572.0, "samples/s", "120,572 samples/s"),
        (93_512.0, "ns", "0.0935 ms"),
        (25_000_000.0, "ns", "25.00 ms"),
    ],
)
def test_values_keep_the_digits_that_matter(value: float | None, unit: str, text: str) -> None:
    assert format_metric_value(value, unit) == text


def row(**changes: object) -> Result:
    facts: dict[str, object] = {
        "org": "acme",
        "system": "host",
        "division": "open",
        "profile": "smoke",
        "round": "podium-v1",
        "workload": "resnet50",
        "scenario": None,
        "metric": "time_to_train",
        "value": 2.0,
        "unit": "minutes",
        "runs": (2.0,),
        "compliant": True,
    }
    return make_result(**{**facts, **changes})


def test_a_table_in_a_pipe_cuts_no_name(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    print_scores(
        [row(system="8c-some-processor-with-a-name-2.70ghz-torch-fp32", scenario="Server")], []
    )
    assert "8c-some-processor-with-a-name-2.70ghz-torch-fp32" in capsys.readouterr().out


def test_an_organisation_named_like_markup_stays_text(capsys: pytest.CaptureFixture[str]) -> None:
    print_scores([row(org="[red]x[/red]")], [])
    assert "[red]x[/red]" in capsys.readouterr().out


def test_what_does_not_count_is_marked(capsys: pytest.CaptureFixture[str]) -> None:
    print_scores([row(compliant=False, value=None)], [Path("my results")])
    told = capsys.readouterr().out
    assert (
        " no\n" in told
        and "1 result, 0 compliant; for the reasons: podium check 'my results'" in told
    )


def test_the_scores_of_a_whole_campaign_fit_eighty_columns(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """On an ordinary terminal the table read `workl...`, `resne...`, and named neither percentile
    nor accuracy.
    """
    box = {"accuracy": {"bbox": 0.3791, "segm": 0.3402}, "target": {"bbox": 0.377, "segm": 0.339}}
    latency = {
        "metric": "latency_p97",
        "unit": "ns",
        "value": 123_456_789_000.0,
        "scenario": "SingleStream",
        "workload": "transformer",
    }
    print_scores(
        [
            row(workload="maskrcnn", runs=(1.0,) * 10, **box),
            row(**latency, system="other", accuracy={"bleu": 24.96}, target={"bleu": 24.75}),
        ],
        [],
    )
    told = capsys.readouterr().out
    assert max(map(len, told.splitlines())) <= 80
    pieces = [
        "training \u00d710",
        "time to train",
        "0.3791/0.3770 bbox",
        "0.3402/0.3390 segm",
        "p97 latency",
        "24.96/24.75 bleu",
        "2 results, 2 compliant",
    ]
    assert [piece for piece in pieces if piece not in told] == []
    assert told.count("podium-v1 smoke, open division, acme") == 2


def test_a_finding_is_one_line_with_place_rule_and_advice(objection: object) -> None:
    assert (
        format_finding_line(objection)
        == "result_0.txt:7: training.target: found 0.7; expected 0.759; train on"
    )  # type: ignore[arg-type]

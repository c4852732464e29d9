"""Results of the translation workloads: answers of many lengths, scored from tokens, references and
vocabulary alone, compared as translations.
"""

import random
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import making
import pytest
from making import Subject, changed
from system_records import put_system

from compliance.judge import Judge
from compliance.verdict import Severity
from suite.files.layout import ACCURACY_LOG
from suite.loadgen.scenario import Scenario
from suite.terms import Profile
from workloads.common.text import references
from workloads.common.text.token_answers import pack_token_ids
from workloads.gnmt import scoring as gnmt
from workloads.transformer import scoring as transformer
from workloads.transformer import subwords

Spoil = Callable[[Path], None]
DRAW = random.Random(3)
WORDS = sorted(
    {"".join(DRAW.choices("bdfglmn", k=3)) + vowel for vowel in "aeiou" for _ in range(6)}
)
PINNED = "accuracy.pinned"
"""The embedded text's own hash; here stand other sentences, which are made in no time."""


def lines(workload: str) -> list[str]:
    """As many sentences as the embedded set has."""
    count = making.ROUND.benchmark(workload).inference[Profile.SMOKE].accuracy_samples or 0
    return [" ".join([*DRAW.choices(WORDS, k=DRAW.randint(5, 20)), "."]) for _ in range(count)]


def gnmt_subject(folder: Path) -> Subject:
    """Answers by pieces of words."""
    texts, tokens = lines("gnmt"), [*gnmt.GNMT_SPECIAL_TOKENS, *WORDS, "."]

    def write(folder: Path) -> None:
        references.write_references(folder, texts)
        gnmt.write_gnmt_vocabulary(folder, tokens)

    answers = [
        pack_token_ids([*map(tokens.index, answered(text)), gnmt.GNMT_END_ID]) for text in texts
    ]
    write(folder)
    return Subject(
        workload="gnmt",
        metric="bleu",
        served=gnmt.score(dict(enumerate(answers)), folder)["bleu"],
        answers=answers,
        write_truth=write,
    )


def transformer_subject(folder: Path) -> Subject:
    """The same by subtokens."""
    texts = lines("transformer")
    words = subwords.build_subtoken_vocabulary(texts, 100)
    write = partial(transformer.write_transformer_truth, reference_texts=texts, words=words)
    answers = [
        pack_token_ids([*words.encode_text(" ".join(answered(text))), subwords.EOS_ID])
        for text in texts
    ]
    write(folder)
    served = transformer.score(dict(enumerate(answers)), folder)["bleu"]
    return Subject(
        workload="transformer", metric="bleu", served=served, answers=answers, write_truth=write
    )


def answered(text: str) -> list[str]:
    """The words of a reference, the first two of each sentence turned about: good, and not
    perfect.
    """
    first, second, *rest = text.split()
    return [second, first, *rest]


SUBJECTS = {"gnmt": gnmt_subject, "transformer": transformer_subject}


@pytest.fixture(scope="module", params=list(SUBJECTS))
def subject(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Subject:
    made: Subject = SUBJECTS[request.param](tmp_path_factory.mktemp("truth"))
    return made


@pytest.fixture
def tree(subject: Subject, tmp_path: Path) -> Path:
    """A campaign that served Offline and SingleStream."""
    return making.write_tree(
        tmp_path / "results", Scenario.OFFLINE, Scenario.SINGLE_STREAM, subject=subject
    )


def errors(tree: Path) -> set[str]:
    return {
        finding.rule
        for finding in Judge().judge_path(str(tree)).findings
        if finding.severity is Severity.ERROR
    }


def edited(pattern: str, change: Callable[[bytes], bytes], sample: int | None = None) -> Spoil:
    """Change the answer to a sample in each accuracy log; without one, the first that stands
    there.
    """

    def spoil(tree: Path) -> None:
        for path in tree.rglob(f"{pattern}/{ACCURACY_LOG}"):
            rows = path.read_text().splitlines(keepends=True)
            for place, row in enumerate(rows):
                if f'"qsl_idx" : {sample},' in row or (sample is None and place == 1):
                    before, answer, after = row.rsplit('"', 2)
                    rows[place] = f'{before}"{change(bytes.fromhex(answer)).hex().upper()}"{after}'
            path.write_text("".join(rows))

    return spoil


def other_word(answer: bytes) -> bytes:
    """The first token replaced."""
    return pack_token_ids([7 if answer[:4] != pack_token_ids([7]) else 8]) + answer[4:]


def beginning(answer: bytes) -> bytes:
    """The first third of the tokens."""
    return answer[: len(answer) // 12 * 4]


def swapped(name: str) -> Spoil:
    """Two lines of the truth change places."""

    def spoil(tree: Path) -> None:
        (path,) = tree.rglob(f"truth/*/{name}")
        *rest, last, end = path.read_bytes().split(b"\n")
        path.write_bytes(b"\n".join([*rest[:-1], last, rest[-1], end]))

    return spoil


def in_log(old: str, new: str) -> Spoil:
    def spoil(tree: Path) -> None:
        (path,) = tree.rglob("result_0.txt")
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))

    return spoil


def test_a_whole_result_is_accepted(tree: Path) -> None:
    """Row, schema, scorer and record fit one another; only the text is not the embedded one."""
    assert errors(tree) == {PINNED}


def test_a_near_tie_of_a_performance_run_is_accepted(tree: Path) -> None:
    """Where two words are nearly as likely, the batch's size decides."""
    edited("performance/run_1", other_word)(tree)
    assert errors(tree) == {PINNED}


@pytest.mark.parametrize(
    ("spoil", "rule"),
    [
        (edited("performance/run_1", lambda answer: answer[::-1]), "answers.same"),
        (edited("performance/run_1", beginning), "answers.same"),
        (edited("accuracy", beginning, sample=3), "accuracy.score"),
        (edited("accuracy", lambda answer: answer[:-1], sample=3), "accuracy.score"),
        (edited("accuracy", other_word, sample=3), "accuracy.score"),
        (swapped(references.REFERENCES_FILE), "accuracy.score"),
        (swapped(gnmt.GNMT_VOCABULARY_FILE), "accuracy.truth"),
        (
            in_log(
                '"key": "reference_accuracy", "value": {"bleu": 0.',
                '"key": "reference_accuracy", "value": {"bleu": 80.',
            ),
            "set.schema",
        ),
        (
            in_log(
                '"key": "eval_accuracy", "value": 0.875', '"key": "eval_accuracy", "value": 81.0'
            ),
            "set.schema",
        ),
        (
            in_log(
                '"key": "eval_accuracy", "value": 0.875', '"key": "eval_accuracy", "value": 0.21'
            ),
            "training.target",
        ),
    ],
)
def test_what_is_no_result_is_found(tree: Path, spoil: Spoil, rule: str) -> None:
    """Answers of another model, cut or misshapen ones, tokens that there are not, another truth,
    BLEU in percent, a missed target.
    """
    spoil(tree)
    assert rule in errors(tree)


def test_hyper_parameters_are_those_of_the_record(tree: Path) -> None:
    """Whoever trained with another batch cannot say so in one place alone."""
    for path in tree.rglob("system.json"):
        put_system(settings__global_batch_size=7)(path)
    assert "entry.agreement" in errors(tree)


def rules_of(tmp_path: Path, subject: Subject, changes: Mapping[str, Any]) -> set[str]:
    """The rules that a closed log breaks whose settings are changed; None: left out."""
    events = making.training_events(0, Profile.FULL, scores=(0.2, 0.26), subject=subject)
    told = next(event.value for event in events if event.key == "settings") | changes
    told = {key: value for key, value in told.items() if value is not None}
    path = making.write_log(tmp_path / "result_0.txt", changed(events, "settings", value=told))
    return {finding.rule for finding in Judge().judge_path(str(path)).findings}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("model.layers", 2),
        ("model.dropout", 0.0),
        ("loss.label_smoothing", 0.3),
        ("model.width", "1024"),
    ],
)
def test_the_closed_division_fixes_settings_that_are_no_hyper_parameters(
    tmp_path: Path, subject: Subject, key: str, value: object
) -> None:
    """A smaller network reaches no closed result, nor does a log that does not tell its size."""
    found = rules_of(tmp_path, subject, {})
    assert not found & {"training.legality", "training.settings"}
    assert rules_of(tmp_path, subject, {key: value}) - found == {"training.legality"}
    assert rules_of(tmp_path, subject, {key: None}) - found == {"training.settings"}


@pytest.mark.parametrize(
    ("found", "accepted"),
    [
        ("fewest", True),
        ("most", True),
        (3003, False),
        (None, False),
        ("4068191", False),
        (True, False),
    ],
)
def test_the_closed_division_is_trained_on_its_own_corpus(
    tmp_path: Path, subject: Subject, found: object, accepted: bool
) -> None:
    """Pairs before the limit of length, which is free: the sentences of the test alone would be a
    closed run set otherwise.
    """
    fewest, most = subject.row.training[Profile.FULL].collect_sample_limits()["corpus_samples"]
    events = making.training_events(0, Profile.FULL, scores=(0.26,), subject=subject)
    value = {"fewest": fewest, "most": most}.get(str(found), found)
    told = (
        [event for event in events if event.key != "corpus_samples"]
        if value is None
        else changed(events, "corpus_samples", value=value)
    )
    rules = {
        finding.rule
        for finding in (
            Judge().judge_path(str(making.write_log(tmp_path / "result_0.txt", told))).findings
        )
    }
    assert ("training.samples" not in rules) is accepted

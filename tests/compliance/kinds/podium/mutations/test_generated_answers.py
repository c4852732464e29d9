"""What somebody might do to a campaign of Llama so that it tells of a better one: another tokenizer
or checkpoint, another target, a lower loss, more samples.
"""

import json
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import pytest
from making import write_tree
from making_llama import build_llama_subject
from spoiling import SRV, put, swap

from compliance.judge import Judge
from suite.files.layout import (
    ACCURACY_LOG,
    ACCURACY_TEXT,
    compute_file_sha256,
    compute_folder_sha256,
)
from suite.files.tokenizer_files import TOKENIZER_FILE
from workloads.common.text.token_answers import pack_token_ids, unpack_token_ids
from workloads.llama.published.summaries import write_summaries
from workloads.llama.scoring import score_answers
from workloads.llama.vocabulary import (
    END_ID,
    SPECIAL_TOKENS,
    encode_text,
    format_tokenizer,
    list_tokens,
)

Forgery = Callable[[Path], None]
LOG: Final = "open/acme/results/*/llama31_8b/result_0.txt"
ACCURACY: Final = f"open/acme/results/*/*/*/accuracy/{ACCURACY_LOG}"
DATA: Final = re.compile(r'(data" : ")([0-9A-F]+)"')
WORDS: Final = range(len(SPECIAL_TOKENS), len(list_tokens()))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A campaign that served Server."""
    root = tmp_path_factory.mktemp("served") / "results"
    write_tree(root, SRV, subject=build_llama_subject())
    assert Judge().judge_path(str(root)).findings == ()
    return root


@pytest.fixture
def tree(served: Path, tmp_path: Path) -> Path:
    """A copy of it, to be forged."""
    return Path(shutil.copytree(served, tmp_path / "results"))


def turn_token(number: int) -> int:
    """The id of a token in a tokenizer that numbers words from the last to the first."""
    return WORDS[-1] - (number - WORDS[0]) if number in WORDS else number


def turn_answers(text: str) -> str:
    """An accuracy log in the ids of that tokenizer."""

    def turn(found: re.Match[str]) -> str:
        ids = unpack_token_ids(bytes.fromhex(found[2]))
        return f'{found[1]}{pack_token_ids([*map(turn_token, ids)]).hex().upper()}"'

    return DATA.sub(turn, text)


def answer_with_another_tokenizer(tree: Path) -> None:
    """All answers in the ids of another tokenizer."""
    for path in tree.rglob(ACCURACY_LOG):
        path.write_text(turn_answers(path.read_text()))
    hash_answers(tree)


def hash_answers(tree: Path) -> None:
    """The accuracy run's hash, written anew."""
    (log,) = tree.glob(ACCURACY)
    text = log.with_name(ACCURACY_TEXT)
    text.write_text(re.sub(r"hash=[0-9a-f]+", f"hash={compute_file_sha256(log)}", text.read_text()))


def pack_another_tokenizer(tree: Path) -> None:
    """The same, with that tokenizer among the truth, which then gives the right texts."""
    answer_with_another_tokenizer(tree)
    (truth,) = tree.glob("open/acme/truth/llama")
    summaries = (truth / "references.txt").read_text().splitlines()
    (truth / "references.txt").unlink()
    write_another_tokenizer(truth)
    write_summaries(truth, summaries)
    for path in tree.glob("open/acme/measurements/**/*.json"):
        put(truth_sha256=compute_folder_sha256(truth))(path)


def write_another_tokenizer(folder: Path) -> None:
    """Write the tokenizer that numbers words from the last to the first."""
    document = json.loads(format_tokenizer())
    vocabulary = document["model"]["vocab"]
    document["model"]["vocab"] = {word: turn_token(place) for word, place in vocabulary.items()}
    (folder / TOKENIZER_FILE).write_text(json.dumps(document))


def exchange_the_checkpoint_tokenizer(tree: Path) -> None:
    """The ids of another tokenizer, which lies where the checkpoint's own was exported to."""
    answer_with_another_tokenizer(tree)
    write_another_tokenizer(next(tree.glob("checkpoints/llama/*")))


def answer_by_another_checkpoint(tree: Path) -> None:
    """The accuracy log of a checkpoint that answers everything rightly, with its scores."""
    (log,) = tree.glob(ACCURACY)
    lines = (tree / "open/acme/truth/llama/references.txt").read_text().splitlines()
    answers = [pack_token_ids([*encode_text(line), END_ID]) for line in lines]
    write_accuracy(log, tree / "open/acme/truth/llama", answers)


def write_accuracy(log: Path, truth: Path, answers: Sequence[bytes]) -> None:
    """Write an accuracy log with other answers, and the scores that they give."""

    def change(found: re.Match[str]) -> str:
        answer = answers[int(found[1])]
        return (
            f'"qsl_idx" : {found[1]}, "data" : "{answer.hex().upper()}", "token_data" :'
            f' "{answer[:4].hex().upper()}", "token_count" : {len(answer) // 4}'
        )

    form = (
        r'"qsl_idx" : (\d+), "data" : "[0-9A-F]+", "token_data" : "[0-9A-F]+", "token_count" : \d+'
    )
    log.write_text(re.sub(form, change, log.read_text()))
    scores = score_answers(dict(enumerate(answers)), truth)
    sha256 = compute_file_sha256(log)
    log.with_name(ACCURACY_TEXT).write_text(
        "".join(f"{metric}={score:.6f}, hash={sha256}\n" for metric, score in scores.items())
    )


def in_log(old: str, new: str) -> Forgery:
    """Change the training log."""
    return lambda tree: swap(old, new)(next(tree.glob(LOG)))


FORGED: list[tuple[str, Forgery, str, str]] = [
    (
        "other ids in all answers",
        answer_with_another_tokenizer,
        "accuracy.score",
        "rouge1=0.939811",
    ),
    ("another tokenizer in the truth", pack_another_tokenizer, "accuracy.pinned", "SHA-256 "),
    (
        "another tokenizer in the checkpoint",
        exchange_the_checkpoint_tokenizer,
        "checkpoint.weights",
        "weights with SHA-256 ",
    ),
    (
        "the target of MLPerf's v5.1",
        in_log(
            '"quality_target", "value": {"loss": 1.068}', '"quality_target", "value": {"loss": 3.3}'
        ),
        "training.quality_target",
        "{'loss': 3.3}",
    ),
    (
        "a run that ends at that target",
        in_log('"eval_accuracy", "value": 1.0625', '"eval_accuracy", "value": 3.25'),
        "training.target",
        "status success, but the last evaluation has loss 3.25",
    ),
    (
        "a lower loss at the end",
        in_log('"eval_accuracy", "value": 1.0625', '"eval_accuracy", "value": 1.05'),
        "checkpoint.record",
        "scores {'loss': 1.0625}",
    ),
    (
        "a lower loss before the end",
        in_log('"eval_accuracy", "value": 1.5', '"eval_accuracy", "value": 1.06'),
        "training.stopped",
        "a run that continued after it reached the target in epoch 2",
    ),
    (
        "a loss below 0, beside the target",
        in_log('"eval_accuracy", "value": 1.0625', '"eval_accuracy", "value": -1.0625'),
        "training.target",
        "status success, but the last evaluation has loss -1.0625",
    ),
    (
        "a loss below 0",
        in_log('"eval_accuracy", "value": 1.0625', '"eval_accuracy", "value": -1.0625'),
        "training.accuracy",
        "loss is -1.0625",
    ),
    (
        "a loss that no model has",
        in_log("1.0625", "1.025"),
        "training.stats",
        "loss 1.025 in epoch 6",
    ),
    (
        "fewer samples",
        in_log('"samples_count": 18432', '"samples_count": 15360'),
        "training.epochs",
        "with samples_count 15360 after 6 epochs",
    ),
    (
        "another checkpoint's accuracy log",
        answer_by_another_checkpoint,
        "accuracy.excess",
        "rouge1 1",
    ),
]


@pytest.mark.parametrize(
    ("forge", "rule", "told"),
    [pytest.param(*each[1:], id=each[0].replace(" ", "_")) for each in FORGED],
)
def test_a_forged_campaign_is_found(tree: Path, forge: Forgery, rule: str, told: str) -> None:
    """By the rule that is there for it, in a sentence that says what is wrong."""
    forge(tree)
    findings = Judge().judge_path(str(tree)).findings
    assert any(each.rule == rule and told in each.found for each in findings)

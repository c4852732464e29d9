"""Examples of the rules about generated answers: what Llama's Server and SingleStream write, and a
campaign of Server.
"""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy
from making import load_of, write_run, write_tree
from making_llama import build_llama_subject
from making_logprobs import write_log_probabilities
from spoiling import SINGLE, SRV, Builder, first_answer, set_value, then, value_in
from system_records import put_system

from suite.files.layout import ACCURACY_LOG, DETAIL_LOG, LOGPROB_FILE, TOKEN_RECORD_FILE
from suite.files.tokenizer_files import TOKENIZER_FILE
from suite.loadgen.headline import FIRST_TOKEN_KEY
from suite.loadgen.scenario import Scenario
from workloads.llama.vocabulary import format_tokenizer

Table = numpy.ndarray[Any, Any]
LOG, TOKENS = f"**/{DETAIL_LOG}", f"**/{TOKEN_RECORD_FILE}"
BOUND_KEY: Final = "requested_server_ttft_latency"
TOKENS_PER_SECOND_KEY: Final = "result_completed_tokens_per_second"


def write_generated(scenario: Scenario) -> Builder:
    """One performance run that keeps all rules."""
    return lambda folder: write_run(
        folder / scenario.folder / "performance" / "run_1",
        load_of(scenario, build_llama_subject()),
        "performance",
    )


def write_likely(error: float) -> Builder:
    """An accuracy run whose tokens are as likely as PyTorch finds them, but for errors of this
    standard deviation.
    """

    def write(folder: Path) -> None:
        place = folder / Scenario.OFFLINE.folder / "accuracy"
        write_run(place, load_of(Scenario.OFFLINE, build_llama_subject()), "accuracy")
        write_log_probabilities(place, error)

    return write


def write_server_tree(folder: Path) -> None:
    """A campaign that served Server."""
    write_tree(folder, SRV, subject=build_llama_subject())


def write_other_tokenizer(folder: Path) -> None:
    """The campaign as one of profile full, with a tokenizer of its own in the truth."""
    write_server_tree(folder)
    (folder / "open/acme/truth/llama" / TOKENIZER_FILE).write_text(format_tokenizer())
    for path in folder.glob("open/acme/results/*/*/*/system.json"):
        put_system(profile="full")(path)


def edit_table(change: Callable[[Table], Table]) -> Callable[[Path], None]:
    """Change the rows of tokens.npy."""
    return lambda path: numpy.save(path, change(numpy.load(path)))


def later(table: Table) -> Table:
    """First tokens that come 10 ms before the last ones, whatever LoadGen measured."""
    table[:, 1] = table[:, 2] - 10_000_000 * (table[:, 3] - 1)
    return table


def raise_bound(path: Path) -> None:
    """A bound of first tokens ten times as high as the row's."""
    set_value(path, BOUND_KEY, 10 * value_in(path, BOUND_KEY))


def measured_too_late(path: Path) -> None:
    """A first token after the bound, as LoadGen measured it."""
    set_value(path, FIRST_TOKEN_KEY.format(90.0), value_in(path, BOUND_KEY) + 1)


def count_one_more(line: str) -> str:
    """A line of the accuracy log that states one token more than its answer has."""
    return re.sub(
        r'"token_count" : (\d+)', lambda found: f'"token_count" : {int(found[1]) + 1}', line
    )


def cut_last_token(line: str) -> str:
    """A line whose answer lacks its last token, and that states so."""
    document = json.loads(line.rstrip().rstrip(","))
    short = line.replace(document["data"], document["data"][:-8], 1)
    count = document["token_count"]
    return short.replace(f'"token_count" : {count}', f'"token_count" : {count - 1}')


def pad_answer(line: str) -> str:
    """A line whose answer has a token behind its end, and that states so."""
    document = json.loads(line.rstrip().rstrip(","))
    long = line.replace(document["data"], document["data"] + "0B000000", 1)
    count = document["token_count"]
    return long.replace(f'"token_count" : {count}', f'"token_count" : {count + 1}')


def multiply_tokens(times: float) -> Callable[[Path], None]:
    """Multiply all token counts in tokens.npy, and LoadGen's rate of tokens with them."""

    def edit(path: Path) -> None:
        table = numpy.load(path)
        before = table[:, 3].sum()
        table[:, 3] = numpy.maximum(1, numpy.round(times * table[:, 3]))
        numpy.save(path, table)
        log, share = path.with_name(DETAIL_LOG), table[:, 3].sum() / before
        rate = value_in(log, TOKENS_PER_SECOND_KEY)
        set_value(log, TOKENS_PER_SECOND_KEY, float(f"{share * rate:.6g}"))

    return edit


BASES: Final[Mapping[str, Builder]] = {
    "generated": write_generated(SRV),
    "generated-single-stream": write_generated(SINGLE),
    "likely": write_likely(1e-6),
}
KINDS: Final = {"tokens": "generated"}
VALID: Final[Mapping[str, str | Builder]] = {
    "tokens.times": "generated-single-stream",
    "tokens.total": "audited-tokens",
    "answers.likelihoods": "likely",
    "answers.network": "likely",
    "accuracy.truth_files": "audited-tokens",
}
INVALID: Final[Mapping[str, Builder]] = {
    "answers.network": write_likely(2.0),
    "answers.likelihoods": then(
        write_likely(1e-6), f"**/{LOGPROB_FILE}", edit_table(lambda table: table[1:])
    ),
    "tokens.settings": then(write_generated(SRV), LOG, raise_bound),
    "tokens.bounds": then(write_generated(SRV), LOG, measured_too_late),
    "tokens.logged": then(write_generated(SRV), f"**/{ACCURACY_LOG}", first_answer(count_one_more)),
    "tokens.lengths": then(
        write_generated(SRV), f"**/{ACCURACY_LOG}", first_answer(cut_last_token)
    ),
    "tokens.behind_end": then(write_generated(SRV), f"**/{ACCURACY_LOG}", first_answer(pad_answer)),
    "tokens.total": then(write_server_tree, TOKENS, multiply_tokens(2)),
    "tokens.count": then(write_generated(SRV), TOKENS, edit_table(lambda table: table[:-1])),
    "accuracy.truth_files": write_other_tokenizer,
    "tokens.times": then(write_generated(SINGLE), TOKENS, edit_table(later)),
}

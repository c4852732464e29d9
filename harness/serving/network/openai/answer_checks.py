"""What the judge would not take of an answer, said as soon as it is seen: in the first answer,
before anything counts, or later in a run, which then ends.
"""

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from harness.serving.network.openai.answer_reader import ReadAnswer, UnfitAnswerError
from harness.serving.network.openai.answer_tokens import AnswerCounter
from suite.audits.tokens import LoggedTokens
from suite.errors import JudgedError
from suite.loadgen.logprob_record import SaidAnswer
from suite.loadgen.token_record import (
    TOKEN_BYTES,
    TOKEN_COUNT_TOLERANCE,
    is_token_count_credible,
)
from suite.loadgen.usage_record import NOT_STATED

NOTHING_COUNTS: Final = "nothing of that run counts"
MAX_FINGERPRINTS: Final = 16
"""House rule: that are counted apart; a server that makes a new one for each answer has none."""
OTHER_FINGERPRINTS: Final = "others"


@dataclass(slots=True)
class AnswerTotals:
    """What was counted of all answers."""

    logged: int = 0
    """Tokens that LoadGen was told."""
    recounted: int = 0
    """Tokens by the checkpoint's tokenizer."""
    differing: int = 0
    """Answers of another number of tokens, or that begin otherwise, than LoadGen was told."""
    in_one_read: int = 0
    """Answers of several tokens, all of which one read of the connection brought."""
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    """Tokens of prompts, and of those in a cache, where the servers state them."""
    fingerprints: dict[str, int] = field(default_factory=dict)
    """What answers say of the system behind them -> how many say it."""

    def add_usage(self, answer: ReadAnswer) -> None:
        """Add what the server counts of a prompt."""
        if answer.prompt_tokens != NOT_STATED:
            self.prompt_tokens = (self.prompt_tokens or 0) + answer.prompt_tokens
        if answer.cached_tokens != NOT_STATED:
            self.cached_tokens = (self.cached_tokens or 0) + answer.cached_tokens

    @property
    def has_usage(self) -> bool:
        """Whether a server has stated something of its prompts."""
        return self.prompt_tokens is not None or self.cached_tokens is not None

    def add_fingerprint(self, said: str) -> None:
        """Count what an answer says of the system behind it; nothing if it says nothing."""
        if not said:
            return
        if said not in self.fingerprints and len(self.fingerprints) >= MAX_FINGERPRINTS:
            said = OTHER_FINGERPRINTS
        self.fingerprints[said] = self.fingerprints.get(said, 0) + 1


def encode_fit_answer(
    tokenizer: AnswerCounter, answer: ReadAnswer, speed_alone: bool = False
) -> "array[int]":
    """Return an answer's token ids; UnfitAnswerError for one that the accuracy log cannot hold.
    Where speed alone is measured, reasoning is a part of the answer.
    """
    if speed_alone:
        return encode_whole_answer(tokenizer, answer)
    tokens = tokenizer.encode_answer(answer.text, answer.ended)
    if answer.hidden or answer.reasoning:
        raise build_reasoning_error(tokenizer, answer, len(tokens))
    if shown := tokenizer.find_end_text(tokens, answer.ended):
        raise UnfitAnswerError(f"the server sends {shown} as text (skip_special_tokens)")
    return tokens


def encode_whole_answer(tokenizer: AnswerCounter, answer: ReadAnswer) -> "array[int]":
    """Return the token ids of an answer and its reasoning; UnfitAnswerError if nobody counts its
    tokens.
    """
    if not tokenizer.recounts and not answer.counted:
        raise UnfitAnswerError(
            "the server counts no tokens (`usage`), and there is no tokenizer here: name the"
            " model's tokenizer.json with --tokenizer"
        )
    return tokenizer.encode_answer("".join(answer.hidden) + answer.text, answer.ended)


def build_reasoning_error(
    tokenizer: AnswerCounter, answer: ReadAnswer, others: int
) -> UnfitAnswerError:
    """Build the error of an answer with reasoning, which `others` tokens are not."""
    hidden = answer.reasoning or len(tokenizer.encode_answer("".join(answer.hidden), False))
    whole = max(answer.counted, hidden + others)
    if not answer.content:
        return UnfitAnswerError(
            f"all {hidden:,} tokens of an answer were reasoning, which the round's accuracy log"
            " cannot hold: turn it off"
        )
    return UnfitAnswerError(
        f"answers have reasoning ({hidden:,} of {whole:,} tokens), which the round's accuracy log"
        " cannot hold: turn it off"
    )


def build_said_answer(
    tokenizer: AnswerCounter, answer: ReadAnswer, tokens: "array[int]"
) -> SaidAnswer | None:
    """Return how likely a server found the tokens of an answer, up to the first that is another
    one in the log, since a text may have been generated in other pieces than the tokenizer's. None
    without any, and if a server that does not name its tokens counts others.

    Args:
        tokenizer: that made `tokens`.
        answer: of a server; of the token that ends it nothing may be told.
        tokens: of the answer in the log.
    """
    told, texts = answer.log_probabilities, answer.likely_texts
    is_complete = 0 <= len(tokens) - len(told) <= answer.ended
    if not tokenizer.recounts or not (is_complete or any(texts)):
        return None
    same = len(told)
    if any(texts):
        named = len(tokens) - (is_complete and answer.ended)
        pairs = enumerate(zip(tokens[:named], texts, strict=False))
        others = (place for place, each in pairs if not tokenizer.may_name_token(*each))
        same = next(others, len(told) if is_complete else min(named, len(told)))
    return SaidAnswer(values=told[:same], prompt_tokens=answer.prompt_tokens) if same else None


def check_counted_tokens(totals: AnswerTotals, answers: int) -> None:
    """JudgedError if LoadGen was told other numbers of tokens than the answers' texts have."""
    check_token_totals(totals.logged, totals.recounted, answers, "answers")


def compare_logged_counts(logged: Iterable[LoggedTokens]) -> None:
    """The same of the answers that LoadGen logged, which the judge counts by themselves."""
    told = held = answers = 0
    for each in logged:
        if each.count is not None:
            told, held = told + each.count, held + len(each.answer) // TOKEN_BYTES
            answers += 1
    check_token_totals(told, held, answers, "logged answers")


def check_token_totals(told: int, recounted: int, answers: int, what: str) -> None:
    """JudgedError if servers count otherwise than the judge would allow."""
    if not is_token_count_credible(told, recounted, answers):
        raise JudgedError(
            f"the servers count {told:,} tokens in {answers:,} {what} whose texts have"
            f" {recounted:,}: more than one an answer and {TOKEN_COUNT_TOLERANCE:.0%} apart,"
            f" so the `usage` or the tokenizer (endpoint.tokenizer) is wrong; {NOTHING_COUNTS}"
        )

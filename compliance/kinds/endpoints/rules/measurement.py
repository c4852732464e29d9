"""Compare a run with the accuracy run of the same system and benchmark."""

from collections.abc import Iterator
from typing import Final

from compliance.kinds.endpoints.documents.accuracy import AccuracyScore
from compliance.kinds.endpoints.documents.measurement import EndpointsMeasurement
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity

USUAL_CHARACTERS: Final = (2.0, 8.0)
"""Characters of a token on average."""
MAX_TOKEN_SPEEDUP: Final = 3.0
"""How many times as fast as the performance run an accuracy run may be, in tokens ..."""
MAX_ANSWER_SPEEDUP: Final = 10.0
"""... and in answers, which may be shorter in another data set."""


@rule("endpoints.characters", EndpointsMeasurement, About.QUALITY, doubt="how long the answers are")
def characters(measured: EndpointsMeasurement) -> Iterator[Fault]:
    """Answers of the performance run have no more tokens than those of the accuracy run have
    characters. Fewer than two or more than eight characters per token are a warning.

    Source: arithmetic; 22 published language results of LoadGen (v5.1 and v6.0) have 3.9 to 4.8
    characters per token.
    Advice: let both runs answer alike, with one limit of tokens, and count tokens with the model's
    tokenizer.
    """
    if measured.accuracy is None or measured.run.summary is None:
        return
    letters = measured.accuracy.compute_mean_characters()
    tokens = measured.run.summary.output_sequence_lengths.avg
    if not letters or not tokens:
        return
    least, most = USUAL_CHARACTERS
    if not least <= letters / tokens <= most:
        yield measured.build_fault(
            f"answers of {tokens:.6g} tokens",
            f"{least:g} to {most:g} characters per token of the accuracy run's {letters:.6g}",
            severity=Severity.WARNING if letters >= tokens else None,
        )


@rule("endpoints.accuracy_time", EndpointsMeasurement, About.QUALITY, severity=Severity.WARNING)
def accuracy_time(measured: EndpointsMeasurement) -> Iterator[Fault]:
    """An accuracy run is at most three times as fast as the performance run of the same system, in
    tokens per second where both count them, and ten times in answers where they do not. A point of
    a curve with fewer requests in flight than the system supports may be faster by that ratio.

    Source: mlcommons/endpoints, accuracy_results.json: duration_s, the time in which the data set
    was issued and answered; 0 if it was not timed. Accuracy runs of 12 published entries of
    Inference v6.1 are at most 1.01 times as fast: the client issues both in one way.
    Advice: put the files of one accuracy run here, and explain why it was so fast.
    """
    if measured.accuracy is None:
        return
    for score in measured.accuracy.list_scores():
        yield from check_accuracy_rate(measured, score)


def check_accuracy_rate(measured: EndpointsMeasurement, score: AccuracyScore) -> Iterator[Fault]:
    """Yield the rate of one data set's accuracy run, if it is too high."""
    summary, seconds = measured.run.summary, score.seconds
    if summary is None or not seconds or seconds < 0 or measured.accuracy is None:
        return
    tokens, usual_tokens = score.lengths.total, summary.tokens_per_s
    if tokens and usual_tokens:
        amount, usual, unit = float(tokens), usual_tokens, "tokens"
        limit = MAX_TOKEN_SPEEDUP * measured.concurrency_factor
    else:
        amount, unit = float(score.total_samples or 0), "answers"
        usual = summary.queries_per_s or 0.0
        limit = MAX_ANSWER_SPEEDUP * measured.concurrency_factor
    if usual > 0 and amount / seconds > limit * usual:
        yield measured.accuracy.build_fault(
            f"{score.dataset_name}: {amount:g} {unit} in {seconds:g} s",
            f"at most {limit * usual:.6g} {unit}/s, by the {usual:.6g} of the performance run",
        )


@rule("endpoints.token_limit", EndpointsMeasurement, About.RULES, severity=Severity.WARNING)
def token_limit(measured: EndpointsMeasurement) -> Iterator[Fault]:
    """A run allows its answers no more tokens than the benchmark's reference does.

    Source: mlcommons/inference and mlcommons/endpoints, the benchmark's example: the row names it.
    No published result has such a row's benchmark with this client.
    Advice: set max_new_tokens as in the benchmark's reference.
    """
    config, most = measured.run.config, measured.most_tokens
    if config is None or measured.run.config_source is None or most is None:
        return
    allowed = config.find_number("model_params", "max_new_tokens")
    if allowed is not None and allowed > most:
        yield measured.build_fault(
            f"max_new_tokens {allowed:g}",
            f"at most {most}, as in the benchmark's reference",
            file=measured.run.config_source.path,
        )

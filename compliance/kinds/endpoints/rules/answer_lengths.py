"""Compare the lengths of a run's answers with what its configuration allows."""

from collections.abc import Iterator
from typing import Final

from compliance.kinds.endpoints.documents.run import EndpointsRun
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity

LENGTH_REASON: Final = "length"
MAX_LENGTH_FACTOR: Final = 1.25
"""Answers may be a few tokens longer or shorter than asked, since the client counts them again."""
FEW_TOKENS: Final = 8


@rule("endpoints.length_ends", EndpointsRun, About.QUALITY, severity=Severity.WARNING)
def length_ends(run: EndpointsRun) -> Iterator[Fault]:
    """Not all answers end because they may be no longer: a model that answers ends some by itself.

    Source: mlcommons/endpoints, finish_reason_counts; Endpoints rules, 9.2: reviewers look for
    padded answers.
    Advice: check max_new_tokens, and that the system stops at the model's own end.
    """
    summary = run.summary
    reasons = (summary.finish_reason_counts if summary else None) or {}
    ended, by_length = sum(reasons.values()), reasons.get(LENGTH_REASON, 0)
    if not by_length or by_length < ended:
        return
    allowed = None
    if run.config:
        allowed = run.config.find_number("model_params", "max_new_tokens")
    shortest = None
    if summary:
        shortest = summary.output_sequence_lengths.min
    found = f"all {by_length} answers ended by their length"
    required = "answers that end by themselves"
    if allowed is not None and shortest is not None and shortest < allowed:
        found += f", with {shortest:g} tokens and more"
        required += f", or have {allowed:g} tokens"
    yield run.build_fault(found, required)


@rule("endpoints.longer_than_allowed", EndpointsRun, About.RULES, doubt="how many tokens count")
def longer_than_allowed(run: EndpointsRun) -> Iterator[Fault]:
    """No answer is longer than the run's configuration allows.

    Source: mlcommons/endpoints, model_params.max_new_tokens.
    Advice: check that the system keeps max_new_tokens, and that both count tokens alike.
    """
    allowed = None
    if run.config:
        allowed = run.config.find_number("model_params", "max_new_tokens")
    longest = None
    if run.summary:
        longest = run.summary.output_sequence_lengths.max
    if not allowed or longest is None or longest <= allowed:
        return
    yield run.build_fault(
        f"an answer of {longest:g} tokens",
        f"at most {allowed:g}, max_new_tokens",
        severity=None if longest > MAX_LENGTH_FACTOR * allowed else Severity.WARNING,
    )


@rule("endpoints.shorter_than_asked", EndpointsRun, About.RULES, doubt="how many tokens count")
def shorter_than_asked(run: EndpointsRun) -> Iterator[Fault]:
    """No answer is shorter than the run's configuration asks for. The rule skips runs with failed
    requests.

    Source: mlcommons/endpoints, model_params.min_new_tokens; 16 published entries of Inference
    v6.1 ask for 1 or state none.
    Advice: check that the system keeps min_new_tokens, and that both count tokens alike.
    """
    asked, shortest = None, None
    if run.config:
        asked = run.config.find_number("model_params", "min_new_tokens")
    if run.summary and not run.summary.n_samples_failed:
        shortest = run.summary.output_sequence_lengths.min
    if not asked or shortest is None or shortest >= asked:
        return
    near = shortest * MAX_LENGTH_FACTOR + FEW_TOKENS >= asked
    yield run.build_fault(
        f"an answer of {shortest:g} tokens",
        f"at least {asked:g}, min_new_tokens",
        severity=Severity.WARNING if near else None,
    )

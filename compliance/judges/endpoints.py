"""Judge a run folder of the MLPerf Endpoints client that belongs to no round."""

from collections.abc import Callable, Iterator
from functools import partial

from compliance.documents.endpoints.answers import TokenCounter
from compliance.documents.endpoints.run import EndpointsRun, read_endpoints_run
from compliance.judges.empty_path import describe_empty_target
from compliance.judges.recorder import ResultRecorder
from compliance.logs.source_file import ParseErrorKind, SourceFile
from compliance.recognition.path_kind import PathKind, RecognisedPath, find_endpoints_summary
from compliance.rules import judge_document
from compliance.verdict import Finding, ResultKind

ApplyRules = Callable[[object], Iterator[Finding]]


class EndpointsJudge:
    """Judges run folders by the rules that hold for any run of the client."""

    def __init__(self, round_name: str, counter: TokenCounter | None = None) -> None:
        self.counter = counter
        self.apply_rules: ApplyRules = partial(judge_document, round=round_name)
        self.recorder = ResultRecorder()

    def judge_target(self, target: RecognisedPath) -> Iterator[Finding]:
        """Apply the rules to a run folder; anything else is none of the client's."""
        summary = find_endpoints_summary(target.path)
        if target.kind is PathKind.ENDPOINTS_RUN and summary:
            run = read_endpoints_run(target.path, summary, counter=self.counter)
            yield from self.recorder.record_result(
                ResultKind.RUN,
                target.path,
                0,
                judge_endpoints_run(run, self.apply_rules),
                run.evidence,
            )
            return
        source = SourceFile(target.path)
        source.add_parse_error(ParseErrorKind.UNREADABLE, *describe_empty_target(target))
        yield from self.apply_rules(source)


def judge_endpoints_run(run: EndpointsRun, apply_rules: ApplyRules) -> Iterator[Finding]:
    """Judge a run, with the files that it was read from."""
    for source in run.sources:
        yield from apply_rules(source)
    yield from apply_rules(run)

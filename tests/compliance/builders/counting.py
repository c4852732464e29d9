"""Counts what a file's tests read again and again once."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from hashlib import sha256

import pytest

from compliance.kinds.inference_text.documents import reader
from compliance.kinds.inference_text.documents.top1 import Top1
from compliance.logs.loadgen import accuracy_counts, accuracy_log, sample_lists
from compliance.logs.loadgen.accuracy_counts import AnswerCounts
from compliance.logs.loadgen.accuracy_log import AnswerIndex
from compliance.logs.source_file import SourceFile


class Counts:
    """What was counted in accuracy logs without flaws, of their right answers, and in lists of
    loaded samples: most mutants have them unchanged.
    """

    def __init__(self) -> None:
        self.count, self.right, self.marked = (
            accuracy_counts.count_accuracy_answers,
            reader.count_correct_answers,
            cache(sample_lists.parse_sample_marks),
        )
        self.kept: dict[bytes, AnswerCounts] = {}
        self.found: dict[tuple[str, int], Top1 | None] = {}
        self.index = accuracy_log.index_accuracy_log
        self.indexed: dict[bytes, tuple[AnswerIndex, int]] = {}

    def read(self, source: SourceFile) -> AnswerCounts:
        """Count an accuracy log, once for all that are the same to the last byte."""
        content = sha256(source.path.read_bytes()).digest() if source.path.is_file() else b""
        if content in self.kept:
            source.leniency = accuracy_counts.ACCURACY_LENIENCY
            return replace(self.kept[content], path=source.path)
        tally = self.count(source)
        if content and not source.counts:
            self.kept[content] = tally
        return tally

    def answers(self, source: SourceFile) -> AnswerIndex:
        """Index the accuracy log of a podium run, once for all that are the same to the last
        byte.
        """
        content = sha256(source.path.read_bytes()).digest() if source.path.is_file() else b""
        if content in self.indexed:
            answers, source.lines = self.indexed[content]
            return replace(answers, path=source.path)
        answers = self.index(source)
        if content and not source.counts:
            self.indexed[content] = answers, source.lines
        return answers

    def top1(self, tally: AnswerCounts, truth: Sequence[int]) -> Top1 | None:
        """Count right answers once."""
        key = tally.sha256, id(truth)  # the judge keeps one list of labels
        if key not in self.found:
            self.found[key] = self.right(tally, truth)
        return self.found[key]

    def put_in(self, patch: pytest.MonkeyPatch) -> None:
        """Let the judge count through here."""
        patch.setattr(accuracy_counts, "count_accuracy_answers", self.read)
        patch.setattr(accuracy_log, "index_accuracy_log", self.answers)
        patch.setattr(reader, "count_correct_answers", self.top1)
        patch.setattr(sample_lists, "parse_sample_marks", self.marked)

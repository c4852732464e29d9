"""Recount a run of the Endpoints client from `events.jsonl`, in one pass and bounded memory.

Source: mlcommons/endpoints, src/inference_endpoint/metrics. A time to first token is the first
fragment's stamp minus the issue's, a latency is the completion's minus the issue's; only samples
issued while the client tracks performance count.
"""

import gzip
import hashlib
import os
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, BinaryIO, Final, cast

import msgspec

from compliance.kinds.endpoints.documents.answers import TokenCount, is_known_prompt, parse_answer
from compliance.logs.source_file import ParseErrorKind, SourceFile, format_excerpt
from compliance.token_counter import TokenCounter
from suite.files.untrusted_files import open_regular_file

MAX_EVENT_BYTES: Final = 1 << 26
"""Maximum length of a line."""
MAX_REMEMBERED_SAMPLES: Final = 1 << 21
"""Maximum number of samples whose identifiers are remembered."""
CHUNK_BYTES: Final = 1 << 20
EVENT_FILES: Final = ("events.jsonl", "events.jsonl.gz")
TRACKING_STARTED: Final = "session.start_performance_tracking"
TRACKING_STOPPED: Final = "session.stop_performance_tracking"
TRACKING_MARKS: Final = (TRACKING_STARTED, TRACKING_STOPPED)
SAMPLE_ISSUED: Final = "sample.issued"
FIRST_RECEIVED: Final = "sample.recv_first"
SAMPLE_COMPLETED: Final = "sample.complete"
ERROR_PREFIX: Final = "error."
FIRST_STAMP_SLACK_NS: Final = 50_000_000
"""The client stamps a first fragment when it handles it, and a completion when it decodes it, so
that a first fragment may seem to come up to this much after the end.
"""


MIN_COMPARED_BYTES: Final = 200
"""Answers of fewer bytes, with what JSON adds to them, are not compared with others."""
MAX_TIMESTAMP_NS: Final = 1 << 62
"""Sums and differences of two stamps fit into 64 bits."""


class ClientEvent(msgspec.Struct):
    """One line; `data` is not decoded."""

    event_type: str
    timestamp_ns: Annotated[int, msgspec.Meta(ge=0, lt=MAX_TIMESTAMP_NS)]
    sample_uuid: str = ""
    data: msgspec.Raw = msgspec.Raw(b"null")
    finish_reason: str | None = None


class OpenSample(msgspec.Struct, gc=False):
    """A sample in flight."""

    issued_ns: int
    tracked: bool
    place: int = 0
    """Of a tracked sample, in the order of issue."""
    first_ns: int | None = None
    failed: bool = False


@dataclass(slots=True)
class EventCount:
    """What the events of a run add up to."""

    source: SourceFile
    issued: int = 0
    """Samples issued while performance was tracked."""
    completed: int = 0
    failed: int = 0
    latencies_ns: "array[int]" = field(default_factory=lambda: array("q"))
    first_token_ns: "array[int]" = field(default_factory=lambda: array("q"))
    negative_token_times: int = 0
    """Samples whose first fragment has a later stamp than their end."""
    completed_issue_ns: "array[int]" = field(default_factory=lambda: array("q"))
    """Time of issue of each completed sample, beside its latency."""
    issue_ns: "array[int]" = field(default_factory=lambda: array("q"))
    """Time of each tracked issue, in the order of the file."""
    finish_reasons: dict[str, int] = field(default_factory=dict)
    unexplained_ends: int = 0
    """Completed samples that did not fail and have no reason to end."""
    started_ns: int | None = None
    last_completion_ns: int | None = None
    last_issued_latency_ns: int | None = None
    answer_bytes: int = 0
    """Bytes of the answers, with what JSON adds to them."""
    completed_places: "array[int]" = field(default_factory=lambda: array("q"))
    """Place of each completed sample in the order of issue, beside its latency."""
    answer_hashes: "array[int]" = field(default_factory=lambda: array("q"))
    """Hash of each completed sample's answer; 0 of a short one, which may well be given twice."""
    streamed: int = 0
    """Answers that came in chunks, without calls of tools."""
    blank_first_chunks: int = 0
    """... of which the first one says nothing."""
    warmed_up_prompts: int = 0
    """Tracked samples that ask what one before tracking asked."""
    tokens: TokenCount | None = None
    """None if no tokenizer was named."""
    issue_digest: str = ""
    """Digest of the identifiers of tracked samples, in the order of their issue."""
    lines: int = 0
    truncated: bool = False
    """The recount stopped early, since there were more samples than are remembered."""

    @property
    def duration_ns(self) -> int | None:
        """From the start of tracking to the last tracked completion."""
        if self.started_ns is None or self.last_completion_ns is None:
            return None
        return self.last_completion_ns - self.started_ns


@dataclass(slots=True)
class EventReader:
    """State of one pass over a file of events."""

    count: EventCount
    samples: dict[str, OpenSample | None] = field(default_factory=dict)
    """By identifier; None once a sample completed."""
    tracking: bool = False
    last_issued: str = ""
    warm_up_prompts: set[int] = field(default_factory=set)
    """Hashes of what was asked before performance was tracked."""
    identifiers: "hashlib._Hash" = field(default_factory=hashlib.sha256)

    def handle_event(self, event: ClientEvent, line: int) -> None:
        """Count one event; what contradicts the order of events becomes a parse error."""
        kind = event.event_type
        if kind == SAMPLE_ISSUED:
            self.handle_issue(event, line)
        elif kind == FIRST_RECEIVED:
            sample = self.samples.get(event.sample_uuid)
            if sample is not None and sample.first_ns is None:
                sample.first_ns = event.timestamp_ns
        elif kind == SAMPLE_COMPLETED:
            self.handle_completion(event, line)
        elif kind.startswith(ERROR_PREFIX):
            self.handle_error(event, line)
        elif kind in TRACKING_MARKS:
            self.handle_mark(event, line)

    def handle_mark(self, event: ClientEvent, line: int) -> None:
        """Begin or end tracking; each happens once, in this order."""
        begins = event.event_type == TRACKING_STARTED
        if begins:
            in_turn = self.count.started_ns is None
        else:
            in_turn = self.tracking
        if not in_turn:
            add_event_error(
                self.count.source,
                f"{event.event_type} out of turn",
                "tracking that starts once and then stops once",
                line,
            )
            return
        self.tracking = begins
        if begins:
            self.count.started_ns = event.timestamp_ns

    def handle_error(self, event: ClientEvent, line: int) -> None:
        """Mark a sample as failed; its error comes before its completion."""
        sample = self.samples.get(event.sample_uuid)
        if sample is not None:
            sample.failed = True
        elif event.sample_uuid in self.samples:
            add_event_error(
                self.count.source,
                f"an error of sample {event.sample_uuid[:32]} after its completion",
                "errors before the completion",
                line,
            )

    def handle_issue(self, event: ClientEvent, line: int) -> None:
        """Remember a sample; each identifier is issued once."""
        uuid, count = event.sample_uuid, self.count
        if uuid in self.samples:
            add_event_error(count.source, f"sample {uuid[:32]} issued twice", "once", line)
            return
        if len(self.samples) >= MAX_REMEMBERED_SAMPLES:
            count.truncated = True
            return
        if not uuid:
            add_event_error(count.source, "a sample without an identifier", "one each", line)
            return
        self.samples[uuid] = OpenSample(
            issued_ns=event.timestamp_ns, tracked=self.tracking, place=count.issued
        )
        self.handle_prompt(event)
        if self.tracking:
            count.issued += 1
            count.issue_ns.append(event.timestamp_ns)
            self.last_issued = uuid
            self.identifiers.update(uuid.encode() + b"\n")

    def handle_prompt(self, event: ClientEvent) -> None:
        """Remember what the warm-up asked, and count what is asked again while tracked."""
        if self.tracking:
            if self.warm_up_prompts:
                self.count.warmed_up_prompts += hash(bytes(event.data)) in self.warm_up_prompts
        elif self.count.started_ns is None and is_known_prompt(event.data):
            self.warm_up_prompts.add(hash(bytes(event.data)))

    def handle_completion(self, event: ClientEvent, line: int) -> None:
        """Count a completed sample."""
        uuid, count = event.sample_uuid, self.count
        sample = self.samples.get(uuid)
        if sample is None:
            if not count.truncated:
                add_event_error(
                    count.source,
                    f"sample {uuid[:32]} completed without being in flight",
                    "an issue before, and one completion",
                    line,
                )
            return
        self.samples[uuid] = None
        latency = event.timestamp_ns - sample.issued_ns
        if latency < 0:
            add_event_error(
                count.source,
                f"sample {uuid[:32]} completed {-latency} ns before it was issued",
                "a completion after the issue",
                line,
            )
            return
        if not sample.tracked:
            return
        count.completed += 1
        count.answer_bytes += len(event.data)
        count.failed += sample.failed
        count.latencies_ns.append(latency)
        count.completed_issue_ns.append(sample.issued_ns)
        count.last_completion_ns = max(count.last_completion_ns or 0, event.timestamp_ns)
        if uuid == self.last_issued:
            count.last_issued_latency_ns = latency
        if event.finish_reason is not None:
            reasons = count.finish_reasons
            reasons[event.finish_reason] = reasons.get(event.finish_reason, 0) + 1
        elif not sample.failed:
            count.unexplained_ends += 1
        if sample.first_ns is not None:
            self.handle_first_token(sample, event.timestamp_ns, uuid, line)
        self.handle_answer(event, sample)

    def handle_answer(self, event: ClientEvent, sample: OpenSample) -> None:
        """Count the chunks and tokens of an answer, and remember what it said."""
        count = self.count
        count.completed_places.append(sample.place)
        long = len(event.data) >= MIN_COMPARED_BYTES and not sample.failed
        count.answer_hashes.append(hash(bytes(event.data)) if long else 0)
        answer = None
        if not sample.failed:
            answer = parse_answer(event.data)
        if answer is None:
            return
        if (chunk := answer.first_chunk) is not None:
            count.streamed += 1
            count.blank_first_chunks += not chunk.strip()
        if count.tokens is not None:
            first = sample.first_ns
            count.tokens.add_answer(answer, None if first is None else event.timestamp_ns - first)

    def handle_first_token(self, sample: OpenSample, end_ns: int, uuid: str, line: int) -> None:
        """Count the time to the first token of a completed sample."""
        first = cast("int", sample.first_ns)
        self.count.first_token_ns.append(first - sample.issued_ns)
        self.count.negative_token_times += first > end_ns
        if not sample.issued_ns <= first <= end_ns + FIRST_STAMP_SLACK_NS:
            add_event_error(
                self.count.source,
                f"first fragment of sample {uuid[:32]} outside of its time in flight",
                "between its issue and its completion",
                line,
            )


def add_event_error(source: SourceFile, found: str, required: str, line: int) -> None:
    """Record an event that contradicts others."""
    source.add_parse_error(ParseErrorKind.RECORD, found, required, line)


def find_events_file(folder: Path) -> Path | None:
    """Return the events of a run folder, of whatever type the file is; None if it has none."""
    return next((folder / name for name in EVENT_FILES if os.path.lexists(folder / name)), None)


def count_events(path: Path, source: SourceFile, counter: TokenCounter | None = None) -> EventCount:
    """Recount a run, its tokens as well if something counts them; what cannot be read becomes parse
    errors of the source.
    """
    count = EventCount(source=source, tokens=TokenCount(counter) if counter else None)
    reader = EventReader(count=count)
    decoder = msgspec.json.Decoder(ClientEvent)
    try:
        for text in iterate_event_lines(path, source):
            count.lines += 1
            try:
                event = decoder.decode(text)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                source.add_parse_error(
                    ParseErrorKind.RECORD,
                    f"{error}: {format_excerpt(text)}",
                    "an event of the client",
                    count.lines,
                )
                continue
            reader.handle_event(event, count.lines)
    except (OSError, ValueError, EOFError) as error:
        source.add_read_error(error)
    if count.tokens is not None:
        count.tokens.count_waiting_texts()
    count.issue_digest = reader.identifiers.hexdigest()
    return count


def iterate_event_lines(path: Path, source: SourceFile) -> Iterator[bytes]:
    """Yield the lines of a file, unpacked if it is compressed; a line without its end, or longer
    than any event, becomes a parse error.
    """
    with open_regular_file(path) as raw:
        stream = cast("BinaryIO", gzip.GzipFile(fileobj=raw) if path.suffix == ".gz" else raw)
        number, parts, held = 0, list[bytes](), 0
        while chunk := stream.read(CHUNK_BYTES):
            first, *lines = chunk.split(b"\n")
            parts.append(first)
            held += len(first)
            if held > MAX_EVENT_BYTES:
                source.add_parse_error(
                    ParseErrorKind.RECORD,
                    f"a line of more than {MAX_EVENT_BYTES} bytes",
                    "an event of the client",
                    number + 1,
                )
                return
            if not lines:
                continue
            for text in (b"".join(parts), *lines[:-1]):
                number += 1
                if text.strip():
                    yield text
            parts, held = [lines[-1]], len(lines[-1])
        if (rest := b"".join(parts)).strip():
            source.add_parse_error(
                ParseErrorKind.CUT,
                f"an incomplete last line: {format_excerpt(rest)}",
                "a newline at the end of the file",
                number + 1,
            )


def compute_percentile(ordered: "array[int]", percent: float) -> int:
    """Return a percentile of sorted values by the client's rule: the value at the lower rank."""
    return ordered[int(percent / 100 * (len(ordered) - 1))]

"""What Llama answers: the generated news, each eighth summary with another first name."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from making import Subject

from workloads.common.text.token_answers import pack_token_ids
from workloads.llama.scoring import score_answers, write_news_truth
from workloads.llama.served_news import generate_serving_documents
from workloads.llama.vocabulary import END_ID, encode_text

LOSSES = (1.9, 1.5, 1.36, 1.35, 1.2, 1.0625)
"""What the evaluations of a run of profile smoke give."""


@cache
def build_llama_subject() -> Subject:
    """Llama with the answers of a trained network, in the numbers that the truth gives them."""
    summaries = [document.summary for document in generate_serving_documents()]
    answers = [answer_summary(sample, summary) for sample, summary in enumerate(summaries)]

    def write_truth(folder: Path) -> None:
        write_news_truth(folder, summaries)

    with TemporaryDirectory() as folder:
        write_truth(Path(folder))
        metric, *others = score_answers(dict(enumerate(answers)), Path(folder)).items()
    return Subject(
        workload="llama",
        metric=metric[0],
        served=metric[1],
        others=dict(others),
        trained=LOSSES,
        answers=answers,
        write_truth=write_truth,
    )


def answer_summary(sample: int, summary: str) -> bytes:
    """The tokens of an answer; each eighth has the token after another one's, a name as well."""
    tokens = encode_text(summary)
    if sample % 8 == 0:
        tokens[1] = encode_text("Gina" if "Gina" not in summary else "Julian")[0]
    return pack_token_ids([*tokens, END_ID])

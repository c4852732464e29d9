"""The generated news: documents, the floor of their loss, and the tokenizer that numbers them."""

import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from statistics import fmean

import pytest
from tokenizers import Tokenizer

from workloads.llama import news, vocabulary
from workloads.llama.news import NewsDocument
from workloads.llama.news_words import ADVERBS, NAMES, OBJECTS_OF_VERBS, RANK_ADVERBS, VERBS

TRAIN_SEED, TEST_SEED = 1, 2
ANNA_AND_BRUNO = (
    "Secondly Anna sells boats in Rome, says Anna. Today Carl opens parks in Lima, says Carl."
    " Firstly Bruno opens schools, says Bruno. Often Dora films storms in Rome, says Dora."
    " Later Emma designs lamps, says Emma. Rarely Felix grows roses in Oslo, says Felix."
)


def list_news(seed: int, count: int) -> list[NewsDocument]:
    return list(news.generate_documents(seed, count))


def compute_rouge_l(answer: Sequence[str], reference: Sequence[str]) -> float:
    """F1 of the longest common subsequence (Lin 2004, ROUGE, section 3)."""
    lengths = [0] * (len(reference) + 1)
    for word in answer:
        row = [0]
        for place, other in enumerate(reference):
            longer = lengths[place] + 1 if word == other else max(row[place], lengths[place + 1])
            row.append(longer)
        lengths = row
    return 2 * lengths[-1] / (len(answer) + len(reference))


def list_people(document: NewsDocument) -> list[str]:
    """Who stands in the sentences, in the article's order."""
    return [sentence.split()[1] for sentence in document.article.split(".") if sentence]


def test_a_document_is_a_function_of_seed_and_number() -> None:
    """Whoever generates only a part of the data, or in another order, gets the same documents."""
    documents = list_news(TRAIN_SEED, 50)
    backwards = [news.generate_document(TRAIN_SEED, number) for number in reversed(range(50))]
    assert documents == backwards[::-1]
    assert news.generate_document(TRAIN_SEED, 0) != news.generate_document(TEST_SEED, 0)


def test_documents_are_those_of_this_version() -> None:
    """Another Python or a changed generator without another version would change the task."""
    assert news.NEWS_VERSION == 1
    assert news.generate_document(TRAIN_SEED, 4999).text == (
        "Secondly Holly sells horses, says Holly. Often Edgar teaches physics in Lagos, says Edgar."
        " Later Owen designs gardens in Kyoto, says Owen. Yesterday Mabel teaches physics in Kyoto,"
        " says Mabel. Elsewhere Jenny collects shells, says Jenny. Firstly Donald opens parks in"
        " Madrid, says Donald. Summary: ① Donald ② Holly"
    )


def compute_summary(article: str) -> str:
    """Compute the summary of an article: who stands in the ranked sentences, by rank."""
    people: dict[str, str] = {}
    for sentence in article.split("."):
        adverb, name = (sentence.split() + ["", ""])[:2]
        people[adverb] = name
    return news.format_summary(people[adverb] for adverb in RANK_ADVERBS if adverb in people)


def test_the_summary_is_a_function_of_the_article() -> None:
    assert compute_summary(ANNA_AND_BRUNO) == "① Bruno ② Anna"
    for document in list_news(TRAIN_SEED, 500):
        assert compute_summary(document.article) == document.summary


def test_numbers_of_ranks_are_equally_likely() -> None:
    counts = Counter(document.rank_count for document in list_news(TRAIN_SEED, 6000))
    assert sorted(counts) == list(range(1, news.MAX_RANKS + 1))
    # five standard deviations of a binomial distribution with n = 6,000 and p = 1/6
    assert all(abs(count - 1000) < 5 * math.sqrt(6000 * 5 / 36) for count in counts.values())


def test_no_held_out_document_is_trained_on() -> None:
    trained = {document.article for document in list_news(TRAIN_SEED, 20_000)}
    assert len(trained) == 20_000
    assert not any(document.article in trained for document in list_news(TEST_SEED, 2000))


def test_the_floor_is_the_entropy_of_what_is_drawn() -> None:
    """The draws, seen from outside: relative frequencies in generated articles, whose entropies
    add up.
    """
    documents = list_news(3, 20_000)
    marks: Counter[tuple[int, ...]] = Counter()
    places: Counter[tuple[int, tuple[bool, ...]]] = Counter()
    verbs: Counter[tuple[str, str]] = Counter()
    objects: Counter[tuple[str, str]] = Counter()
    plain: Counter[str] = Counter()
    towns: Counter[str] = Counter()
    names: Counter[str] = Counter()
    for document in documents:
        sentences = [sentence.split() for sentence in document.article.rstrip(".").split(". ")]
        adverbs = [words[0] for words in sentences]
        marks[tuple(rank_of(adverb) for adverb in adverbs)] += 1
        places[document.rank_count, tuple("in" in words for words in sentences)] += 1
        plain.update(adverb for adverb in adverbs if adverb not in RANK_ADVERBS)
        for words in sentences:
            verbs[words[0], words[2]] += 1
            objects[words[2], words[3].rstrip(",")] += 1
            names[words[1]] += 1
            towns.update([words[5].rstrip(",")] * ("in" in words))
    ranks = Counter(document.rank_count for document in documents)
    count = len(documents)
    distinct = sum(math.log(len(NAMES) / (len(NAMES) - drawn)) for drawn in range(6))
    nats = (
        entropy(marks)
        + (entropy(places) - entropy(ranks))
        + plain.total() / count * entropy(plain)
        + 6 * (entropy(verbs) - entropy(first_of(verbs)))
        + 6 * (entropy(objects) - entropy(first_of(objects)))
        + towns.total() / count * entropy(towns)
        + 6 * entropy(names)
        - distinct
    )
    # 1,956 patterns of ranks: their entropy is estimated too low by about 1,956 / 2 / 20,000 nats
    assert nats / news.DOCUMENT_TOKENS == pytest.approx(news.compute_floor(), rel=0.003)
    assert news.compute_sample_floor(documents) == pytest.approx(news.compute_floor(), rel=0.003)


def rank_of(adverb: str) -> int:
    """0 for a plain adverb."""
    return RANK_ADVERBS.index(adverb) + 1 if adverb in RANK_ADVERBS else 0


def entropy(counts: Counter) -> float:
    """Of the relative frequencies, in nats."""
    shares = [count / counts.total() for count in counts.values()]
    return -sum(share * math.log(share) for share in shares)


def first_of(pairs: Counter[tuple[str, str]]) -> Counter[str]:
    """How often each first word of a pair occurs."""
    firsts: Counter[str] = Counter()
    for (first, _), count in pairs.items():
        firsts[first] += count
    return firsts


def test_the_floor_is_that_of_the_report() -> None:
    assert news.compute_floor() == pytest.approx(1.0382, abs=5e-5)
    assert news.compute_document_nats(6) == pytest.approx(
        math.log(6 * 720 * math.perm(256, 6) * 8**6)
    )


def test_adverbs_decide_about_verbs_and_verbs_about_objects() -> None:
    """What the words before a name teach."""
    for document in list_news(TRAIN_SEED, 200):
        for sentence in document.article.rstrip(".").split(". "):
            adverb, name, verb, what = sentence.replace(",", "").split()[:4]
            assert 0 <= VERBS.index(verb) - ADVERBS.index(adverb) < news.VERBS_PER_ADVERB
            assert what in OBJECTS_OF_VERBS[verb] and name in NAMES
            assert sentence.endswith(f", says {name}")


@pytest.mark.parametrize("side", ["first", "last"])
@pytest.mark.parametrize("count", range(1, 7))
def test_rules_that_copy_names_score_low(side: str, count: int) -> None:
    """The served limit is 0.9: a rule that copies without reading must be far below it."""
    rule: Callable[[list[str]], list[str]] = {
        "first": lambda people: people[:count],
        "last": lambda people: people[-count:],
    }[side]
    scores = [
        compute_rouge_l(rule(list_people(document)), news.parse_names(document.summary))
        for document in list_news(TEST_SEED, 500)
    ]
    assert fmean(scores) < 0.5


def test_shuffled_summaries_fit_no_article() -> None:
    """The negative control keeps every length and every summary, and breaks what connects them."""
    documents = list_news(TRAIN_SEED, 600)
    shuffled = news.shuffle_summaries(documents, 7)
    assert shuffled == news.shuffle_summaries(documents, 7) != news.shuffle_summaries(documents, 8)
    assert [one.article for one in shuffled] == [one.article for one in documents]
    assert Counter(one.summary for one in shuffled) == Counter(one.summary for one in documents)
    assert all(
        (one.rank_count, one.summary != other.summary) == (other.rank_count, True)
        for one, other in zip(shuffled, documents, strict=True)
    )


def test_the_tokenizer_file_gives_the_same_ids() -> None:
    """The library and the ids that training data consist of must not differ; every document has
    64 tokens, so that no sequence cuts one.
    """
    tokenizer = Tokenizer.from_str(vocabulary.format_tokenizer())
    assert tokenizer.get_vocab_size() == len(vocabulary.list_tokens()) == 377
    for document in list_news(TRAIN_SEED, 500):
        ids = vocabulary.encode_document(document)
        assert len(ids) == news.DOCUMENT_TOKENS == 64
        assert tokenizer.encode(document.text).ids == ids[:-1]
        assert tokenizer.decode(ids) == vocabulary.decode_tokens(ids) == document.text
        prompt = vocabulary.encode_prompt(document)
        assert tokenizer.encode(document.prompt).ids == prompt == ids[: len(prompt)]
        assert vocabulary.decode_tokens(ids[len(prompt) :]) == document.summary


def test_special_tokens_are_llama_s() -> None:
    tokenizer = Tokenizer.from_str(vocabulary.format_tokenizer())
    assert tokenizer.token_to_id("<|begin_of_text|>") == vocabulary.BEGIN_ID == 0
    assert tokenizer.token_to_id("<|eot_id|>") == vocabulary.END_ID == 1
    ids = tokenizer.encode("① Anna<|eot_id|>").ids
    assert ids[-1] == vocabulary.END_ID and vocabulary.decode_tokens(ids) == "① Anna"
    assert tokenizer.encode("Nobody").ids == [vocabulary.BEGIN_ID, vocabulary.UNKNOWN_ID]


def test_tokens_are_distinct() -> None:
    tokens = vocabulary.list_tokens()
    assert len(set(tokens)) == len(tokens) and len(set(NAMES)) == 256
    assert json.loads(vocabulary.format_tokenizer())["model"]["vocab"][NAMES[-1]] == 376

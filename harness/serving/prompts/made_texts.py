"""Makes texts of a given number of tokens. Each begins with words of its own draw, which salt it:
no cache of prefixes serves two of them.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from harness.serving.prompts.prompt_set import Prompt, PromptSet, compute_lines_sha256
from harness.serving.prompts.text_sizes import MADE_PROMPTS, TextSizes
from suite.errors import RequestError

WORDS: Final = tuple(
    """
    time year people way day man thing woman life child world school state family student group
    country problem hand part place case week company system program question work government
    number night point home water room mother area money story fact month lot right study book eye
    job word business issue side kind head house service friend father power hour game line end
    member law car city community name president team minute idea body information back parent
    face others level office door health person art war history party result change morning reason
    research girl guy moment air teacher force education foot boy age policy music market sense
    nation plan college interest death experience effect use class control field development role
    effort rate heart drug show leader light voice wife police mind price report decision son view
    relationship town road arm difference value building action season society tax director
    position player record paper space ground form event official matter center couple site
    project activity star table need court oil situation cost industry figure street image phone
    data picture practice piece land product doctor wall patient worker news test movie north love
    step board nature rock bank west sport fish floor machine tree garden window
    """.split()  # noqa: SIM905
)
"""Common nouns of English."""
MOST_OFF_SHARE: Final = 0.02
"""House rule: by which a text's tokens may differ from what is asked for."""

CountTokens = Callable[[str], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCounter:
    """What counts the tokens of texts."""

    count: CountTokens
    name: str
    """Of what counts: a tokenizer's SHA-256, or the server."""
    words: Sequence[str] = WORDS
    """Of which texts are made: fewer where each count is a request."""


def make_texts(sizes: TextSizes, counter: TokenCounter, seed: int) -> PromptSet:
    """Make prompts of these sizes; RequestError if the tokenizer cannot give them."""
    generator = random.Random(seed)
    costs = measure_word_costs(counter)
    prompts = []
    for _ in range(MADE_PROMPTS):
        tokens, most = sizes.sample_sizes(generator)
        text = make_text(tokens, costs, generator)
        prompts.append(Prompt(text=text, max_tokens=most))
    longest = max(prompts, key=lambda each: len(each.text))
    tokens = counter.count(longest.text)
    wanted = sum(costs[word] for word in longest.text.split())
    if abs(tokens - wanted) > max(1, MOST_OFF_SHARE * wanted):
        raise RequestError(
            f"--prompts {sizes.source}: the tokenizer gives {tokens:,} tokens to a text made of"
            f" {wanted:,}: name a file of prompts"
        )
    return PromptSet(
        prompts=tuple(prompts),
        source=sizes.source,
        sha256=compute_lines_sha256(prompts),
        tokenizer=counter.name,
    )


def measure_word_costs(counter: TokenCounter) -> dict[str, int]:
    """Return the tokens of each word within a text: what it adds behind others."""
    return {
        word: max(1, counter.count(f"the {word} {word}") - counter.count(f"the {word}"))
        for word in counter.words
    }


def make_text(tokens: int, costs: Mapping[str, int], generator: random.Random) -> str:
    """Make a text of so many tokens, as far as the words fill them."""
    words, chosen, left = list(costs), list[str](), tokens
    while left > 0:
        word = generator.choice(words)
        if costs[word] > left:
            word = min(words, key=lambda each: abs(costs[each] - left))
        chosen.append(word)
        left -= costs[word]
    return " ".join(chosen)

"""The words of the generated news: what `news` chooses from, and what `vocabulary` numbers."""

from typing import Final

RANK_ADVERBS: Final = ("Firstly", "Secondly", "Thirdly", "Fourthly", "Fifthly", "Sixthly")
"""Mark the sentences that a summary takes up, in this order."""
PLAIN_ADVERBS: Final = (
    "Today",
    "Yesterday",
    "Often",
    "Rarely",
    "Meanwhile",
    "Elsewhere",
    "Earlier",
    "Later",
)
"""Begin the sentences that a summary leaves out."""
ADVERBS: Final = (*RANK_ADVERBS, *PLAIN_ADVERBS)
OBJECTS_OF_VERBS: Final = {
    "opens": ("schools", "bridges", "museums", "parks"),
    "sells": ("boats", "cars", "houses", "horses"),
    "writes": ("letters", "novels", "poems", "songs"),
    "paints": ("portraits", "walls", "doors", "landscapes"),
    "repairs": ("roofs", "engines", "clocks", "roads"),
    "wins": ("races", "prizes", "matches", "medals"),
    "loses": ("keys", "tickets", "coats", "wallets"),
    "grows": ("apples", "roses", "onions", "tomatoes"),
    "teaches": ("history", "chess", "physics", "dance"),
    "studies": ("birds", "stars", "rivers", "volcanoes"),
    "bakes": ("bread", "cakes", "biscuits", "pies"),
    "collects": ("stamps", "coins", "shells", "maps"),
    "films": ("weddings", "storms", "whales", "concerts"),
    "designs": ("chairs", "gardens", "towers", "lamps"),
    "catches": ("trout", "thieves", "trains", "butterflies"),
}
"""Each verb with the objects that follow it."""
VERBS: Final = tuple(OBJECTS_OF_VERBS)
PLACE_LIST: Final = """
    Athens Bergen Cairo Delhi Dublin Geneva Havana Kyoto Lagos Lima Madrid Milan Oslo Prague Rome
    Vienna
"""
PLACES: Final = tuple(PLACE_LIST.split())
NUMBER_MARKS: Final = ("①", "②", "③", "④", "⑤", "⑥")
"""Stand before the names of a summary. ROUGE ignores them, so that they earn nobody a point."""
SMALL_WORDS: Final = ("in", "says", ",", ".", "Summary", ":")
NAME_LIST: Final = """
    Ada Adam Agnes Alan Albert Alex Alice Alma Amber Amy Andrew Angela Anita Anna Anton Arthur
    Astrid Barbara Basil Beatrice Ben Bernard Bertha Betty Blake Bonnie Boris Brenda Brian
    Bridget Bruno Calvin Camille Carl Carmen Caroline Celia Charles Chloe Chris Clara Claude
    Clive Colin Connor Cora Craig Daisy Dan Daphne Darren David Deborah Dennis Derek Diana
    Dominic Donald Dora Doris Dorothy Douglas Duncan Dylan Edgar Edith Edmund Edward Eileen
    Elaine Eleanor Eli Ella Ellen Elsa Emil Emily Emma Eric Erica Ernest Esther Ethan Eva Evelyn
    Felix Fiona Flora Frances Frank Fred Freya Gabriel Gary Gavin George Gerald Gilbert Gina
    Glenn Gloria Gordon Grace Graham Greta Guy Hannah Harold Harriet Harry Hazel Hector Heidi
    Helen Henry Herbert Hilda Holly Hugh Hugo Ian Ida Ingrid Irene Iris Isaac Isabel Ivan Ivy
    Jack Jacob Jane Janet Jasper Jean Jenny Jeremy Jill Joan Joel John Jonas Joseph Joyce Judith
    Julia Julian June Karen Karl Kate Keith Ken Kevin Kurt Lara Laura Lawrence Leah Leo Leonard
    Lewis Lily Linda Lionel Lisa Lloyd Lois Louis Lucy Luke Lydia Mabel Magnus Malcolm Marcus
    Margaret Maria Marion Martin Mary Matilda Max Megan Mia Michael Miles Miriam Molly Monica
    Morris Nancy Naomi Nathan Neil Nell Nicholas Nigel Nina Noah Nora Norman Oliver Olivia Oscar
    Otto Owen Pamela Patrick Paul Peggy Peter Philip Phoebe Rachel Ralph Rebecca Rex Richard
    Robert Robin Roger Ronald Rosa Roy Rupert Ruth Sally Sam Sarah Sean Simon Sophie Stella
    Steven Susan Sylvia Tara Teresa Thomas Tim Tina Toby Tom Valerie Vera Victor Vincent Violet
    Walter Wanda Wendy William Xavier Yvonne Zoe
"""
NAMES: Final = tuple(NAME_LIST.split())
"""Of people; each is one token."""

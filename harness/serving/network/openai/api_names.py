"""Names of the HTTP API that client and server share.

Source: OpenAI, API reference, "Chat" and "Completions"; the facts are podium's own.
"""

from typing import Final

CHAT_ROUTE: Final = "/v1/chat/completions"
COMPLETIONS_ROUTE: Final = "/v1/completions"
MODELS_ROUTE: Final = "/v1/models"
FACTS_ROUTE: Final = "/podium/facts"
"""What a server of podium's says of itself."""
JSON_TYPE: Final = b"application/json"

"""Systems under test behind an API of OpenAI's kind: HTTP, with answers streamed token by token."""

"""Systems under test behind the OpenAI-compatible HTTP API that language models are served by."""

"""A server of OpenAI's API in front of a workload that generates token by token."""

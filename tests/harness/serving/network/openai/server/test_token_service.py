"""The thread with a generator, step by step and without its thread."""

from podium_fakes.token_server import END, EchoGenerator

from harness.serving.network.openai.server.token_service import TokenCall, TokenService


def test_a_prompt_that_was_cancelled_while_it_arrived_is_never_admitted():
    """The thread looks for cancelled calls before it takes this one: nobody looks again."""
    generator = EchoGenerator(2, None)
    service = TokenService(lambda: generator, [END])
    gone, other = (TokenCall(prompt=[number], max_tokens=3, caller=None) for number in (5, 6))
    service.submit_prompt(gone)
    service.cancel_call(gone)
    service.release_cancelled(generator)
    service.submit_prompt(other)
    assert service.take_arrivals() and [*service.waiting] == [other]

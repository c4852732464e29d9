"""What a client demands of a server's certificate."""

import ssl

from harness.serving.network.access import ClientCredentials
from suite.errors import RequestError


def build_client_context(access: ClientCredentials) -> ssl.SSLContext:
    """Return a context that trusts the system's certificates, or those that the user names instead;
    RequestError if these are none.
    """
    try:
        return ssl.create_default_context(cadata=access.ca.decode("ascii") if access.ca else None)
    except (ssl.SSLError, UnicodeDecodeError) as error:
        raise RequestError(f"--ca: no certificates in PEM form: {error}") from error

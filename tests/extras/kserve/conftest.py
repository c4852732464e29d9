"""What the tests of networked systems share; all of these need gRPC."""

import pytest
from networked_systems import certificates, folder

__all__ = ["certificates", "folder"]

pytest.importorskip("grpc", reason="the extra `remote` is not installed")
pytest.importorskip("tritonclient", reason="the extra `remote` is not installed")

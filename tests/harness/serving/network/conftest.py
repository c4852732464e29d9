"""What the tests of networked systems share."""

from networked_systems import certificates, folder

__all__ = ["certificates", "folder"]

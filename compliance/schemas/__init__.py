"""The published schemas: JSON Schema Draft 2020-12, one file per kind of document."""

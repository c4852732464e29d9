"""The published rounds of this kind, one TOML file each: MLPerf Inference v0.5 and v0.7."""

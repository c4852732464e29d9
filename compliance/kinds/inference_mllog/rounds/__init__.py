"""The published rounds of this kind, one TOML file each: MLPerf Inference since v1.0."""

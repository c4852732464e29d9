"""The published rounds of this kind, one TOML file each: MLPerf Training."""

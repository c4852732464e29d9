"""Rules about submissions of curves to MLPerf Endpoints."""

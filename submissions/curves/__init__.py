"""Curves of MLPerf Endpoints: their figures, and two curves beside each other."""

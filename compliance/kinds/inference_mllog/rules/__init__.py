"""Rules for published inference results since v1.0."""

"""Optimizers, learning-rate schedules, mixed precision and collectives."""

"""Meters that podium brings: each is a program that speaks the text protocol of docs/POWER.md, and an example for others."""

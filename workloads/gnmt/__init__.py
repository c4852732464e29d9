"""GNMT v2, recurrent translation from English to German; Wu et al. 2016, arXiv:1609.08144. Imports no framework."""

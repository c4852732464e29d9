"""Arithmetic on measurements that several packages share: Student's t, power readings."""

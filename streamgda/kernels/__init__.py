"""Sums over rows in C."""

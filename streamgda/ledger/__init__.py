"""Incremental refresh: a folder of small statistics, one entry per input file, and a list of them."""

"""The exact state: sums of integers on a binary grid, rounded only when moments are read."""

"""Leaves of trees as features: one read gives the pairs of leaves that occur, from which a ridge is solved."""

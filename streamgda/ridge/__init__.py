"""Random features: `features` has the map."""

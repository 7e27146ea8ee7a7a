"""The scikit-learn estimators: each finalises statistics in its own way, and shares all the rest."""

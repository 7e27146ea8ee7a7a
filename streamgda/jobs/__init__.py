"""What runs over whole datasets.

In come sources and models; out come statistics (`passes`), predictions and evaluations (`scoring`),
statistics that follow a folder (`ledger`), and models that were chosen among many (`selection`). All of them
run plans of `passes` on threads or a cluster. Open `passes/accumulate.py` first. `ledger/__init__` says how a
ledger commits.
"""

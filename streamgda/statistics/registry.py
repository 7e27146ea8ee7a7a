"""What extensions add to statistics, found by name: this room imports none of them."""

STATISTICS = {
    "ClassStatistics": "streamgda.statistics.floating.state:ClassStatistics",
    "ExactClassStatistics": "streamgda.extensions.exact.state:ExactClassStatistics",
    "IncompleteStatistics": "streamgda.extensions.incomplete.state:IncompleteStatistics",
    "LeafStatistics": "streamgda.extensions.leaves.state:LeafStatistics",
    "PrivateClassStatistics": "streamgda.extensions.private.state:PrivateClassStatistics",
}
"""Where each sort of statistics is defined, by its name in a saved table."""

RULES = {
    "leaves": "streamgda.extensions.leaves.rule:LeafRows",
    "mapped_rows": "streamgda.extensions.ridge.rule:MappedRows",
    "privacy": "streamgda.extensions.private.state:Privacy",
    "subclass_centers": "streamgda.extensions.subclasses.centers:SubclassCenters",
}
"""Where the rule that is saved under a key is defined."""

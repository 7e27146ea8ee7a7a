"""The statistics of folds, read from a source."""

from streamgda.data.blocks.block import FoldRule
from streamgda.jobs.passes.accumulate import read_into
from streamgda.statistics.factory import empty_statistics
from streamgda.statistics.folded import FoldStatistics
from streamgda.statistics.required import Required


def read_folds(source, n_folds, column=None, required=None):
    return read_into(
        source, FoldStatistics(empty_statistics(required or Required()), FoldRule(n_folds, column))
    )

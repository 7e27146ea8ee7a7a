"""Results that are read as a table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


class Table(ABC):
    """A result that is a table: readable as a string, and as a data frame for all else."""

    @abstractmethod
    def to_pandas(self) -> pd.DataFrame:
        """The table as a data frame."""

    def __str__(self) -> str:
        text: str = self.to_pandas().to_string(float_format="{:.6g}".format)
        return text

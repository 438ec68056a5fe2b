"""Rows as a data frame, behind the extra ``pandas``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lcplan.formats.errors import StageFailedError

if TYPE_CHECKING:
    from pandas import DataFrame


def frame(rows: Sequence[dict[str, Any]]) -> DataFrame:
    """One row a candidate or point; columns carry their units in their names.

    Raises
    ------
    StageFailedError
        The extra is not installed; the message names it.
    """
    try:
        import pandas
    except ImportError:
        raise StageFailedError('to_pandas() needs the extra: pip install "lcplan[pandas]"') from None
    return pandas.DataFrame(list(rows))

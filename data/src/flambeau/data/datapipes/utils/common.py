"""Upstream's path of the stream wrapper and of the check of functions."""

from flambeau.data.datapipes._columns import check_positional as validate_input_col
from flambeau.data.datapipes.utils.streams import StreamWrapper

__all__ = ["StreamWrapper", "validate_input_col"]

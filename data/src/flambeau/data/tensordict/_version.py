"""The version of the distribution, in the forms that upstream offers."""

from flambeau.data import __version__ as __version__

version = __version__
__version_tuple__ = version_tuple = tuple(int(part) if part.isdigit() else part for part in __version__.split("."))
__commit_id__ = commit_id = None

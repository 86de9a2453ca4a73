"""Object stores: S3 and what speaks its protocol, Google Cloud Storage, Azure Blob Storage, and plain HTTP.

::

    for url in list_objects("s3://bucket/train/", region="eu-west-1"):
        with open_object(url) as file:
            ...

Credentials come from where each cloud's tools look for them: environment, shared files, the machine's role. The
engine is obstore (`pip install flambeau-data[s3]`); it is loaded with the first request.
"""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau.data.storage.errors import *
    from flambeau.data.storage.listing import *
    from flambeau.data.storage.locations import *
    from flambeau.data.storage.reading import *

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "errors": ("ObjectMissingError", "StorageAccessError", "StorageError", "StorageTimeoutError"),
        "listing": ("StoredObject", "describe_objects", "list_objects"),
        "locations": ("is_remote",),
        "reading": ("ObjectReader", "open_object", "read_object", "read_range"),
    },
)

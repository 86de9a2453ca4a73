"""Functions of keys, under upstream's path for the Python form."""

from flambeau.data.tensordict._layout.keys import (
    _unravel_key_to_tuple as _unravel_key_to_tuple,
)
from flambeau.data.tensordict._layout.keys import (
    unravel_key as unravel_key,
)
from flambeau.data.tensordict._layout.keys import (
    unravel_key_list as unravel_key_list,
)
from flambeau.data.tensordict._layout.keys import (
    unravel_keys as unravel_keys,
)

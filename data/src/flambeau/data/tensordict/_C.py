"""Functions of keys, under upstream's path for the compiled form. Ours are Python: a `str` returns at once."""

from flambeau.data.tensordict._layout.keys import unravel_key as unravel_key
from flambeau.data.tensordict._layout.keys import unravel_key_list as unravel_key_list
from flambeau.data.tensordict._layout.keys import unravel_keys as unravel_keys

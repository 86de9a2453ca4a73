"""The concrete classes, for the code below them.

A nested dict becomes a TensorDict, tensordicts of different shapes become a lazy stack, a string becomes non-tensor
data: methods and conversions make things whose classes are written in terms of these methods. They take such a class
from here, `classes.TensorDict(...)`. A name loads its module when it is first used, and is a plain attribute from then
on.

Only code below the classes has a use for this; whoever stands above imports the class itself. A method that gives a
result of its own kind asks `self._result(...)` instead, which a class may override.
"""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

_HOME = "flambeau.data.tensordict."

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        _HOME + "_lazy": ("LazyStackedTensorDict",),
        _HOME + "_non_tensor.data": ("MetaData", "NonTensorData"),
        _HOME + "_non_tensor.ragged": ("RaggedNonTensorStack",),
        _HOME + "_non_tensor.stack": ("NonTensorStack",),
        _HOME + "_td": ("TensorDict", "make_td"),
        _HOME + "_tensorclass.decorator": ("from_dataclass",),
        _HOME + "_tensorclass.tensor_attrs": ("TensorAttrs",),
        _HOME + "_views.sub": ("_SubTensorDict",),
        _HOME + "_views.vmapped": ("_VmappedStack",),
        _HOME + "nn.params": ("TensorDictParams",),
        _HOME + "persistent": ("PersistentTensorDict",),
        _HOME + "store": ("TensorDictStore",),
    },
)

"""The operators of a small third-party plugin, as its author would write them."""

import ctypes

import torch
from torch.autograd.function import once_differentiable

from flambeau.core.native import KernelLibrary, register_op

LIBRARY = KernelLibrary("toy_kernels", namespace="toy")


def native(x, factor):
    size = ctypes.c_int64
    function = LIBRARY.function(
        "fb_scale_f32",
        [ctypes.c_void_p, size, size, ctypes.c_double, ctypes.c_void_p, ctypes.c_int32],
        ctypes.c_int32,
    )
    output = torch.empty(x.shape)
    function(x.data_ptr(), x.stride(0), len(x), factor, output.data_ptr(), torch.get_num_threads())
    return output


def setup_context(ctx, inputs, output):
    ctx.factor = inputs[1]


@once_differentiable
def backward(ctx, grad):
    return grad * ctx.factor, None


scale = register_op(
    "scale(Tensor input, float factor) -> Tensor",
    library=LIBRARY,
    symbol=native,
    fake=lambda x, factor: torch.empty_like(x),
    python=lambda x, factor: x * factor,
    backward=backward,
    setup_context=setup_context,
    autocast=torch.float32,
    triton="toy_triton:scale",
)
pack = register_op("pack(Tensor input) -> Tensor", library=LIBRARY, fake=lambda x: x.new_empty(x.shape))
head = register_op(
    "head(Tensor input, SymInt count, bool negate) -> (Tensor, Tensor)",
    library=LIBRARY,
    fake=lambda x, count, negate: (x.new_empty(count), x.new_empty((), dtype=torch.int64)),
)
weigh = register_op(
    "weigh(Tensor input, Tensor? weight=None, SymInt? count=None) -> (Tensor, Tensor?)",
    library=LIBRARY,
    fake=lambda x, weight=None, count=None: (x.new_empty(x.shape), None if count is None else x.new_empty(count)),
)

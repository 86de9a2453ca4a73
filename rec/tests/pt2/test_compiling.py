"""What code asks and tells while torch compiles it."""

from __future__ import annotations

import pytest
import torch

from flambeau.rec.pt2 import checks
from flambeau.rec.pt2.utils import (
    deregister_fake_classes,
    kjt_for_pt2_tracing,
    pt2_compile_callable,
    register_fake_classes,
)
from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor


def batch():
    return KeyedJaggedTensor(["a", "b"], torch.arange(5), torch.arange(5.0), lengths=torch.tensor([2, 0, 1, 2]))


def test_code_knows_that_it_is_compiled():
    def asked(x):
        return x + checks.is_pt2_compiling() + 2 * checks.is_torchdynamo_compiling()

    assert asked(torch.zeros(1)).item() == 0
    assert torch.compile(asked, backend="eager", fullgraph=True)(torch.zeros(1)).item() == 3


def test_code_knows_that_it_is_exported():
    class Asked(torch.nn.Module):
        def forward(self, x):
            return x + checks.is_non_strict_exporting()

    program = torch.export.export(Asked(), (torch.zeros(2),), strict=False)
    assert program.module()(torch.zeros(2)).tolist() == [1, 1]


def test_tests_can_have_code_run_as_if_it_were_compiled():
    checks.set_use_torchdynamo_compiling_path(True)
    try:
        assert checks.is_torchdynamo_compiling() and checks.get_use_torchdynamo_compiling_path()
    finally:
        checks.set_use_torchdynamo_compiling_path(False)
    assert not checks.is_torchdynamo_compiling()


def test_slices_of_unknown_sizes_compile():
    def cut(x, ends):
        first, last = ends.tolist()
        checks.pt2_checks_all_is_size([first, last])
        checks.pt2_checks_tensor_slice(x, first, last)
        return x.narrow(0, first, last - first)

    compiled = torch.compile(cut, backend="aot_eager", fullgraph=True)
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        assert compiled(torch.arange(9), torch.tensor([2, 5])).tolist() == [2, 3, 4]


def test_conditions_are_what_they_are_where_nothing_is_compiled():
    assert checks.pt2_guard_or_false(True) and not checks.pt2_guard_or_true(False)
    empty = torch.ones(3, 0)
    assert checks.pt2_check_size_nonzero(empty) is empty


@pytest.mark.parametrize("convert", [False, True])
def test_features_made_ready_keep_their_content(convert):
    made = kjt_for_pt2_tracing(batch(), convert)
    assert made.values().tolist() == [0, 1, 2, 3, 4] and made.lengths().tolist() == [2, 0, 1, 2]
    assert made.variable_stride_per_key() is convert
    assert (made.inverse_indices_or_none() is not None) is convert


def test_features_made_ready_are_compiled_once_for_all_numbers_of_ids():
    counter = torch._dynamo.testing.CompileCounter()
    compiled = torch.compile(lambda kjt: kjt.values() * 2, backend=counter, fullgraph=True)
    for total in (3, 7):
        kjt = KeyedJaggedTensor(["a"], torch.arange(total), lengths=torch.tensor([total, 0]))
        assert compiled(kjt_for_pt2_tracing(kjt)).shape == (total,)
    assert counter.frame_count == 1


def test_methods_are_compiled_for_objects_that_ask_for_it():
    seen = []

    class Model:
        pt2_compile = False

        @pt2_compile_callable
        def double(self, x):
            seen.append(torch.compiler.is_compiling())
            return x * 2

    model = Model()
    assert model.double(torch.ones(1)).item() == 2 and seen == [False]


def test_classes_of_operators_are_registered_any_number_of_times():
    register_fake_classes()
    register_fake_classes()
    deregister_fake_classes()
    deregister_fake_classes()

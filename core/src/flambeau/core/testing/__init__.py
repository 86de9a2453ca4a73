"""The conformance kit: what Flambeau promises of models, datasets, operators, tensor types and plugins, as checks.

::

    pytest --flambeau-conformance my-plugin                 # every check of everything the plugin registers
    pytest --flambeau-conformance all --flambeau-conformance-level full

or in a test file of the plugin's own::

    from flambeau.core.testing import parametrize_with_checks

    @parametrize_with_checks("my-plugin")
    def test_conformance(check):
        check()

or one subject at a time: `check_model("my-plugin/net")` returns a list of `Result`.

**What a plugin provides.** The kit finds models, datasets and tensor types in the registries. What it cannot know, such
as which input a model takes, it asks of a module that the manifest names: `"conformance": "my_plugin.conformance"`.
Each of these names is optional; without the first three, the check "example-inputs", "fixture" or "samples" fails and
says so, and what depends on them does not apply:

- `example_inputs(model_name, batch)`: a tuple of positional inputs for a batch of that size, 0 and 1 among them.
- `dataset_fixture(name, root)`: writes two or more items below `root` in the dataset's true layout and returns the
  configuration to build it with. For an archive it writes the archive, or the `contents` that the facts name. The kit
  lets sizes and digests of what was written stand for the published ones, serves them on loopback, and plays fetching,
  damage and absence; for this a dataset's constructor calls `flambeau.core.datasets.prepare_dataset`.
- `tensor_samples(type_name)`: instances of a tensor type.
- `op_samples()`, `transform_cases()`: `Sample`s of operators and transforms.
- `model_config(model_name)`: arguments for a model's builder. Arguments called `weights` or `weights_...` are None
  without it.
- `raw_input(model_name)`: what the weights' transforms take; `as_batch(model_name, transformed)`: the tuple of inputs
  made of what they return, where that is not a tensor without batch dimension.
- `recorded_state(model_name)`: names of the `state_dict` in order, or a mapping from name to shape.
- `training_loss(model_name, model, inputs)`: a scalar to differentiate, for models whose output is not differentiable.
- `expected_failures`: a dictionary "check:subject" -> reason, wildcards allowed. A declared failure that passes counts
  as a failure, so that the list only shrinks.

A hook that answers None does not apply to that name. Model and dataset names come without the plugin's prefix.

`flambeau.core.testing.strategies` has hypothesis strategies for the suite's kinds of values, `.golden` reads recorded
reference values, `.fill` makes weights and inputs for them, `.server` is a real HTTP server that misbehaves on request.
`.differential` runs small programs on our library and on the one it replaces, and compares all that comes of them.
"""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False  # pytest loads this package in every run; `typing` itself costs several milliseconds
if TYPE_CHECKING:
    from flambeau.core.testing.collection import parametrize_with_checks as parametrize_with_checks
    from flambeau.core.testing.collection import plugin_checks as plugin_checks
    from flambeau.core.testing.datasets import check_dataset as check_dataset
    from flambeau.core.testing.models import check_model as check_model
    from flambeau.core.testing.operators import check_op as check_op
    from flambeau.core.testing.operators import check_transform as check_transform
    from flambeau.core.testing.plugins import check_plugin as check_plugin
    from flambeau.core.testing.results import BoundCheck as BoundCheck
    from flambeau.core.testing.results import CheckFailed as CheckFailed
    from flambeau.core.testing.results import NotApplicable as NotApplicable
    from flambeau.core.testing.results import Result as Result
    from flambeau.core.testing.results import run as run
    from flambeau.core.testing.samples import Sample as Sample
    from flambeau.core.testing.tensor_types import check_tensor_type as check_tensor_type

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "collection": ("parametrize_with_checks", "plugin_checks"),
        "datasets": ("check_dataset",),
        "models": ("check_model",),
        "operators": ("check_op", "check_transform"),
        "plugins": ("check_plugin",),
        "results": ("BoundCheck", "CheckFailed", "NotApplicable", "Result", "run"),
        "samples": ("Sample",),
        "tensor_types": ("check_tensor_type",),
    },
    submodules=("differential", "golden", "pytest_plugin", "server", "strategies"),
)

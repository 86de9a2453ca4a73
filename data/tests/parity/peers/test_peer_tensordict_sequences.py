"""Random sequences of operations leave the collections of both libraries in the same state, step by step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from tensordict_cells import LENT
from tensordict_cells.describing import describe_collection
from tensordict_cells.kinds import CLASSES, KINDS

from flambeau.core.testing.differential import Library, Outcome, Recorder, program, read_differences
from flambeau.core.testing.differential.comparison import findings
from flambeau.core.testing.differential.execution import failed, seed_generators

pytest.importorskip("tensordict", reason="needs tensordict; `nox -s parity -- peers` has it")

OURS = "flambeau.data.tensordict"
PATH = Path(__file__).with_name("differences.toml")
DIFFERENCES = (*read_differences(PATH, "tensordict"), *read_differences(PATH, "tensordict-sequences"))
ROOTS = (OURS, "tensordict", *CLASSES)

KEYS = st.sampled_from(["a", "b", "z", ("n", "c"), ("n", "z"), ("p", "q", "r"), "n", "missing"])
LEAVES = st.sampled_from(["a", "b", "z", ("n", "c"), ("n", "z"), ("p", "q", "r")])
INDICES = st.sampled_from(
    ["0", "-1", "slice(1, None)", "slice(None, None, 2)", "[0]", "None", "...", "(..., 0)", "(slice(None), 0)"]
)
NUMBERS = st.integers(0, 9)
STARTS = ["nested", "flat", "lazy", "lazy-dim-1", "named", "consolidated"]
SHAPES = [
    "unsqueeze(0)",
    "unsqueeze(-1)",
    "squeeze(0)",
    "squeeze()",
    "reshape(-1)",
    "flatten()",
    "transpose(0, 1)",
    "view(-1)",
]

COPIES = [
    "clone()",
    "clone(False)",
    "copy()",
    "to_tensordict()",
    "to(torch.float64)",
    "contiguous()",
    "detach()",
    "empty()",
]
ACTS = ["lock_()", "unlock_()", "zero_()", "is_locked", "is_empty()", "filter_empty_()", "to_dict()"]


class Sequences(RuleBasedStateMachine):
    """The same programs on both libraries; what they return takes the place of the collection where a rule says so."""

    @initialize(kind=st.sampled_from(STARTS))
    def begin(self, kind: str) -> None:
        self.kind = kind
        self.history: list[tuple[str, bool]] = []
        self._restart()

    def teardown(self) -> None:
        for library in getattr(self, "libraries", ()):
            library.close()

    def _restart(self) -> None:
        """Make both collections anew, as far as the history goes: an error may have left them half changed."""
        self.teardown()
        self.libraries = [Library(OURS), Library("tensordict", ours=False)]
        # Every object on the way is kept, to see what a later step does to those that share its memory.
        self.seen: list[list[Any]] = [[KINDS[self.kind]["td"](library)] for library in self.libraries]
        for text, adopt in self.history:
            for library, seen in zip(self.libraries, self.seen, strict=True):
                self._run(text, adopt, library, seen)

    def _run(self, text: str, adopt: bool, library: Library, seen: list[Any]) -> Any:
        seed_generators(0)
        result = program(text, LENT)(library, {"td": seen[-1]})
        if adopt:
            seen.append(result)
        return None if result is seen[0] else result

    def step(self, text: str, *, adopt: bool = False) -> None:
        outcomes = []
        for library, seen in zip(self.libraries, self.seen, strict=True):
            recorder = Recorder(ROOTS, [describe_collection])
            try:
                result = self._run(text, adopt, library, seen)
            except Exception as error:
                outcomes.append(Outcome(failed(error, recorder)))
            else:
                # First all that was there, so that the result says what it shares with it.
                inputs = recorder.describe(seen, "seen")
                outcomes.append(Outcome(result=recorder.describe(result), inputs=inputs))
        found = findings(*outcomes)
        if not found:
            if outcomes[0].failure is None:
                self.history.append((text, adopt))
            else:
                self._restart()
            return
        # Beyond a difference on purpose the two have nothing more to say to each other: the step is taken back.
        name = f"sequences/{self.kind}/{text}"
        for finding in found:
            told = f"after {[words for words, _ in self.history]} on {self.kind}: {text}: {finding}"
            assert any(one.explains(name, finding) for one in DIFFERENCES), told
        self._restart()

    @rule(key=LEAVES, value=NUMBERS, size=st.integers(0, 3))
    def set_a_leaf(self, key: Any, value: int, size: int) -> None:
        self.step(f"td.set({key!r}, torch.full((*td.batch_size, {size}), {value}.0))")

    @rule(key=LEAVES, value=NUMBERS)
    def set_by_brackets(self, key: Any, value: int) -> None:
        self.step(f"td[{key!r}] = torch.full(td.batch_size, {value})")

    @rule(key=KEYS, value=NUMBERS)
    def set_in_place(self, key: Any, value: int) -> None:
        self.step(f"td.set_({key!r}, torch.full_like(td[{key!r}], {value}))")

    @rule(key=st.sampled_from(["s", "a", ("n", "s")]), value=st.sampled_from(["'text'", "None", "{1: 2}", "3"]))
    def set_what_is_no_tensor(self, key: Any, value: str) -> None:
        self.step(f"td.set_non_tensor({key!r}, {value})")

    @rule(index=INDICES)
    def assign_zeros(self, index: str) -> None:
        self.step(f"td[{index}] = td[{index}].clone().zero_()")

    @rule(index=INDICES)
    def index(self, index: str) -> None:
        self.step(f"td[{index}]", adopt=True)

    @rule(key=KEYS)
    def get(self, key: Any) -> None:
        self.step(f"td.get({key!r}, 'none')")

    @rule(key=KEYS)
    def pop(self, key: Any) -> None:
        self.step(f"td.pop({key!r}, None)")

    @rule(key=KEYS)
    def delete(self, key: Any) -> None:
        self.step(f"td.del_({key!r})")

    @rule(old=KEYS, new=LEAVES)
    def rename(self, old: Any, new: Any) -> None:
        if isinstance(new, tuple) and old in (new, *new[:-1]):
            return  # into itself
        self.step(f"td.rename_key_({old!r}, {new!r})")

    @rule(key=st.sampled_from(["b", "z", ("p", "q", "r")]), value=NUMBERS, inplace=st.booleans())
    def update(self, key: Any, value: int, inplace: bool) -> None:
        self.step(f"td.update({{{key!r}: torch.full(td.batch_size, {value}.0)}}, inplace={inplace})")

    @rule(inplace=st.booleans())
    def update_with_another(self, inplace: bool) -> None:
        self.step(f"td.update(td.clone().zero_(), inplace={inplace})")

    @rule(key=st.sampled_from(["a", "b", "n", "z", "missing"]), strict=st.booleans(), inplace=st.booleans())
    def select(self, key: str, strict: bool, inplace: bool) -> None:
        self.step(f"td.select({key!r}, strict={strict}, inplace={inplace})", adopt=True)

    @rule(keys=st.lists(KEYS, max_size=3, unique=True), inplace=st.booleans())
    def exclude(self, keys: list[Any], inplace: bool) -> None:
        self.step(f"td.exclude(*{keys!r}, inplace={inplace})", adopt=True)

    @rule()
    def flatten_keys(self) -> None:
        self.step("td.flatten_keys('.')", adopt=True)

    @rule()
    def unflatten_keys(self) -> None:
        self.step("td.unflatten_keys('.')", adopt=True)

    @rule(lazy=st.booleans(), dim=st.integers(0, 1))
    def stack(self, lazy: bool, dim: int) -> None:
        self.step(f"{'lazy_stack' if lazy else 'torch.stack'}([td, td.clone()], {dim})", adopt=True)

    @rule(dim=st.integers(0, 1), at=st.integers(-1, 0))
    def unbind(self, dim: int, at: int) -> None:
        self.step(f"td.unbind({dim})[{at}]", adopt=True)

    @rule(dim=st.integers(0, 1))
    def concatenate(self, dim: int) -> None:
        self.step(f"torch.cat([td, td], {dim})", adopt=True)

    @rule(
        how=st.sampled_from(
            [
                "unsqueeze(0)",
                "unsqueeze(-1)",
                "squeeze(0)",
                "squeeze()",
                "reshape(-1)",
                "flatten()",
                "transpose(0, 1)",
                "view(-1)",
            ]
        )
    )
    def change_shape(self, how: str) -> None:
        self.step(f"td.{how}", adopt=True)

    @rule(how=st.sampled_from(COPIES))
    def copy(self, how: str) -> None:
        self.step(f"td.{how}", adopt=True)

    @rule(how=st.sampled_from(ACTS))
    def act(self, how: str) -> None:
        self.step(f"r = td.{how}; r if r is not td else None")

    @rule()
    def name_dimensions(self) -> None:
        self.step("td.names = list('uvwxyz')[: td.ndim]")

    @rule()
    def list_keys(self) -> None:
        self.step("list(td.keys(True, True))")

    @rule()
    def print(self) -> None:
        self.step("repr(td)")


TestSequences = Sequences.TestCase
TestSequences.settings = settings(
    max_examples=150, stateful_step_count=15, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)

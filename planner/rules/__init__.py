"""Rules: why a strategy is impossible. Each is one predicate over columns and one message with the numbers."""

from planner.rules.attention import ATTENTION_RULES
from planner.rules.batch import BATCH_RULES
from planner.rules.devices import DEVICE_RULES
from planner.rules.host import HOST_RULES
from planner.rules.interface import Rule
from planner.rules.pipeline import PIPELINE_RULES
from planner.rules.sharding import SHARDING_RULES
from planner.rules.windows import WINDOW_RULES

_RULES: tuple[Rule, ...] = (
    *DEVICE_RULES,
    *SHARDING_RULES,
    *ATTENTION_RULES,
    *WINDOW_RULES,
    *BATCH_RULES,
    *HOST_RULES,
    *PIPELINE_RULES,
)

MESH_RULES: tuple[Rule, ...] = tuple(r for r in _RULES if r.level == "mesh")
"""Rules that read only the mesh; they run before the knobs are multiplied out."""

KNOB_RULES: tuple[Rule, ...] = tuple(r for r in _RULES if r.level == "knob")
"""Rules that read the scheme, the backend, microbatches or the loss chunk too."""

ALL_RULES: tuple[Rule, ...] = (*MESH_RULES, *KNOB_RULES)

__all__ = ["ALL_RULES", "KNOB_RULES", "MESH_RULES", "Rule"]

"""Memory of a trainer beyond the step of docs/step.md, for many strategies at once: the bytes of its usual differences."""

from __future__ import annotations

import numpy as np

from cost_models.inputs.layout import Floats, Layout
from cost_models.inputs.setting import Setting
from cost_models.inputs.table import CODES, StrategyTable
from planner.trainers.common.rules import fed_width


def bf16_copy_bytes(setting: Setting, table: StrategyTable) -> Floats:
    """A bf16 copy of a device's matrices (``rules.bf16_copy``)."""
    model = setting.model
    vectors = model.layers * model.layer_vector_parameters + model.d_model
    return 2.0 * (model.parameters - vectors) / Layout(setting, table).state_shards


def kept_bytes(setting: Setting, table: StrategyTable) -> Floats:
    """Tensors that a trainer without rematerialisation keeps and ``save-all`` recomputes (``rules.keeps_more``)."""
    layout, model = Layout(setting, table), setting.model
    width = (2 * model.d_model + fed_width(model)) / layout.tensor
    return np.where(table.remat == CODES["remat"].index("save-all"), 2.0 * layout.tokens * width * model.layers, 0.0)


def whole_loss_bytes(setting: Setting, table: StrategyTable) -> Floats:
    """Logits and their gradient in fp32 of a microbatch's sequences beyond the first (``translate.further_logits``)."""
    layout = Layout(setting, table)
    return 8.0 * (layout.tokens - layout.local_length) * layout.vocab_width

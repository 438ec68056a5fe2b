"""``--for TRAINER``: the part of the space that a trainer runs as it is, as filters and as rules."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cost_models.estimate import need_bytes
from cost_models.inputs.layout import Floats
from cost_models.inputs.setting import Setting
from cost_models.inputs.table import CODES, StrategyTable
from lcplan.formats.errors import BadInputError
from lcplan.formats.units import format_bytes
from lcplan.spec.hardware import HardwareSpec
from lcplan.spec.model import ModelSpec
from lcplan.strategy import STEP_KNOBS, Strategy
from lcplan.strategy import Knob as StrategyKnob
from planner.request.filters import Filters
from planner.rules.interface import Mask, Rule
from planner.trainers.common.interface import Knob, KnobName, Trainer
from planner.trainers.common.programs import priced_as
from planner.trainers.common.rules import whole_loss_bytes, window_rule


def restrict(filters: Filters, trainer: Trainer, *, hardware: HardwareSpec, model: ModelSpec, jax: str = "") -> Filters:
    """Narrow the filters to strategies that the trainer runs exactly.

    Raises
    ------
    BadInputError
        The trainer cannot run the model or the hardware at all, or a filter asks for a value that it cannot run.
    """
    problems = [f"--for {trainer.name}: {problem}" for problem in trainer.refusals(hardware, model)]
    narrowed: dict[str, tuple[str, ...]] = {}
    for name, knob in trainer.knobs(hardware, jax or trainer.jax).items():
        asked: tuple[str, ...] = getattr(filters, name)
        problems += [
            f"--for {trainer.name}: --{name.replace('_', '-')} {value}: {knob.why}; it runs {', '.join(knob.values)}"
            for value in asked
            if value in knob.runs and not knob.exact(value)
        ]
        grid = STEP_KNOBS[name].grid_values(hardware.kind)
        if not asked and not STEP_KNOBS[name].follows and (len(grid) > 1 or grid[0] not in knob.values):
            narrowed[name] = tuple(value for value in knob.values if len(grid) == 1 or value in grid)
    if problems:
        raise BadInputError(problems)
    return filters.model_copy(update=narrowed)


def rules_for(trainer: Trainer, hardware: HardwareSpec, *, jax: str = "") -> tuple[Rule, ...]:
    """Return rules that reject strategies which the trainer would change or cannot run."""
    knobs = trainer.knobs(hardware, jax or trainer.jax)
    found = [_knob_rule(trainer, name, knob=knobs[name]) for name in STEP_KNOBS if name in knobs]
    if not trainer.windows:
        found.append(window_rule(trainer.name))
    if not trainer.any_axis_order:
        found.append(_order_rule(trainer))
    found += [_key_rule(trainer, knob) for knob in trainer.lacks]
    if not trainer.replicates:
        found.append(_replica_rule(trainer))
    if trainer.program.runtime == "torch":
        found.append(_memory_rule(trainer))
    return (*found, *trainer.rules)


def _memory_rule(trainer: Trainer) -> Rule:
    """Build the rule on the memory of the trainer's own step: its logits, its allocator's pool, autograd's tensors."""

    def own(setting: Setting) -> Setting:
        if setting.program.runtime == "torch":  # an imported file's
            return setting
        return replace(setting, program=priced_as(trainer.program, hardware=setting.hardware, model=setting.model))

    def need_of(setting: Setting, table: StrategyTable) -> Floats:
        mine = own(setting)
        if mine.program.runtime == "torch":
            return need_bytes(mine, table)
        further = trainer.further_bytes(mine, table) + (whole_loss_bytes(mine, table) if trainer.whole_loss else 0.0)
        return need_bytes(mine, table) + further

    def broken(setting: Setting, table: StrategyTable) -> Mask:
        return np.asarray(need_of(setting, table) > setting.budget_bytes)

    def say(setting: Setting, strategy: Strategy) -> str:
        need = float(need_of(setting, StrategyTable.from_strategies([strategy]))[0])
        return (
            f"{trainer.name} itself needs {format_bytes(need)} of {format_bytes(setting.budget_bytes)} per device, with "
            "autograd's tensors, its loss and its allocator's pool; use more of context, tensor or fsdp, or full remat"
        )

    return Rule(f"{trainer.name}-memory", "knob", broken, say)


def _knob_rule(trainer: Trainer, name: KnobName, *, knob: Knob) -> Rule:
    allowed = [CODES[name].index(value) for value in knob.values]

    def broken(_: Setting, table: StrategyTable) -> Mask:
        foreign = ~np.isin(getattr(table, name), allowed)
        return np.asarray(foreign & (table.context > 1)) if name == "scheme" else foreign

    def say(_: Setting, strategy: Strategy) -> str:
        return f"{name}={getattr(strategy, name)}: {knob.why}; {trainer.name} runs {', '.join(knob.values)}"

    return Rule(f"{trainer.name}-{name.replace('_', '-')}", "knob", broken, say)


def _order_rule(trainer: Trainer) -> Rule:
    def broken(_: Setting, table: StrategyTable) -> Mask:
        return table.axis_order != 0

    def say(_: Setting, strategy: Strategy) -> str:
        return f"axis order {','.join(strategy.axis_order)}: {trainer.name} places data, fsdp, context, tensor from outside in"

    return Rule(f"{trainer.name}-axis-order", "knob", broken, say)


def _key_rule(trainer: Trainer, knob: StrategyKnob) -> Rule:
    """The default of a knob is all that the trainer runs."""
    default = CODES[knob.name].index(knob.default) if knob.values else knob.default

    def broken(_: Setting, table: StrategyTable) -> Mask:
        return np.asarray(getattr(table, knob.name) != default)

    def say(_: Setting, strategy: Strategy) -> str:
        value = strategy.knob(knob.name)
        return f"{knob.name}={value}: lcplan knows no key of {trainer.name} for it; use {knob.name}={knob.default}"

    return Rule(f"{trainer.name}-{knob.word}", "knob", broken, say)


def _replica_rule(trainer: Trainer) -> Rule:
    def broken(_: Setting, table: StrategyTable) -> Mask:
        return table.data > 1

    def say(_: Setting, strategy: Strategy) -> str:
        return f"data={strategy.mesh.data}: {trainer.name} shards over every rank with a batch of its own; use fsdp for data"

    return Rule(f"{trainer.name}-data", "knob", broken, say)

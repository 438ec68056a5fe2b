"""Rules on sliding windows: which schemes have a halo, and how far it reaches."""

from __future__ import annotations

import numpy as np

from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from lcplan.spec.model import ModelSpec
from lcplan.strategy import SCHEME_FACTS, SchemeFacts, Strategy
from planner.rules.interface import Mask, Rule, code


def _halves(facts: SchemeFacts) -> bool:
    """Whether a rank by itself, and not a group that exchanges heads, holds two half chunks."""
    return facts.balanced and not facts.groups


def _longest(setting: Setting) -> int:
    """The longest window that is shorter than the sequence [tokens]; 0 if no window is."""
    seq = setting.workload.seq_len
    return max((kind.window for kind in setting.model.layer_kinds if kind.window and kind.window < seq), default=0)


def everywhere(model: ModelSpec, seq_len: int) -> bool:
    """Whether every layer has a window that is shorter than the sequence."""
    return all(kind.window is not None and kind.window < seq_len for kind in model.layer_kinds)


def _uneven(setting: Setting, table: StrategyTable) -> Mask:
    if not everywhere(setting.model, setting.workload.seq_len):
        return np.zeros(len(table), dtype=np.bool_)
    both_ways = (table.context > 1) & (table.bidirectional == code("bidirectional", "on"))
    return np.asarray(table.scheme_has(_halves) | both_ways)


def _say_uneven(setting: Setting, strategy: Strategy) -> str:
    what = f"scheme={strategy.scheme}" if _halves(SCHEME_FACTS[strategy.scheme]) else "bidirectional=on"
    return (
        f"{what}: every layer of {setting.model.name} attends in a window of {_longest(setting)} tokens, so that ranks with "
        "contiguous chunks work alike and nothing goes round; use scheme=ring, whose ranks exchange halos, or ulysses, and "
        "bidirectional=off"
    )


def _reach(setting: Setting, table: StrategyTable) -> Mask:
    half = setting.workload.seq_len // (2 * np.maximum(table.context // table.ulysses, 1))
    return np.asarray(table.scheme_has(lambda facts: facts.balanced) & (_longest(setting) - 1 > half))


def _say_reach(setting: Setting, strategy: Strategy) -> str:
    context, seq, window = strategy.mesh.context, setting.workload.seq_len, _longest(setting)
    most = seq // (2 * (window - 1))
    sizes, fewer = f"context={context}", "context"
    if strategy.ulysses > 1:
        sizes, fewer = f"{sizes}, ulysses={strategy.ulysses}", "context / ulysses"
    way = f"{fewer} up to {most}, or " if most > 1 else ""
    half = seq // (2 * (context // strategy.ulysses))
    return (
        f"the window of {window} tokens of {setting.model.name} reaches beyond the half chunk of {half} tokens "
        f"that {sizes} leaves scheme={strategy.scheme}; use {way}scheme=ring, whose halo may be several chunks"
    )


WINDOW_RULES: tuple[Rule, ...] = (
    Rule("window-balance", "knob", _uneven, _say_uneven),
    Rule("window-reach", "knob", _reach, _say_reach),
)

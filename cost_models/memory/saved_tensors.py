"""Named tensors (lcplan.strategy.remat) that one layer keeps for its backward pass, on the device or in the host's memory."""

from __future__ import annotations

from functools import reduce

import numpy as np

from cost_models.experts.buffers import ExpertLayout
from cost_models.inputs.layout import Bools, Floats, Layout
from cost_models.inputs.stages import Stages
from lcplan.strategy.remat import LAYER_IN, NAMED_TENSORS, OFFLOAD_PERCENT, offloading_iterations

FP32_BYTES = 4.0


def kept_bytes(layout: Layout) -> dict[str, Floats]:
    """Return the size of each tensor that one layer keeps per microbatch, including ``layer_in``; 0 where it is not kept.

    Parameters
    ----------
    layout : Layout
        Candidates.

    Returns
    -------
    dict of ndarray, shape [n]
        By name [bytes per device and layer].

    Notes
    -----
    Source: lcplan/strategy/remat.py and docs/step.md define the names.
    """
    stream = layout.activation_bytes * layout.stream_tokens * layout.setting.model.d_model
    token = layout.activation_bytes * layout.tokens
    model, program = layout.setting.model, layout.setting.program
    attended = FP32_BYTES * layout.tokens if program.attention_dtype == "fp32" else token
    key, value = model.key_dim / model.head_dim, model.value_dim / model.head_dim
    sizes: dict[str, Floats] = {
        "query": attended * layout.query_width * key,
        "key": attended * layout.kv_width * key,
        "value": attended * layout.kv_width * value,
        "attention_output": attended * layout.query_width * value,
        "lse": _weights(layout, attended),
        "attention_out": stream,
        **_fed(layout),
    }
    kept = {LAYER_IN: stream, **{name: sizes[name] * layout.saves(name) for name in NAMED_TENSORS}}
    if program.runtime == "xla" and program.norms == "kept":
        everything = np.logical_and.reduce([layout.saves(name) for name in NAMED_TENSORS])
        kept["norms"] = 2.0 * FP32_BYTES / layout.activation_bytes * stream * everything
    return kept


def _weights(layout: Layout, attended: Floats) -> Floats:
    """Return the size of the softmax's output, or of the log-sum-exps from which fused attention recomputes it.

    The keys are those of the whole sequence, whether queries or heads are split: ``T/c`` queries of N heads, or T of N/c.
    """
    model, program = layout.setting.model, layout.setting.program
    heads = layout.query_width / model.head_dim
    if program.runtime == "xla" and program.attention == "unfused":
        return attended * heads * layout.setting.workload.seq_len
    return FP32_BYTES * layout.tokens * heads


def _fed(layout: Layout) -> dict[str, Floats]:
    """Return the size of the feed-forward's named tensors.

    They cover all tokens; with experts, the rows that a rank's experts received, and all tokens for shared experts.
    """
    if layout.setting.model.routed is None:
        wide = layout.activation_bytes * layout.tokens * layout.ff_width
        return {"gate": wide, "up": wide, "dispatched": np.zeros_like(wide)}
    part = ExpertLayout(layout)
    row = layout.activation_bytes * part.rows
    wide = row * part.width + layout.activation_bytes * layout.tokens * layout.shared_width
    return {"gate": wide, "up": wide, "dispatched": row * layout.setting.model.d_model}


def on_device_bytes(layout: Layout) -> Floats:
    """Return the size of the tensors that all layers keep on the device: those kept and not offloaded.

    Parameters
    ----------
    layout : Layout
        Candidates.

    Returns
    -------
    ndarray, shape [n]
        All layers of one microbatch [bytes per device].

    Notes
    -----
    Source: ``kept_bytes``; the remat policy or the setting's program names the offloaded tensors.
    """
    zero = np.zeros(len(layout.table))
    return reduce(
        np.add,
        [
            _layers(part) * sum(kept_bytes(part).values(), start=zero) - offloading_layers(part) * _away_bytes(part)
            for part in layout.parts
        ],
    )


def host_bytes(layout: Layout) -> Floats:
    """Return the size of the tensors that all layers keep in the host's memory.

    Parameters
    ----------
    layout : Layout
        Candidates.

    Returns
    -------
    ndarray, shape [n]
        All layers of one microbatch [bytes of host memory per device].

    Notes
    -----
    An executable reports it as ``host_temp_bytes``. Source: ``kept_bytes``; docs/step.md, remat.
    """
    held = Stages(layout).held_share if (layout.table.pipe > 1).any() else 1.0
    return held * reduce(np.add, [offloading_layers(part) * _away_bytes(part) for part in layout.parts])


def _layers(part: Layout) -> int:
    return part.setting.model.layers


def offloading_layers(part: Layout) -> Floats | float:
    """Return the layers of one kind that offload their tensors, where the remat policy offloads any.

    ``sum over runs of n ceil(p r / 100)``: the first iterations of each run (``lcplan.strategy.remat.offloading_iterations``).

    Parameters
    ----------
    part : Layout
        Candidates, of one kind of layers; p is ``offload_percent``, r a run's iterations, n its layers of the kind in each.

    Returns
    -------
    ndarray, shape [n]
        Layers [count]; one number where all candidates offload in every layer.

    Notes
    -----
    Source: ``strategies.model.layer_loops`` splits the loops this way; docs/step.md, remat.
    """
    percent = part.table.offload_percent
    if (percent == OFFLOAD_PERCENT).all():
        return float(_layers(part))
    kind, whole = part.setting.model.kind_of(0), part.setting.model if part.whole is None else part.whole.setting.model
    layers = np.zeros(len(percent))
    for run in whole.layer_runs:
        layers += run.period.count(kind) * offloading_iterations(run.repeats, percent)
    return layers


def host_is_full(layout: Layout) -> Bools:
    """Return whether the tensors that remat offloads exceed the host's memory.

    Parameters
    ----------
    layout : Layout
        Candidates.

    Returns
    -------
    ndarray of bool, shape [n]
        Whether ``host_bytes`` [bytes] exceeds a device's share of its host's memory [bytes]; False where that is unknown.

    Notes
    -----
    Source: ``host_memory_bytes`` of the hardware spec, which gives its source.
    """
    share = layout.setting.hardware.device.host_memory_bytes
    if share is None or not layout.offloaded:
        return np.zeros(len(layout.table), dtype=np.bool_)
    return host_bytes(layout) > share.value


def _away_bytes(layout: Layout) -> Floats:
    """Return the bytes that one layer keeps in the host's memory per microbatch."""
    away = np.zeros(len(layout.table))
    if layout.offloaded:
        sizes = kept_bytes(layout)
        for name in layout.offloaded:
            away = away + sizes[name] * layout.offloads(name)
    return away


def offload_seconds(layout: Layout) -> Floats:
    """Return the time to write offloaded tensors to the host and to read them again.

    ``2 b / B``: one transfer in each direction.

    Parameters
    ----------
    layout : Layout
        Candidates; the device's ``host_oneway_bytes_per_s`` is B.

    Returns
    -------
    ndarray, shape [n]
        Transfers of one layer and microbatch [s]; 0 where nothing is offloaded or the host link is unknown.

    Notes
    -----
    Ignores that devices of one host share its memory. Source: docs/tables.md, ``offloaded``.
    """
    link = layout.setting.hardware.device.host_oneway_bytes_per_s
    if link is None or not layout.offloaded:
        return np.zeros(len(layout.table))
    return 2.0 * _away_bytes(layout) / link.value

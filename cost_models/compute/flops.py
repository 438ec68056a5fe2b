"""Floating-point work of one step, in the three conventions that published TFLOP/s figures use."""

from __future__ import annotations

from functools import reduce

import numpy as np

from cost_models.inputs.layout import Bools, Floats, Layout
from cost_models.inputs.setting import Setting
from cost_models.masks.documents import document_pairs
from lcplan.spec.model import ModelSpec

BACKWARD_OF_FORWARD = 2.0
"""A matrix product's backward pass: one product for its input, one for its weight."""


def matrix_flop_per_token(model: ModelSpec) -> float:
    """Return the work of all matrix products on one token, forward and backward: 6 FLOP per parameter that the token uses.

    ``6 (L P_layer + V D)``: two FLOP per multiply-add, once forward and twice backward. The head counts, the embedding
    look-up does not; ``attention_flop_per_sequence`` has attention's own products. With experts, the router and a token's
    active experts count.

    Parameters
    ----------
    model : ModelSpec
        Decoder.

    Returns
    -------
    float
        Work [FLOP per token].

    Notes
    -----
    Ignores norms, RoPE, softmax and the optimizer, as every published convention does.

    Source: Kaplan et al., Scaling Laws for Neural Language Models (arXiv:2001.08361), section 2.1.

    Examples
    --------
    >>> llama = ModelSpec(name="l", layers=32, d_model=4096, d_ff=14336, heads=32, kv_heads=8, head_dim=128, vocab=128256)
    >>> matrix_flop_per_token(llama) / 6 == 32 * 218103808 + 128256 * 4096
    True
    """
    return 6.0 * (model.active_matrix_parameters + model.vocab * model.d_model)


def attention_flop_per_sequence(
    model: ModelSpec, seq_len: float, *, causal: bool = True, document_len: int | None = None
) -> float:
    """Return the work of attention's two products on one sequence, forward and backward, over all layers.

    Forward takes ``4 N H T^2`` per layer (scores and values, two FLOP per multiply-add), backward twice as much. Causal
    attention needs half of both; a layer with a sliding window needs ``W T - W^2 / 2`` in place of ``T^2 / 2``. A packed
    sequence needs only pairs inside its documents: the sum over documents, with their lengths in place of T.

    Parameters
    ----------
    model : ModelSpec
        Dense decoder.
    seq_len : float
        T [tokens], above 0.
    causal : bool
        Count only the half that causal attention needs, less the scores that windows and documents mask; False: count all
        T x T scores of every layer.
    document_len : int, optional
        m, tokens of each document of a packed sequence [tokens]; None: the sequence is one document.

    Returns
    -------
    float
        Work [FLOP per sequence].

    Notes
    -----
    The fifth product, which flash attention repeats in its backward pass, is hardware work and not counted.

    Source: Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters (arXiv:2104.04473), appendix;
    the causal half as in Dao, FlashAttention-2 (arXiv:2307.08691), section 4.1; documents as in Megatron-LM's
    ``num_floating_point_operations``, by the sum of squared lengths.

    Examples
    --------
    >>> tiny = ModelSpec(name="t", layers=1, d_model=8, d_ff=8, heads=2, kv_heads=1, head_dim=4, vocab=8)
    >>> attention_flop_per_sequence(tiny, 10.0, causal=False)
    9600.0
    >>> attention_flop_per_sequence(tiny.model_copy(update={"sliding_window": 2}), 10.0)  # 2 x 10 - 2 scores per head
    1728.0
    >>> attention_flop_per_sequence(tiny, 10.0, document_len=5)  # two documents: 2 x 12 x 8 x 25 / 2
    2400.0
    """
    scores = 0.0
    for kind, layers in model.layer_kinds.items():
        full = 12.0 * layers * model.heads * model.head_dim * float(seq_len) ** 2
        kept = document_pairs(seq_len, document_len=document_len, window=kind.window)
        scores += full * (kept / float(seq_len) ** 2 if seq_len else 0.0) if causal else full
    return scores


def model_flop(setting: Setting) -> float:
    """Return the work of one step that the model needs: causal attention counts half, only inside documents, without repeats.

    Parameters
    ----------
    setting : Setting
        Model and workload.

    Returns
    -------
    float
        Work [FLOP per step] of all devices.

    Notes
    -----
    Source: PaLM (arXiv:2204.02311), appendix B, for model FLOPs as the base of MFU; causal half as in FlashAttention-2.
    """
    return _flop(setting, causal=True)


def full_attention_flop(setting: Setting) -> float:
    """Return the work of one step where attention counts all T x T scores, including masked scores.

    Parameters
    ----------
    setting : Setting
        Model and workload.

    Returns
    -------
    float
        Work [FLOP per step] of all devices.

    Notes
    -----
    Source: PaLM (arXiv:2204.02311), appendix B; MaxText's own count until July 2025.
    """
    return _flop(setting, causal=False)


def _flop(setting: Setting, *, causal: bool) -> float:
    work = setting.workload
    attention = attention_flop_per_sequence(setting.model, work.seq_len, causal=causal, document_len=work.document_len)
    return work.tokens * matrix_flop_per_token(setting.model) + work.global_batch * attention


def recomputed_matrix_parameters(layout: Layout) -> Floats:
    """Return the parameters of a layer's matrices whose products the backward pass repeats, by remat policy.

    A product is repeated unless its result is kept: query, key, value, ``attention_out``, gate, up. The down projection's
    result only enters the residual stream, which the next layer keeps, so a compiler removes its repetition. A trainer that
    repeats whole layers, or whose routing weights multiply that result, repeats it too.

    Parameters
    ----------
    layout : Layout
        Candidates.

    Returns
    -------
    ndarray, shape [n]
        Parameters [count per layer], whole model width (not divided by tensor).

    Notes
    -----
    Source: docs/step.md, lcplan/strategy/remat.py; for selective recompute Korthikanti et al. (arXiv:2205.05198), section 5.
    """
    return layout.once("recomputed_matrix_parameters", lambda: _recomputed(layout))


def _recomputed(layout: Layout) -> Floats:
    model = layout.setting.model
    experts = model.routed
    width = model.d_ff if experts is None else experts.active * experts.d_ff + experts.shared_d_ff
    sizes = {
        **model.attention_products,
        "gate": model.d_model * (model.up_matrices - 1) * width,
        "up": model.d_model * width,
    }
    total = np.full(len(layout.table), float(model.router_parameters + model.latent_parameters))
    for name, elements in sizes.items():
        total = total + float(elements) * ~layout.saves(name)
    if layout.setting.program.repeats == "whole-layer":
        last = float(model.d_model * width)
        total = total + (total == model.active_layer_matrix_parameters - last) * last
    elif experts is not None and layout.setting.program.expert_weights == "after-down":
        total = total + float(model.d_model * experts.active * experts.d_ff) * ~(layout.saves("gate") & layout.saves("up"))
    return total


def recomputes_attention(layout: Layout) -> Bools:
    """Return the rows whose backward pass repeats the forward attention kernels.

    Parameters
    ----------
    layout : Layout
        Candidates.

    Returns
    -------
    ndarray of bool, shape [n]
        True where output or log-sum-exp is not kept [no unit].

    Notes
    -----
    Source: docs/step.md: the ring's custom backward pass needs only output and log-sum-exp.
    """
    return layout.once("recomputes_attention", lambda: ~(layout.saves("attention_output") & layout.saves("lse")))


def hardware_flop(layout: Layout) -> Floats:
    """Return the executed work of one step: the model's FLOPs plus the forward work that rematerialisation repeats.

    Parameters
    ----------
    layout : Layout
        Candidates.

    Returns
    -------
    ndarray, shape [n]
        Work [FLOP per step] of all devices; causal attention counts half.

    Notes
    -----
    The loss repeats no work: its gradient is computed while the logits are alive.
    Source: Korthikanti et al. (arXiv:2205.05198), section 6.3, hardware against model FLOPs.
    """
    setting = layout.setting
    model, work = setting.model, setting.workload
    repeated = [part.setting.model.layers * recomputed_matrix_parameters(part) for part in layout.parts]
    matrices = 2.0 * work.tokens * reduce(np.add, repeated)
    whole = attention_flop_per_sequence(model, work.seq_len, document_len=work.document_len)
    forward_attention = whole / (1 + BACKWARD_OF_FORWARD)
    attention = work.global_batch * forward_attention * recomputes_attention(layout)
    return np.asarray(model_flop(setting) + matrices + attention)

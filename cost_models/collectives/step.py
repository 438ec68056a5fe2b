"""Every collective of the step, as columns: the single list from which both memory and time are priced.

The list is docs/step.md's table, row by row. A test compares it with the collectives of compiled executables.
"""

from __future__ import annotations

import numpy as np

from cost_models.collectives.context import context_terms
from cost_models.collectives.experts import expert_terms
from cost_models.collectives.libtpu_reductions import as_libtpu_reduces
from cost_models.collectives.pipeline import pipeline_terms
from cost_models.compute.flops import recomputed_matrix_parameters
from cost_models.inputs.collective_term import Term, merged, on
from cost_models.inputs.layout import Floats, Layout
from cost_models.inputs.setting import Setting
from cost_models.inputs.stages import Stages, dealt, layer_passes
from cost_models.inputs.state_place import optimizer_shards
from cost_models.inputs.table import StrategyTable
from lcplan.spec.collective import CollectiveUse
from lcplan.strategy import AXES, AxisName, Strategy

STREAM_RING = "stream-ring"
"""Purpose of the permutes of collective matmuls."""

UPDATES = "updates"
"""Purpose of broadcasts of updated weights."""

TENSORS_OF_LAYER = 9.0
"""Tensors of a layer that an optimizer assigns to ranks as a whole: two norms, four of attention, three of the feed-forward."""

NVSHMEM_ALL_REDUCE_LIMIT_BYTES = 16 * 2**20
"""Size below which XLA assigns an all-reduce to NVSHMEM (the NVIDIA blog of 2026-02-03 gives "typically 16 MB")."""


def collective_terms(setting: Setting, table: StrategyTable) -> list[Term]:
    """Return all collectives of each candidate's step.

    Parameters
    ----------
    setting : Setting
        Model, machine and workload.
    table : StrategyTable
        Candidates.

    Returns
    -------
    list of Term
        Bytes [bytes per call] and calls [per step], shape ``[n]`` each.

    Notes
    -----
    Source: docs/step.md, table of collectives.
    """
    return terms_of(Layout(setting, table))


def terms_of(layout: Layout) -> list[Term]:
    """Return ``collective_terms`` for candidates with a layout; each kind of layers has its own terms.

    Parameters
    ----------
    layout : Layout
        Candidates.

    Returns
    -------
    list of Term
        Bytes [bytes per call] and calls [per step].

    Notes
    -----
    Source: docs/step.md, table of collectives.
    """
    if len(layout.parts) > 1:
        return merged([term for part in layout.parts for term in terms_of(part)])
    dense = [*_weights(layout), *_tables(layout), *_stream(layout), *_loss(layout), *context_terms(layout), *_step(layout)]
    return as_libtpu_reduces(layout, [*dense, *expert_terms(layout), *pipeline_terms(layout)])


def _weights(layout: Layout) -> list[Term]:
    model, t = layout.setting.model, layout.tensor
    passes = layer_passes(layout)
    gathers = 2.0 if layout.setting.program.weights_gathered == "each-pass" else 1.0
    spread = 2.0 * model.d_model * model.head_dim * model.kv_heads
    fed = model.shared_matrix_parameters if model.routed else model.dense_matrix_parameters
    dense = sum(model.attention_products.values()) + fed
    shared = (dense - spread * layout.kv_spread) / t
    apart = np.where(layout.kv_spread, spread, 0.0)
    everywhere: tuple[AxisName, ...] = (*layout.weight_axes, "tensor")
    kinds = [(layout.weight_axes, shared, "weights"), (everywhere, apart, "key-value-weights")]
    if model.latent:
        kinds.append((everywhere, np.full_like(apart, model.latent_parameters), "latent-weights"))
    terms = []
    for axes, elements, name in kinds:
        calls = on(axes, passes, layout=layout) * (elements > 0)
        terms.append(Term("all-gather", axes, name, layout.gather_bytes * elements, gathers * calls, "prefetch"))
        terms.append(Term("reduce-scatter", axes, name, layout.reduce_bytes * elements, calls, "behind-backward"))
    return terms


def _tables(layout: Layout) -> list[Term]:
    """Return the collectives of embedding and head; a tied head gathers the same table again."""
    if layout.outside is None:
        return []
    model = layout.setting.model
    elements = layout.vocab_width * model.d_model
    calls = on(layout.weight_axes, 2 * layout.microbatches, layout=layout)
    return [
        Term("all-gather", layout.weight_axes, "tables", layout.gather_bytes * elements, calls, "exposed"),
        Term("reduce-scatter", layout.weight_axes, "tables", layout.reduce_bytes * elements, calls, "exposed"),
    ]


def _stream(layout: Layout) -> list[Term]:
    """Return the gathers of the residual stream before column-parallel products and the scatters after row-parallel ones.

    In collective matmuls each becomes ``t - 1`` hops of a piece; those of the embedding and of routed experts stay. A
    feed-forward has half of the gathers, and two scatters: forward, and backward of its gather. Tensor ranks that hold whole
    experts route their own part of the stream, so that a feed-forward without shared experts has neither.
    """
    tensor: tuple[AxisName, ...] = ("tensor",)
    model = layout.setting.model
    size = layout.activation_bytes * layout.tokens * model.d_model
    layers = layer_passes(layout)
    again = np.where(layout.saves("attention_out"), 0.0, 1.0)
    inputs = 6.0 if layout.setting.program.sequence_parallel else 4.0 + 2.0 * (recomputed_matrix_parameters(layout) > 0)
    latent = layers if model.latent else 0.0
    embedding = 0.0 if layout.outside is None else layout.microbatches * (layout.table.pipe == 1)
    routed = 0.5 if model.routed else 0.0
    apart = layout.whole_experts * (model.routed is not None and not model.routed.shared_d_ff)
    rings_in, rings_out = layout.ring_matmuls * (1 - routed) * inputs, layout.ring_matmuls * (4 * (1 - routed) + again)
    gathers = on(tensor, (inputs * (1 - 0.5 * apart) - rings_in) * layers + embedding - 2.0 * latent, layout=layout)
    scatters = on(tensor, (4 - 2.0 * apart + again - rings_out) * layers + embedding - latent, layout=layout)
    hops = (rings_in + rings_out) * layers * (layout.tensor - 1)
    terms = [
        Term("all-gather", tensor, "stream", size, gathers, "exposed"),
        Term("reduce-scatter", tensor, "stream", size, scatters, "exposed"),
        Term("collective-permute", tensor, STREAM_RING, size / layout.tensor, hops, "ring"),
    ]
    return [*terms, *_compressed(layout, latent)] if model.latent else terms


def _compressed(layout: Layout, layers: Floats | float) -> list[Term]:
    """Return the gathers, forward and again, and the scatter of the compressed rows of latent attention."""
    tensor: tuple[AxisName, ...] = ("tensor",)
    size = layout.activation_bytes * layout.tokens * layout.setting.model.attended_width
    calls = on(tensor, layers, layout=layout)
    return [
        Term("all-gather", tensor, "stream", size, 2.0 * calls, "exposed"),
        Term("reduce-scatter", tensor, "stream", size, calls, "exposed"),
    ]


def _loss(layout: Layout) -> list[Term]:
    if layout.outside is None:
        return []
    tensor: tuple[AxisName, ...] = ("tensor",)
    own = dealt(layout)
    calls = on(tensor, own.loss_chunks * layout.microbatches, layout=layout)
    hidden = layout.activation_bytes * own.loss_chunk * layout.setting.model.d_model
    return [
        Term("all-gather", tensor, "loss", hidden, calls, "exposed"),
        Term("reduce-scatter", tensor, "loss", hidden, calls, "exposed"),
        Term("all-reduce", tensor, "loss-maximum", 4.0 * own.loss_chunk, calls, "exposed"),
        Term("all-reduce", tensor, "loss-sums", 8.0 * own.loss_chunk, calls, "exposed"),
    ]


def _step(layout: Layout) -> list[Term]:
    """Return the collectives once per step: gradients and vectors over the axes that replicate them, and scalars."""
    if layout.outside is None:
        return []
    everywhere: tuple[AxisName, ...] = ("data", *layout.state_axes, "tensor")
    whole: tuple[AxisName, ...] = ("pipe", *everywhere)
    one, twice = (on(whole, calls, layout=layout) for calls in (1.0, 2.0))
    return [
        *_vectors(layout.outside, everywhere, whole, one),
        *_gradients(layout.outside),
        Term("all-reduce", whole, "scalars", np.full(len(layout.table), 4.0), twice, "exposed"),
    ]


def _vectors(layout: Layout, everywhere: tuple[AxisName, ...], whole: tuple[AxisName, ...], one: Floats) -> list[Term]:
    """Return the sums of norms and biases: with stages a layer's over its stage's ranks, the last norm's over all."""
    model, piped = layout.setting.model, layout.table.pipe > 1
    stage = Stages(layout).share
    layers = 4.0 * (model.vector_parameters - model.d_model * piped) * stage
    terms = [Term("all-reduce", everywhere, "vectors", layers, on(everywhere, 1.0, layout=layout), "exposed")]
    last = np.full(len(layout.table), 4.0 * model.d_model)
    return [*terms, Term("all-reduce", whole, "vectors", last, one * piped, "exposed")] if piped.any() else terms


def _gradients(layout: Layout) -> list[Term]:
    """Return the gradients' all-reduce, or a distributed optimizer's scatter and its gather of weights in the compute dtype."""
    model, program = layout.setting.model, layout.setting.program
    stages = Stages(layout)
    elements = (model.matrix_parameters * stages.share + model.embedding_parameters / stages.pipe) / layout.state_shards
    size = (2.0 if program.pure_bf16 or program.gradients_sent == "bf16" else 4.0) * elements
    axes = layout.gradient_axes
    once = on(axes, 1.0, layout=layout)
    if program.optimizer_over == "weights":
        return [Term("all-reduce", axes, "gradients", size, once, "exposed")]
    updated = layout.activation_bytes * elements
    inside = np.where(optimizer_shards(layout) < layout.members(axes), 0.0, once)
    return [
        Term("all-reduce", axes, "gradients", size, once - inside, "exposed"),
        Term("reduce-scatter", axes, "gradients", size, inside, "exposed"),
        *_updates(layout, updated, inside),
    ]


def _updates(layout: Layout, size: Floats, calls: Floats) -> list[Term]:
    """Return the collectives of updated weights [bytes]: one gather, or one broadcast for each rank that owns tensors.

    A broadcast passes every rank of the group as a ring's gather does, so that it is priced as a gather of its part.
    """
    axes = layout.gradient_axes
    if layout.setting.program.updated_weights == "gathered":
        return [Term("all-gather", axes, "gradients", size, calls, "exposed")]
    owners = np.minimum(optimizer_shards(layout), TENSORS_OF_LAYER * layout.setting.model.layers)
    return [Term("all-gather", axes, UPDATES, size / owners, calls * owners, "exposed")]


def collectives(setting: Setting, strategy: Strategy) -> tuple[CollectiveUse, ...]:
    """Return one strategy's collectives, with the backend that XLA's rule assigns to each.

    Parameters
    ----------
    setting : Setting
        Model, machine and workload.
    strategy : Strategy
        One candidate.

    Returns
    -------
    tuple of CollectiveUse
        Collectives with at least one call; bytes [bytes per call], calls [per step].

    Notes
    -----
    Source: docs/step.md; the NVSHMEM rule from NVIDIA, Accelerating Long-Context Model Training in JAX and XLA
    (2026-02-03): permutes always, all-reduces below about 16 MiB, nothing else.
    """
    uses = []
    for term in collective_terms(setting, StrategyTable.from_strategies([strategy])):
        calls = round(float(term.calls[0]))
        if calls:
            size = round(float(term.bytes[0]))
            backend = assigned_backend(strategy.backend, op=term.op, size_bytes=size)
            axis = axis_label(strategy, term)
            uses.append(CollectiveUse(op=term.op, axis=axis, bytes=size, calls=calls, backend=backend, purpose=term.purpose))
    return tuple(uses)


def axis_label(strategy: Strategy, term: Term) -> str:
    """Return the axes over which a strategy's collective runs, in the form of ``CollectiveUse.axis``.

    Parameters
    ----------
    strategy : Strategy
        One candidate.
    term : Term
        One of its collectives.

    Returns
    -------
    str
        ``fsdp+context``; ``context/4`` where four neighbours of the axis are a group; ``experts`` for folded ranks [no unit].

    Notes
    -----
    Source: docs/step.md, table of collectives.
    """
    if term.subgroup in ("experts", "expert-replicas") and strategy.expert_fold > 1:
        return term.subgroup
    label = "+".join(axis for axis in AXES if axis in term.axes and getattr(strategy.mesh, axis) > 1)
    neighbours = term.subgroup == "neighbours" and 1 < strategy.ulysses < strategy.mesh.context
    return f"{label}/{strategy.ulysses}" if neighbours else label


def assigned_backend(requested: str, *, op: str, size_bytes: float) -> str:
    """Return the backend that XLA assigns to a collective when ``requested`` is chosen.

    Parameters
    ----------
    requested : str
        The strategy's backend.
    op : str
        Kind of collective.
    size_bytes : float
        Operand [bytes].

    Returns
    -------
    str
        ``requested`` or ``nccl`` [no unit].

    Notes
    -----
    Source: NVIDIA blog of 2026-02-03 for ``nvshmem``; XLA's collective-permute mode for ``symmetric``, which moves only
    permutes in jax 0.10.1.
    """
    if requested not in {"nvshmem", "symmetric"} or op == "collective-permute":
        return requested
    small = op == "all-reduce" and size_bytes < NVSHMEM_ALL_REDUCE_LIMIT_BYTES
    return "nvshmem" if requested == "nvshmem" and small else "nccl"

"""Limits of this program, each with its reason; checked before tracing."""

from __future__ import annotations

from collections.abc import Iterator

from lcplan.formats.errors import BadInputError
from lcplan.strategy import GROUP_SCHEME_NAMES, RING_SCHEMES, SCHEME_FACTS
from lcplan.strategy.remat import REMAT_POLICIES
from strategies.inputs.step_spec import StepSpec
from strategies.pipeline.limits import pipeline_limits
from strategies.schemes.layout import zigzag


def check(spec: StepSpec) -> None:
    """Raise every reason at once.

    Raises
    ------
    BadInputError
        One line for each limit that the spec is against.
    """
    own = (_mesh, _exchange, _ring, _global_view, _windows, _features, pipeline_limits)
    problems = [problem for limits in own for problem in limits(spec)]
    if problems:
        raise BadInputError(problems)


def _divides(part: tuple[str, int], whole: tuple[str, int], *, hint: str) -> Iterator[str]:
    if whole[1] % part[1]:
        yield f"{part[0]}={part[1]} does not divide {whole[0]}={whole[1]}; {hint}"


def _mesh(spec: StepSpec) -> Iterator[str]:
    model, mesh, workload = spec.model, spec.strategy.mesh, spec.workload
    tensor = "tensor", mesh.tensor
    for dim, size in (("heads", model.heads), *model.widths.items(), ("vocab", model.vocab)):
        yield from _divides(tensor, (dim, size), hint="choose a tensor size that divides it")
    if model.kv_heads % mesh.tensor and mesh.tensor % model.kv_heads:
        yield f"tensor={mesh.tensor} neither divides kv_heads={model.kv_heads} nor is a multiple of it; choose one that does"
    over_tensor = spec.kv_replicated or model.experts is not None
    shards = mesh.fsdp * mesh.context * mesh.expert * (mesh.tensor if over_tensor else 1)
    names = " x ".join(("fsdp", "context", *("expert",) * (mesh.expert > 1), *("tensor",) * over_tensor))
    yield from _divides((names, shards), ("d_model", model.d_model), hint="every matrix is split over it along D")
    yield from _divides(("context", mesh.context), ("seq_len", workload.seq_len), hint="use a power of two")
    chunks = mesh.context // spec.strategy.ulysses
    if zigzag(spec.strategy):
        yield from _divides(("half chunks", 2 * chunks), ("seq_len", workload.seq_len), hint="use a power of two")
    sequences = mesh.data * mesh.fsdp * mesh.expert * spec.strategy.microbatches
    yield from _divides(
        ("data x fsdp x " + "expert x " * (mesh.expert > 1) + "microbatches", sequences),
        ("global_batch", workload.global_batch),
        hint="every microbatch needs whole sequences",
    )
    tokens = workload.global_batch // sequences * (workload.seq_len // mesh.context)
    yield from _divides(
        tensor, ("tokens of a microbatch on a context rank", tokens), hint="the residual stream is split over tensor"
    )


def _exchange(spec: StepSpec) -> Iterator[str]:
    """Heads are split over the ranks that exchange them too."""
    model, mesh, strategy = spec.model, spec.strategy.mesh, spec.strategy
    scheme, facts = strategy.scheme, SCHEME_FACTS[strategy.scheme]
    if facts.groups and mesh.context > 1 and (mesh.context % strategy.ulysses or not 1 < strategy.ulysses < mesh.context):
        yield f"ulysses={strategy.ulysses} is no divisor of context={mesh.context} between 1 and it; {scheme} needs one"
        return
    if strategy.ulysses > 1 and not facts.groups:
        yield f"ulysses={strategy.ulysses} with scheme {scheme}: only {GROUP_SCHEME_NAMES} exchanges heads in groups; use 1"
    if facts.exchange == "nothing":
        return
    ranks, names = (strategy.ulysses, "ulysses") if facts.groups else (mesh.context, "context")
    ranks, names = ranks * mesh.tensor, f"tensor x {names}"
    yield from _divides((names, ranks), ("heads", model.heads), hint=f"{scheme} splits heads over both")
    if model.kv_heads % ranks and ranks % model.kv_heads:
        yield f"{names}={ranks} neither divides kv_heads={model.kv_heads} nor is a multiple of it; use a ring scheme"


def _ring(spec: StepSpec) -> Iterator[str]:
    """Two directions need two heads."""
    model, strategy = spec.model, spec.strategy
    if strategy.bidirectional == "off" or strategy.mesh.context == 1:
        return
    if not SCHEME_FACTS[strategy.scheme].rings:
        yield f"bidirectional=on with scheme {strategy.scheme}: only a ring has directions; use {', '.join(RING_SCHEMES)}"
        return
    heads = max(1, model.kv_heads // (strategy.mesh.tensor * strategy.ulysses))
    if heads % 2:
        yield (
            f"bidirectional=on halves the key/value heads of a rank, and tensor={strategy.mesh.tensor}, "
            f"ulysses={strategy.ulysses} leave it {heads}; use bidirectional=off, or fewer ranks that split heads"
        )


def _global_view(spec: StepSpec) -> Iterator[str]:
    """Whole arrays have a dim for the sequence, not for a rank's tokens: every axis must divide that dim."""
    mesh, mode = spec.strategy.mesh, spec.strategy.sharding_mode
    if mode != "manual" and spec.local_seq_len % mesh.tensor:
        yield (
            f"sharding_mode={mode}: tensor={mesh.tensor} does not divide the {spec.local_seq_len} tokens of a sequence on a"
            " context rank; use manual, or a tensor size that divides it"
        )
    remat = spec.strategy.remat
    if mode == "explicit" and REMAT_POLICIES[remat].offloaded:
        yield (
            f"remat={remat} with sharding_mode=explicit: XLA's partitioner refuses a program that offloads where arrays' types"
            " carry shardings (jax 0.10.1); use manual or auto, or a policy that does not offload"
        )


def _windows(spec: StepSpec) -> Iterator[str]:
    """Windows that are shorter than the sequence, of all layers or of some."""
    model, strategy, workload = spec.model, spec.strategy, spec.workload
    if not model.windows_within(workload.seq_len):
        return
    window, groups = model.sliding_window, strategy.mesh.context // strategy.ulysses
    half = workload.seq_len // (2 * groups)
    if zigzag(strategy) and window is not None and window - 1 > half:
        yield (
            f"sliding_window={window} tokens of {model.name} reaches beyond a half chunk of {half} tokens; use scheme ring, or"
            " fewer context ranks"
        )


def _features(spec: StepSpec) -> Iterator[str]:
    model, strategy = spec.model, spec.strategy
    if strategy.expert_fold > 1:
        yield f"expert_fold={strategy.expert_fold} is priced, not built: the step's expert ranks are an axis; use expert"
    if model.experts is None and strategy.mesh.expert > 1:
        yield f"expert={strategy.mesh.expert}: model {model.name} is dense; use expert=1"
    if model.experts is not None:
        yield from _divides(("expert", strategy.mesh.expert), ("experts", model.experts.count), hint="ranks have whole experts")
        if strategy.sharding_mode == "explicit" and spec.kernel == "cudnn":
            yield (
                "sharding_mode=explicit with experts: jax wants one mesh in a program with cuDNN's attention, and the experts"
                " need axes that the compiler decides; use sharding_mode=auto or manual"
            )
        if strategy.sharding_mode != "manual" and strategy.moe_dispatch == "gather":
            yield (
                f"moe_dispatch=gather is written out in sharding_mode=manual only; in {strategy.sharding_mode} the compiler"
                " chooses how rows travel; use dropless or capacity, or sharding_mode=manual"
            )
    if model.not_built:
        yield f"model {model.name} is priced, not built; no step computes: {', '.join(model.not_built)}"
    if model.not_planned:
        yield f"model {model.name} is counted, not planned; the step lacks: {', '.join(model.not_planned)}"
    if model.mlp == "plain":
        yield f"model {model.name}: mlp=plain (only up and down) is priced but not built; the step's feed-forward is gated"
    if strategy.collective_matmul != "off" and strategy.sharding_mode != "manual":
        yield (
            f"collective_matmul={strategy.collective_matmul} is built for sharding_mode=manual, not {strategy.sharding_mode};"
            " use manual, or off"
        )
    yield from _kernel(spec)


def _kernel(spec: StepSpec) -> Iterator[str]:
    """List limits of the attention kernel."""
    block = spec.strategy.attention_block
    if block and spec.kernel == "cudnn":
        yield f"attention_block={block}: cuDNN chooses its own tiles; use 0"
    if spec.kernel == "splash" and block % 128:
        yield f"attention_block={block} is not a multiple of 128, the width of splash's tiles"
    if spec.kernel == "cudnn" and spec.workload.document_len is not None and spec.local_seq_len % 4:
        yield (
            f"kernel cudnn takes documents (document_len={spec.workload.document_len}) in chunks and half chunks of an even"
            f" length, not of {spec.local_seq_len} tokens; use a seq_len that is a multiple of 4 context, or blockwise"
        )
    if spec.kernel == "cudnn" and spec.workload.precision != "bf16":
        yield f"kernel cudnn has no precision {spec.workload.precision}; use blockwise"

"""Facts that a row states, after a check that lcplan can model them, and the fields that it leaves open."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import get_args

from cost_models.inputs.program import PROGRAMS, Program
from lcplan.formats.errors import BadInputError
from lcplan.formats.suggest import hint
from lcplan.spec.hardware import HardwareSpec
from lcplan.spec.model import ModelSpec
from lcplan.strategy import AXES, BACKENDS, GROUP_SCHEME_NAMES, GROUP_SCHEMES, SCHEMES, AxisName, schemes_where
from lcplan.strategy.remat import NAMED_TENSORS, RematName
from planner.validate.sources.excuse import NotModelledError
from planner.validate.sources.names import REMAT_SLIP, is_selective, is_slip, precision_of, remat_of, scheme_of
from planner.validate.sources.specs import Specs
from planner.validate.sources.table import Row, RowMesh

DOUBLE_RING = PROGRAMS["loongtrain"].model_dump(include={"ring_order", "ring_communicators"})
"""A ring inside windows and between them, as a trainer has it."""


@dataclass(frozen=True)
class Facts:
    """One row that can be modelled; ``open`` names the fields that its source leaves open."""

    row: Row
    model: ModelSpec
    hardware: HardwareSpec
    program: Program
    mesh: dict[AxisName, int]
    """Sizes of the axes that are stated or follow from the device count."""
    open: tuple[str, ...]

    @property
    def replicas(self) -> int:
        """Devices over which the batch is split, by the stated axes: data x fsdp x expert."""
        return _replicas(self.mesh)


def _replicas(mesh: dict[AxisName, int]) -> int:
    return mesh.get("data", 1) * mesh.get("fsdp", 1) * mesh.get("expert", 1)


def facts_of(row: Row, specs: Specs) -> Facts:
    """The facts of one row.

    Raises
    ------
    NotModelledError
        One of the reasons of docs/tables.md.
    BadInputError
        A spec, a program or a backend that does not exist.
    """
    _excuse(row)
    _check_remat(row)
    model, hardware = specs.model(row), specs.hardware(row)
    mesh, free = _mesh(row.strategy.mesh, row.devices)
    _check_heads(row, mesh=mesh, model=model)
    if (row.strategy.backend or BACKENDS[0]).lower() not in BACKENDS:
        raise BadInputError(
            f"row {row.id}: unknown backend {row.strategy.backend!r}{hint(row.strategy.backend or '', BACKENDS)}"
        )
    _check_exchange(row, context=mesh.get("context", 1))
    _check_batch(row, mesh=mesh, free=free)
    program = specs.program(row)
    _check_replicas(row, mesh=mesh, program=program)
    if is_selective(row.strategy.remat) and program.attention == "unfused":
        program = program.model_copy(update={"recompute_scores": True})
    if isinstance(row.strategy.remat, tuple):
        program = program.model_copy(update={"saved": row.strategy.remat})
    program = program.model_copy(update=_stated_program(row, program))
    return Facts(_rated(row, hardware), model, hardware, program, mesh, _open(row, mesh=mesh, free=free, hardware=hardware))


def _stated_program(row: Row, program: Program) -> dict[str, object]:
    """Changes of the trainer's program that a row states as fields of its strategy."""
    found: dict[str, object] = {"deterministic": True} if row.strategy.deterministic else {}
    found |= DOUBLE_RING if row.strategy.double_ring else {}
    fused = row.strategy.transformer_engine and program.runtime == "torch"
    return found | ({"attention": "flash"} if fused else {})


def _rated(row: Row, hardware: HardwareSpec) -> Row:
    """The row with its MFU as FLOP/s of its device."""
    measured = row.measured
    if measured.mfu_ratio is None or measured.tflop_per_s_per_device is not None:
        return row
    rate = measured.mfu_ratio * hardware.device.peak_flop_per_s.value * 1e-12
    return row.model_copy(update={"measured": measured.model_copy(update={"tflop_per_s_per_device": rate})})


def _check_replicas(row: Row, *, mesh: dict[AxisName, int], program: Program) -> None:
    """Refuse a row whose optimizer is split over data where the size of data is unknown."""
    unknown = row.devices is None and "data" not in mesh and "fsdp" not in mesh
    if unknown and program.optimizer_over == "data" and row.workload.facts.trained:
        raise NotModelledError(
            "incomplete configuration", "neither devices nor data or fsdp is stated, and the optimizer is split over them"
        )


def _check_batch(row: Row, *, mesh: dict[AxisName, int], free: int) -> None:
    """Refuse a batch that the ranks and microbatches of a row do not share evenly."""
    batch, ranks = row.workload.global_batch, _replicas(mesh)
    if batch is None or free > 1 or not row.workload.facts.trained:
        return
    shares = ranks * (row.strategy.microbatches or 1)
    if batch > shares and batch % shares:
        parts = f"data x fsdp x expert x microbatches = {shares}"
        raise BadInputError(f"row {row.id}: {parts} does not divide global_batch={batch} sequences; state those of a step")


def _check_exchange(row: Row, *, context: int) -> None:
    """Groups of ranks exchange heads only in a scheme that has such groups, and divide the context axis."""
    ranks = row.strategy.ulysses
    if ranks is not None and (scheme_of(row.strategy.scheme) not in GROUP_SCHEMES or context % ranks):
        raise BadInputError(
            f"row {row.id}: ulysses={ranks} needs scheme {GROUP_SCHEME_NAMES} (here {row.strategy.scheme}) and a context it"
            f" divides (here {context}); leave it out for other schemes"
        )


def _excuse(row: Row) -> None:
    """Reasons that need no spec to be read."""
    strategy, workload = row.strategy, row.workload
    if (strategy.mesh.pipe or 1) > 1:
        raise NotModelledError("pipeline axis", f"pipe={strategy.mesh.pipe}")
    _check_precision(workload.precision)
    if strategy.optimizer_offload:
        raise NotModelledError("offload", "the optimizer's state in the host's memory")
    if (strategy.tiled_mlp or 1) > 1:
        raise NotModelledError("architecture", f"tiled_mlp={strategy.tiled_mlp}")
    if strategy.scheme is not None and scheme_of(strategy.scheme) is None:
        raise NotModelledError("scheme", f"scheme={strategy.scheme}{hint(strategy.scheme, SCHEMES)}")
    sizes = workload.facts.sizes
    if any(getattr(workload, name) is None for name in sizes):
        raise NotModelledError("incomplete configuration", f"no {' or no '.join(sizes)} is stated")


def _check_precision(stated: str | None) -> None:
    try:
        known = "bf16" if stated is None else precision_of(stated)
    except ValueError as error:
        raise NotModelledError("incomplete configuration", str(error)) from None
    if known is None:
        raise NotModelledError("precision below bf16", f"precision={stated}")


def _check_remat(row: Row) -> None:
    remat = row.strategy.remat
    if isinstance(remat, str) and remat_of(remat) is None:
        if "offload" in remat:
            raise NotModelledError("offload", f"remat={remat}")
        if not is_slip(remat, get_args(RematName), likeness=REMAT_SLIP):
            raise NotModelledError("incomplete configuration", f"unknown remat policy {remat!r:.60}; list the kept tensors")
        raise BadInputError(f"row {row.id}: unknown remat policy {remat!r}{hint(remat, get_args(RematName))}")
    unknown = [name for name in remat if name not in NAMED_TENSORS] if isinstance(remat, tuple) else []
    if unknown:
        raise BadInputError(
            [f"row {row.id}: remat: no tensor of a layer is named {n!r}{hint(n, NAMED_TENSORS)}" for n in unknown]
        )


def _check_heads(row: Row, *, mesh: dict[AxisName, int], model: ModelSpec) -> None:
    """Refuse Ulysses over more ranks than heads divide; some sources report such a row as out of memory."""
    ranks = mesh.get("context", 1) * mesh.get("tensor", 1)
    scheme = scheme_of(row.strategy.scheme)
    if scheme in schemes_where(lambda facts: facts.sees_whole_sequences) and model.heads % ranks:
        raise NotModelledError("scheme", f"{scheme} over context x tensor = {ranks} ranks of {model.heads} heads")


def _mesh(stated: RowMesh, devices: int | None) -> tuple[dict[AxisName, int], int]:
    """Axes that are known, and over how many devices the unstated ones are spread."""
    known: dict[AxisName, int] = {axis: size for axis in AXES if (size := getattr(stated, axis)) is not None}
    if devices is None and not known:
        raise NotModelledError("incomplete configuration", "neither devices nor a mesh is stated")
    known = {"pipe": 1, **known}  # no source leaves a pipeline unsaid
    taken = prod(known.values())
    whole = taken if devices is None else devices
    rest = [axis for axis in AXES if axis not in known]
    if whole % taken or (not rest and whole != taken):
        raise NotModelledError("incomplete configuration", f"a mesh of {taken} devices on {whole}")
    return known, whole // taken


def _open(row: Row, *, mesh: dict[AxisName, int], free: int, hardware: HardwareSpec) -> tuple[str, ...]:
    strategy, workload = row.strategy, row.workload
    unstated = {
        "mesh": free > 1,
        "precision": workload.precision is None and hardware.kind != "cpu",
        "global_batch": workload.global_batch is None and strategy.micro_batch is None,
        "microbatches": workload.facts.trained
        and strategy.microbatches is None
        and strategy.micro_batch is None
        and workload.global_batch != _replicas(mesh) * free,
        "scheme": strategy.scheme is None and (mesh.get("context", 1) > 1),
        "backend": strategy.backend is None and len(hardware.backends) > 1,
        "remat": workload.facts.trained and strategy.remat is None and workload.part == "step",
    }
    return tuple(name for name, is_open in unstated.items() if is_open)

"""``--workload``: which noun the options make, and which options go with which."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lcplan.formats.errors import BadInputError
from lcplan.formats.frozen import Frozen
from lcplan.spec.hardware import HardwareSpec
from lcplan.spec.rollout_workloads import AnyWorkload, RlWorkload, SampleWorkload, WorkloadKind
from lcplan.spec.workload import Workload
from lcplan.strategy import KNOBS, Dtype, Knob
from planner.request.request import default_global_batch

ROLLOUT_OPTIONS = ("prompt", "generate", "batch", "kv_dtype", "no_donate")
TRAIN_OPTIONS = ("seq", "global_batch", "document_len")
_INSTEAD = {
    "seq": "--prompt and --generate",
    "global_batch": "--batch",
    "document_len": "a prompt a sequence, unpacked",
}


class WorkloadOptions(Frozen):
    """What ``workload_options`` parses, with the sizes of a train step."""

    kind: WorkloadKind = "train"
    seq: int | None = None
    global_batch: int | None = None
    document_len: int | None = None
    prompt: int | None = None
    generate: int | None = None
    batch: int | None = None
    kv_dtype: Dtype | None = None
    no_donate: bool = False


def check_workload(options: WorkloadOptions) -> None:
    """Refuse options of another kind of workload, and kinds that lack theirs.

    Raises
    ------
    BadInputError
        With every option that is missing or out of place.
    """
    problems = list(_problems(options))
    if problems:
        raise BadInputError(problems)


def workload_of(options: WorkloadOptions, hardware: HardwareSpec, devices: int | None) -> AnyWorkload:
    """The workload that checked options ask for.

    Raises
    ------
    BadInputError
        A length or a batch beyond what a workload takes.
    """
    where = f"--workload {options.kind}"
    if options.kind == "train":
        assert options.seq is not None, "check_workload looks first"
        batch = options.global_batch or default_global_batch(options.seq, hardware, devices)
        given = {"document_len": options.document_len, "global_batch_given": options.global_batch is not None}
        return Workload.read({"seq_len": options.seq, "global_batch": batch} | given, where)
    sizes: dict[str, Any] = {name: getattr(options, name) for name in ("prompt", "generate", "batch")}
    made = RlWorkload if options.kind == "rl" else SampleWorkload
    return made.read(sizes | {"kv_dtype": options.kv_dtype or "bf16", "donate": not options.no_donate}, where)


def _problems(options: WorkloadOptions) -> Iterator[str]:
    given = {name: getattr(options, name) for name in (*ROLLOUT_OPTIONS, *TRAIN_OPTIONS)}
    named = [name for name, value in given.items() if value]
    if options.kind == "train":
        yield from _length(options)
        for name in named:
            if name in ROLLOUT_OPTIONS:
                yield f"--{_dashed(name)} goes with --workload sample or rl; a train step has none"
        yield from _documents(options)
    else:
        for name in ("prompt", "generate", "batch"):
            if given[name] is None:
                yield f"--workload {options.kind} needs --{name}, for example --prompt 256 --generate 1024 --batch 512"
        for name in named:
            if name in TRAIN_OPTIONS:
                yield f"--{_dashed(name)} goes with --workload train; --workload {options.kind} takes {_INSTEAD[name]}"
    yield from _knobs(options)


def _knobs(options: WorkloadOptions) -> Iterator[str]:
    """Refuse every knob that the kind of workload does not have."""
    for name, knob in KNOBS.items():
        if getattr(options, name, None) and options.kind not in knob.workloads:
            yield no_such_knob(knob, options.kind)
    if getattr(options, "trainer", None) and options.kind == "sample":
        yield "--for goes with --workload train or rl; no trainer runs a rollout"


def no_such_knob(knob: Knob, kind: str) -> str:
    """Say which kinds of workload have a knob, to those who gave it to another."""
    return f"{knob.option} goes with --workload {' or '.join(knob.workloads)}; --workload {kind} has no such knob"


def _length(options: WorkloadOptions) -> Iterator[str]:
    if options.seq is None:
        yield "a train step needs a sequence length: give --seq, for example --seq 64k"
    elif options.seq < 1:
        yield f"--seq {options.seq}: a sequence has at least one token"


def _documents(options: WorkloadOptions) -> Iterator[str]:
    length = options.document_len
    if length is not None and length < 1:
        yield f"--document-len {length}: a document has at least one token; leave the option out for whole sequences"
    elif length is not None and options.seq is not None and length > options.seq:
        yield (
            f"--document-len {length}: sequences of {options.seq} tokens are packed with documents no longer than themselves;"
            " give at most --seq, or leave it out"
        )


def _dashed(name: str) -> str:
    return name.replace("_", "-")

"""torchtitan's TOML, as it was until 2025: sections job, model, training, parallelism, activation_checkpoint, ..."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from lcplan.formats.booleans import truth, unquoted
from lcplan.formats.errors import BadInputError
from lcplan.formats.suggest import hint
from lcplan.formats.textfile import read_text
from planner.trainers.torchtitan.sections import Sections, flavored

PARALLEL = (
    "data_parallel_replicate_degree", "data_parallel_shard_degree", "fsdp_reshard_after_forward", "tensor_parallel_degree",
    "disable_loss_parallel", "enable_async_tensor_parallel", "pipeline_parallel_degree", "pipeline_parallel_split_points",
    "pipeline_parallel_layers_per_stage", "pipeline_parallel_schedule", "pipeline_parallel_schedule_csv",
    "pipeline_parallel_microbatch_size", "context_parallel_degree", "context_parallel_rotate_method", "expert_parallel_degree",
    "enable_compiled_autograd", "module_fqns_per_model_part", "pipeline_parallel_first_stage_less_layers",
    "pipeline_parallel_last_stage_less_layers", "expert_tensor_parallel_degree",
)  # fmt: skip
"""Keys of [parallelism] in torchtitan 0.1 and 0.2."""
TRAINING = (
    "dataset", "dataset_path", "batch_size", "local_batch_size", "global_batch_size", "seq_len", "max_norm", "steps",
    "enable_cpu_offload", "dtype", "mixed_precision_param", "mixed_precision_reduce", "compile", "gc_freq", "gc_debug", "seed",
    "deterministic", "warmup_steps", "tensor_parallel_degree", "data_parallel_shard_degree", "data_parallel_replicate_degree",
)  # fmt: skip
"""Keys of [training] in torchtitan 0.1 and 0.2; the first releases had the degrees here."""
ROTATION: Mapping[str, str] = MappingProxyType({"allgather": "all-gather", "alltoall": "ring-zigzag"})
REMAT: Mapping[str, str] = MappingProxyType({"full": "full", "none": "save-all", "selective": "save-all"})


def read_toml(file: str) -> Sections:
    """The TOML's words under the names of today.

    Raises
    ------
    BadInputError
        Not TOML, or a value that torchtitan had not.
    """
    try:
        data = unquoted(tomllib.loads(read_text(file)))
    except (ValueError, RecursionError) as error:  # malformed, a number of thousands of digits, or deep nesting
        raise BadInputError(f"{file}: not valid TOML: {error}") from None
    training, parallel = dict(_section(data, "training", file=file)), dict(_section(data, "parallelism", file=file))
    unknown = [f"training.{key}" for key in training if key not in TRAINING]
    unknown += [f"parallelism.{key}" for key in parallel if key not in PARALLEL]
    for key in [key for key in training if key.endswith("_degree")]:  # where the first releases kept them
        parallel.setdefault(key, training.pop(key))
    experimental = _section(data, "experimental", file=file)
    parallel = {key: experimental[key] for key in PARALLEL if key in experimental} | parallel
    if "batch_size" in training:
        training.setdefault("local_batch_size", training.pop("batch_size"))
    model = _section(data, "model", file=file)
    policy = _section(data, "activation_checkpoint", file=file)
    remat, notes = _remat(policy, file)
    notes += _eight_bits(data, model)
    compiled = truth(training, "compile", file=file)
    return Sections(
        training=training,
        parallelism=parallel,
        model=flavored(str(model.get("name", "")), str(model.get("flavor", ""))),
        scheme=_scheme(parallel, file),
        remat=remat,
        compiled=truth(_section(data, "compile", file=file), "enable", default=compiled, file=file),
        selective=policy.get("mode", "selective") == "selective",
        unknown=tuple(unknown),
        notes=tuple(notes),
    )


def _section(data: Mapping[str, Any], name: str, *, file: str) -> Mapping[str, Any]:
    section = data.get(name, {})
    if not isinstance(section, dict):
        raise BadInputError(f"{file}: [{name}] is not a table")
    return section


def _scheme(parallel: Mapping[str, Any], file: str) -> str:
    """SDPA's context parallelism of those releases: balanced by head and tail, rotated or gathered."""
    method = str(parallel.get("context_parallel_rotate_method", "allgather"))
    if method not in ROTATION:
        raise BadInputError(f"{file}: context_parallel_rotate_method {method!r}{hint(method, ROTATION)}")
    return ROTATION[method]


def _remat(section: Mapping[str, Any], file: str) -> tuple[str, list[str]]:
    mode = str(section.get("mode", "selective"))
    if mode not in REMAT:
        raise BadInputError(f"{file}: activation_checkpoint.mode {mode!r}{hint(mode, REMAT)}")
    if mode != "selective":
        return REMAT[mode], []
    option = section.get("selective_ac_option", "2")
    return "save-all", [
        f"selective checkpointing ({option}) keeps attention and every second product: priced so, nearest policy none"
    ]


def _eight_bits(data: Mapping[str, Any], model: Mapping[str, Any]) -> list[str]:
    """Converters of products to fewer bits; their activations stay bf16."""
    named = [str(name) for name in model.get("converters") or [] if isinstance(model.get("converters"), list)]
    found = [name for name in named if "float8" in name or "mx" in name] or ["[float8]"] * ("float8" in data)
    return [f"{found[0]}: lcplan prices products in bf16; memory is the same"] if found else []

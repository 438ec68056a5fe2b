"""The protocol buffers of a profile: XLA's XSpace, and the HLO module that it holds. Needs no jax.

Only the fields that are read here are declared; the others are skipped. Numbers are those of ``xplane.proto`` (openxla/xla,
tsl/profiler/protobuf) and ``hlo.proto`` (openxla/xla, xla/service), which never reuse one.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_FIELD = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "string": _FIELD.TYPE_STRING,
    "bytes": _FIELD.TYPE_BYTES,
    "int64": _FIELD.TYPE_INT64,
    "uint64": _FIELD.TYPE_UINT64,
    "double": _FIELD.TYPE_DOUBLE,
    "bool": _FIELD.TYPE_BOOL,
}
_MESSAGES: dict[str, dict[str, tuple[int, str]]] = {
    "XSpace": {"planes": (1, "XPlane[]")},
    "XPlane": {
        "name": (2, "string"),
        "lines": (3, "XLine[]"),
        "event_metadata": (4, "EventEntry[]"),
        "stat_metadata": (5, "StatEntry[]"),
    },
    "EventEntry": {"key": (1, "int64"), "value": (2, "EventMetadata")},
    "StatEntry": {"key": (1, "int64"), "value": (2, "StatMetadata")},
    "EventMetadata": {"name": (2, "string"), "display_name": (4, "string"), "stats": (5, "XStat[]")},
    "StatMetadata": {"name": (2, "string")},
    "XLine": {"name": (2, "string"), "timestamp_ns": (3, "int64"), "events": (4, "XEvent[]")},
    "XEvent": {
        "metadata_id": (1, "int64"),
        "offset_ps": (2, "int64"),
        "duration_ps": (3, "int64"),
        "stats": (4, "XStat[]"),
    },
    "XStat": {
        "metadata_id": (1, "int64"),
        "double_value": (2, "double"),
        "uint64_value": (3, "uint64"),
        "int64_value": (4, "int64"),
        "str_value": (5, "string"),
        "bytes_value": (6, "bytes"),
        "ref_value": (7, "uint64"),
    },
    "HloProto": {"hlo_module": (1, "HloModule")},
    "HloModule": {"name": (1, "string"), "computations": (3, "HloComputation[]"), "stack_frame_index": (17, "Frames")},
    "Frames": {
        "file_names": (1, "string[]"),
        "file_locations": (3, "FileLocation[]"),
        "stack_frames": (4, "StackFrame[]"),
    },
    "FileLocation": {"file_name_id": (1, "int64"), "line": (3, "int64")},
    "StackFrame": {"file_location_id": (1, "int64")},
    "HloComputation": {"name": (1, "string"), "instructions": (2, "HloInstruction[]"), "id": (5, "int64")},
    "HloInstruction": {
        "name": (1, "string"),
        "opcode": (2, "string"),
        "metadata": (7, "OpMetadata"),
        "custom_call_target": (28, "string"),
        "id": (35, "int64"),
        "operand_ids": (36, "int64[]"),
        "called_computation_ids": (38, "int64[]"),
        "replica_groups": (49, "ReplicaGroup[]"),
        "source_target_pairs": (52, "SourceTarget[]"),
        "collective_device_list": (87, "DeviceList"),
    },
    "OpMetadata": {
        "op_name": (2, "string"),
        "source_file": (3, "string"),
        "source_line": (4, "int64"),
        "stack_frame_id": (15, "int64"),
    },
    "ReplicaGroup": {"replica_ids": (1, "int64[]")},
    "SourceTarget": {"source": (1, "int64"), "target": (2, "int64")},
    "DeviceList": {"replica_groups": (1, "ReplicaGroup[]"), "iota": (2, "IotaGroups")},
    "IotaGroups": {
        "num_replica_groups": (1, "int64"),
        "num_devices_per_group": (2, "int64"),
        "reshape_dims": (3, "int64[]"),
        "transpose_perm": (4, "int64[]"),
    },
}


@lru_cache(maxsize=1)
def _pool() -> descriptor_pool.DescriptorPool:
    file = descriptor_pb2.FileDescriptorProto(name="lcplan/profile.proto", package="profile", syntax="proto3")
    for message, fields in _MESSAGES.items():
        declared = file.message_type.add(name=message)
        for field, (number, kind) in fields.items():
            several, base = kind.endswith("[]"), kind.removesuffix("[]")
            label = _FIELD.LABEL_REPEATED if several else _FIELD.LABEL_OPTIONAL
            one = declared.field.add(name=field, number=number, label=label)
            if base in _SCALARS:
                one.type = _SCALARS[base]
            else:
                one.type, one.type_name = _FIELD.TYPE_MESSAGE, f".profile.{base}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool


@lru_cache(maxsize=8)
def message_class(name: str) -> Any:
    """Return the class of a message: ``XSpace`` or ``HloProto``.

    Examples
    --------
    >>> message_class("XSpace")(planes=[{"name": "/device:GPU:0"}]).planes[0].name
    '/device:GPU:0'
    """
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(f"profile.{name}"))

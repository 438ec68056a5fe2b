"""Megatron-Bridge and NeMo: the record of their files."""

from planner.trainers.common.interface import Format, FrontEnd

FRONT_END = FrontEnd(
    name="bridge",
    title="Megatron-Bridge or NeMo",
    package="megatron-bridge",
    version="",
    reads=Format(
        "FILE",
        "a recipe of Megatron-Bridge or NeMo (FILE.py:function), its YAML, or a script with its overrides",
        takes_all=True,
    ),
)

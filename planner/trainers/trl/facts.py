"""TRL 1.10.0.dev0: the record of its files."""

from planner.trainers.common.interface import Format, FrontEnd

FRONT_END = FrontEnd(
    name="trl",
    title="TRL 1.10.0.dev0",
    package="trl",
    version="1.10.0.dev0",
    reads=Format("FILE", "a YAML of `trl sft`, or the script that starts it", takes_all=True),
)

"""LLaMA-Factory 0.9.6.dev0: the record of its files."""

from planner.trainers.common.interface import Format, FrontEnd

FRONT_END = FrontEnd(
    name="llamafactory",
    title="LLaMA-Factory 0.9.6.dev0",
    package="llamafactory",
    version="0.9.6.dev0",
    reads=Format("FILE", "a LLaMA-Factory YAML, or the script that starts it", takes_all=True),
)

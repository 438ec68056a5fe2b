"""verl 0.8.0.dev: the record of its files."""

from planner.trainers.common.interface import Format, FrontEnd

FRONT_END = FrontEnd(
    name="verl",
    title="verl 0.8.0.dev",
    package="verl",
    version="0.8.0.dev",
    reads=Format("FILE", "a script of verl with its overrides, or its YAML", takes_all=True),
)

"""Axolotl 0.18.0: the record of its files."""

from planner.trainers.common.interface import Format, FrontEnd

FRONT_END = FrontEnd(
    name="axolotl",
    title="Axolotl 0.18.0",
    package="axolotl",
    version="0.18.0",
    reads=Format("FILE", "an Axolotl YAML, or the script that starts it", takes_all=True),
)

"""``python small_steps.py PROGRAM ARGUMENTS...``: lcplan with a program of ``odd_programs`` for the step."""

import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "measure"))

from measuring import odd_program

import planner.bench
from planner.cli.main import main
from planner.measure.job import CompileJob

if __name__ == "__main__":
    planner.bench.CompileJob = partial(CompileJob, program=odd_program(sys.argv.pop(1)))
    main()

"""``python small_steps.py PROGRAM ARGUMENTS...``: lcplan with a program of ``odd_programs`` for the step."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "measure"))

from measuring import odd_program

import planner.bench
from planner.cli.main import main

if __name__ == "__main__":
    planner.bench.STEP = odd_program(sys.argv.pop(1))
    main()

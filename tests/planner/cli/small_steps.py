"""``python small_steps.py PROGRAM ARGUMENTS...``: lcplan with a program of ``odd_programs`` for the step.

With ``ODD_LARGEST_FILE`` no file of it or its workers grows beyond so many bytes, as on a disk that is full.
"""

import os
import resource
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "measure"))

from measuring import odd_program

import planner.workloads.train
from planner.cli.main import main

if __name__ == "__main__":
    if "ODD_LARGEST_FILE" in os.environ:
        largest = int(os.environ["ODD_LARGEST_FILE"])
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
    planner.workloads.train.STEP = odd_program(sys.argv.pop(1))
    main()

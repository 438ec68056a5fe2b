"""Look inside a program: the memory, collectives and schedule of its executable, with the modelled time."""

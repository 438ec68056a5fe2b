"""Export: a plan as the files of a trainer, with every difference between the two named and priced."""

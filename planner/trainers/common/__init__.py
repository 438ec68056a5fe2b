"""What the trainers share: interface, rules, translation, file formats."""

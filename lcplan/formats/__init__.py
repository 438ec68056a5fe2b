"""Units, YAML and JSON files, frozen values and errors."""

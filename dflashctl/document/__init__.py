"""Hand-written YAML files: their values with lines, and their mistakes."""

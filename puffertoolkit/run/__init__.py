"""A run's directory, its record of provenance, its checkpoints, and its ending on a signal."""

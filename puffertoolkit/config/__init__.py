"""The configuration: its types and ranges, its checks before anything starts, and what is built from it."""

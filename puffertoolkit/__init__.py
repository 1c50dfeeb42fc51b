"""A Hydra-driven reinforcement learning toolkit: env × vec × policy × train, composed from YAML.

`python -m puffertoolkit --help` lists what can be chosen and set.
"""

__version__ = "0.1.0"

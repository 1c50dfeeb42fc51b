"""What an environment's file imports: the kernel decorator, parameters, random draws, drawing, the engine."""

from ocean_numba.engine.canvas import BACKGROUND, CYAN, RED, WHITE, Canvas
from ocean_numba.engine.definition import Definition, Fields
from ocean_numba.engine.jit import kernel
from ocean_numba.engine.parameters import Parameters, parameter
from ocean_numba.engine.random import integer, normal, uniform
from ocean_numba.engine.sprites import pufferfish
from ocean_numba.engine.vector import OceanVector

__all__ = [
    "BACKGROUND",
    "CYAN",
    "RED",
    "WHITE",
    "Canvas",
    "Definition",
    "Fields",
    "OceanVector",
    "Parameters",
    "integer",
    "kernel",
    "normal",
    "parameter",
    "pufferfish",
    "uniform",
]

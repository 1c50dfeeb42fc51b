"""Figures that several environments draw."""

from __future__ import annotations

import math

from ocean_numba.engine.canvas import Canvas, Color

SKIN: Color = (255, 203, 0)
BELLY: Color = (255, 236, 170)
SPINES: Color = (214, 130, 20)
EYE: Color = (255, 255, 255)
DARK: Color = (20, 20, 30)

NUMBER_OF_SPINES = 12


def pufferfish(canvas: Canvas, x: float, y: float, radius: float, facing: float) -> None:
    """A puffed-up fish within a circle around (x, y), looking to the left if `facing` is negative."""
    ahead = -radius if facing < 0 else radius
    for i in range(NUMBER_OF_SPINES):
        angle = 2 * math.pi * (i + 0.5) / NUMBER_OF_SPINES
        tip_x, tip_y = x + radius * math.cos(angle), y + radius * math.sin(angle)
        canvas.line(x, y, tip_x, tip_y, SPINES, width=0.14 * radius)
    for slope in (-0.3, 0, 0.3):
        fin_y = y + slope * radius
        canvas.line(x - 0.7 * ahead, y, x - 0.98 * ahead, fin_y, SPINES, width=0.16 * radius)
    canvas.disc(x, y, 0.8 * radius, SKIN)
    canvas.disc(x + 0.08 * ahead, y + 0.36 * radius, 0.38 * radius, BELLY)
    canvas.disc(x + 0.32 * ahead, y - 0.25 * radius, 0.24 * radius, EYE)
    canvas.disc(x + 0.4 * ahead, y - 0.23 * radius, 0.13 * radius, DARK)
    canvas.line(x + 0.5 * ahead, y + 0.2 * radius, x + 0.7 * ahead, y + 0.14 * radius, DARK, 0.09 * radius)

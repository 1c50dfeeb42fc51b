"""Drawing: shapes in pixels, shown as an RGB image or as text in a terminal."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

Color = tuple[int, int, int]

BACKGROUND: Color = (6, 24, 24)
CYAN: Color = (0, 187, 187)
RED: Color = (187, 0, 0)
WHITE: Color = (241, 241, 241)

# Shapes are drawn twice as large and halved, which smooths their edges.
SCALE = 2

# Characters from dark to bright, for terminals and files without colour.
SHADES = " .:-=+*#%@"


class Canvas:
    """A picture of `width` × `height` pixels; (0, 0) is the top left corner, y grows downwards."""

    def __init__(self, width: float, height: float, background: Color = BACKGROUND) -> None:
        self.width, self.height = round(width), round(height)
        self.captions: list[str] = []
        self._background = background
        self._image = Image.new("RGB", (self.width * SCALE, self.height * SCALE), background)
        self._draw = ImageDraw.Draw(self._image)
        self._labels: list[tuple[float, float, str, float, Color, str]] = []

    def rectangle(
        self, x: float, y: float, width: float, height: float, color: Color, radius: float = 0
    ) -> None:
        """Fill a rectangle whose top left corner is (x, y), its corners rounded by `radius`."""
        if width <= 0 or height <= 0:
            return
        box = (x * SCALE, y * SCALE, (x + width) * SCALE - 1, (y + height) * SCALE - 1)
        if radius:
            self._draw.rounded_rectangle(box, radius * SCALE, fill=color)
        else:
            self._draw.rectangle(box, fill=color)

    def disc(self, x: float, y: float, radius: float, color: Color) -> None:
        """Fill a disc around (x, y)."""
        box = ((x - radius) * SCALE, (y - radius) * SCALE, (x + radius) * SCALE, (y + radius) * SCALE)
        self._draw.ellipse(box, fill=color)

    def line(self, x0: float, y0: float, x1: float, y1: float, color: Color, width: float = 1) -> None:
        """Draw a line from (x0, y0) to (x1, y1)."""
        points = [x0 * SCALE, y0 * SCALE, x1 * SCALE, y1 * SCALE]
        self._draw.line(points, fill=color, width=max(1, round(width * SCALE)))

    def label(
        self, x: float, y: float, text: str, size: float = 20, color: Color = WHITE, anchor: str = "la"
    ) -> None:
        """Write `text`: at (x, y) in the image; as a line above the picture in a terminal."""
        self.captions.append(text)
        self._labels.append((x, y, text, size, color, anchor))

    def image(self) -> npt.NDArray[np.uint8]:
        """The picture, (height, width, 3) uint8."""
        picture = self._image.copy()
        draw = ImageDraw.Draw(picture)
        for x, y, text, size, color, anchor in self._labels:
            draw.text((x * SCALE, y * SCALE), text, fill=color, font=_font(size * SCALE), anchor=anchor)
        return np.asarray(picture.reduce(SCALE))

    def text_image(self, columns: int = 64, color: bool = True) -> str:
        """The picture as text: the labels, then lines of `columns` characters, each two pixels high.

        Args:
            columns: characters per line.
            color: half blocks in 24-bit colour; otherwise shades of ASCII.
        """
        columns = max(1, min(columns, self.width))
        rows = max(1, round(self.height * columns / self.width / 2))
        size = (columns, rows * 2 if color else rows)
        pixels = np.asarray(self._image.resize(size, Image.Resampling.BOX), dtype=np.int64)
        lines = _half_blocks(pixels) if color else _shades(pixels, self._background)
        return "\n".join([*(["   ".join(self.captions)] if self.captions else []), *lines])


def _half_blocks(pixels: npt.NDArray[np.int64]) -> list[str]:
    lines = []
    for top, bottom in zip(pixels[0::2], pixels[1::2], strict=True):
        cells = []
        for (r, g, b), (r2, g2, b2) in zip(top.tolist(), bottom.tolist(), strict=True):
            cells.append(f"\x1b[38;2;{r};{g};{b}m\x1b[48;2;{r2};{g2};{b2}m▀")
        lines.append("".join(cells) + "\x1b[0m")
    return lines


def _shades(pixels: npt.NDArray[np.int64], background: Color) -> list[str]:
    # Distance from the background rather than brightness: what differs from it is what there is to see.
    distance = np.abs(pixels - np.array(background)).max(axis=-1) / 255
    index = np.ceil(distance * (len(SHADES) - 1)).astype(int)
    return ["".join(SHADES[i] for i in row).rstrip() for row in index]


@lru_cache
def _font(size: float) -> Any:
    return ImageFont.load_default(size)

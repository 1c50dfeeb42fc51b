"""Frames to a GIF or MP4 file, without any display."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from puffertoolkit.errors import UserError

# Viewers show GIFs faster than this at a speed of their own.
GIF_MAX_FPS = 25.0


def write_video(path: Path, frames: Sequence[npt.NDArray[np.uint8]], fps: float) -> None:
    """Write frames (height, width, 3), all of one size, to play at `fps`; the suffix names the format."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".gif":
        _write_gif(path, frames, fps)
    else:
        _write_mp4(path, frames, fps)


def _write_gif(path: Path, frames: Sequence[npt.NDArray[np.uint8]], fps: float) -> None:
    from PIL import Image

    stride = max(1, round(fps / GIF_MAX_FPS))
    images = [Image.fromarray(frame).quantize(64) for frame in frames[::stride]]
    duration_ms = round(1000 * stride / fps)
    images[0].save(
        path, save_all=True, append_images=images[1:], duration=duration_ms, loop=0, optimize=False
    )


def _write_mp4(path: Path, frames: Sequence[npt.NDArray[np.uint8]], fps: float) -> None:
    try:
        import imageio_ffmpeg
    except ImportError as error:
        raise UserError(
            "eval.video_format=mp4 needs the extra 'video': pip install 'puffertoolkit[video]'. "
            "eval.video_format=gif needs nothing more."
        ) from error
    height, width, _ = frames[0].shape
    writer = imageio_ffmpeg.write_frames(str(path), (width, height), fps=fps, macro_block_size=2)
    writer.send(None)
    for frame in frames:
        writer.send(np.ascontiguousarray(frame))
    writer.close()

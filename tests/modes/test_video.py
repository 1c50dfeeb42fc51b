"""Videos are read back: their size, number of frames and pace."""

import numpy as np
import pytest
from PIL import Image

from puffertoolkit.modes.video import write_video


def frames(count, height=40, width=60):
    pictures = np.zeros((count, height, width, 3), np.uint8)
    for i in range(count):
        pictures[i, :, : 10 + i] = (200, 30, 30)
    return list(pictures)


@pytest.mark.parametrize(("fps", "shown", "duration_ms"), [(10, 20, 100), (50, 10, 40), (60, 10, 30)])
def test_gif(tmp_path, fps, shown, duration_ms):
    path = tmp_path / "videos" / "run.gif"
    write_video(path, frames(20), fps)
    with Image.open(path) as gif:
        assert gif.size == (60, 40)
        assert gif.n_frames == shown
        assert gif.info["duration"] == duration_ms
        gif.seek(shown - 1)
        assert gif.convert("RGB").getpixel((12, 20))[0] > 150


def test_mp4(tmp_path):
    import imageio_ffmpeg

    path = tmp_path / "run.mp4"
    write_video(path, frames(20, 41, 61), 10)
    count, seconds = imageio_ffmpeg.count_frames_and_secs(str(path))
    assert count == 20
    assert seconds == pytest.approx(2.0, abs=0.2)


def test_mp4_without_its_extra_says_what_to_install(tmp_path, monkeypatch):
    import sys

    from puffertoolkit.errors import UserError

    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(UserError, match=r"puffertoolkit\[video\]"):
        write_video(tmp_path / "run.mp4", frames(2), 10)

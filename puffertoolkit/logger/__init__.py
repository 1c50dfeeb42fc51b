"""What a run tells: metrics on disk, and the display in the terminal."""

"""What the scripts bench_* run: measurements of a whole training, beside others and under load."""

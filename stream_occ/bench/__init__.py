"""Benchmarks: ours and other people's code side by side in one process; ratios are medians of paired runs."""

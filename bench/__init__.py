"""Benchmarks. Each compares ratios inside one run."""

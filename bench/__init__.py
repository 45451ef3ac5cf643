"""Benchmarks. Each compares ratios inside one run; README.md has the commands."""

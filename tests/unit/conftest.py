"""Property tests without a deadline for each example: machines that build something are slow."""

from hypothesis import settings

settings.register_profile("unit", deadline=None)
settings.load_profile("unit")

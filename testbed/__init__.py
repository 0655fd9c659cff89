"""testbed: prove what a change to the Linux network stack does."""

__version__ = "0.1.0"

"""Outcomes of work with a kernel, from applying a series to running a command in its guest."""

from enum import StrEnum


class Outcome(StrEnum):
    PASS = "pass"
    FAIL = "fail"
    SKIP = "skip"
    TIMEOUT = "timeout"
    CRASH = "crash"
    BOOT_FAILED = "boot failed"
    BUILD_FAILED = "build failed"
    SERIES_DOES_NOT_APPLY = "series does not apply"

"""Forethought, an inference runtime for ONNX models, with the names and behaviour of the onnxruntime package.

    import forethought
    session = forethought.InferenceSession("model.onnx")
    results = session.run(None, {"input": array})
"""
from forethought import _core
from forethought._errors import (DeviceReset, EngineError, EPFail, Fail, ForethoughtError, InvalidArgument,
                                 InvalidGraph, InvalidProtobuf, ModelLoadCanceled, ModelLoaded,
                                 ModelRequiresCompilation, NoModel, NoSuchFile, NotFound, NotImplemented,  # noqa: A004
                                 OutOfMemory, RuntimeException)
from forethought._memory import MemoryStats
from forethought._numbers import whole as _whole
from forethought._options import ExecutionMode, ExecutionOrder, GraphOptimizationLevel, RunOptions, SessionOptions
from forethought._plan import MemoryPlan
from forethought._session import InferenceSession, ModelMetadata, NodeArg, get_available_providers
from forethought._values import IOBinding, OrtDevice, OrtValue, OrtValueVector, SessionIOBinding

__version__ = _core.version


def get_all_providers() -> list[str]:
    """The execution providers that this version knows."""
    return get_available_providers()


def get_device() -> str:
    """What this build computes on."""
    return "CPU"


def get_version_string() -> str:
    """The version."""
    return __version__


def get_build_info() -> str:
    """Version and kind of this build."""
    return f"Forethought {__version__}"


def memory_stats() -> MemoryStats:
    """What all sessions of the process take together, as InferenceSession.memory_stats does for one. Ours."""
    return MemoryStats(_core.memory_stats())


def set_memory_limit(limit: int) -> None:
    """Bytes that all sessions of the process together may take; 0: no limit. Ours."""
    _core.set_memory_limit(_whole(limit, "the memory limit"))


def set_device_memory_limit(limit: int) -> None:
    """The same on each device that has memory of its own. Ours."""
    _core.set_device_memory_limit(_whole(limit, "the memory limit"))


def set_default_logger_severity(severity: int) -> None:
    """Which messages the process logs: 0 verbose, 1 info, 2 warning, 3 error, 4 fatal."""
    number = _whole(severity, "the severity")
    if number not in range(5):
        raise RuntimeError(f"the severity is 0 (verbose) to 4 (fatal), not {number}")
    _core.set_log_severity(number)


def set_default_logger_verbosity(verbosity: int) -> None:
    """Kept for compatibility: messages have severities only."""
    _whole(verbosity, "the verbosity")


def set_seed(seed: int) -> None:
    """Kept for compatibility: no operator of this version draws random numbers."""
    _whole(seed, "the seed")


def enable_telemetry_events() -> None:
    """Kept for compatibility: there is no telemetry."""


def disable_telemetry_events() -> None:
    """Kept for compatibility: there is no telemetry."""

"""The names that code written for onnxruntime imports from here."""
from forethought import (ExecutionMode, GraphOptimizationLevel, ModelMetadata, NodeArg, OrtDevice, OrtValue,
                         OrtValueVector, RunOptions, SessionOptions, get_available_providers,
                         set_default_logger_severity)
from forethought._errors import (DeviceReset, EngineError, EPFail, Fail, InvalidArgument, InvalidGraph, InvalidProtobuf,
                                 ModelLoadCanceled, ModelLoaded, ModelRequiresCompilation, NoModel, NoSuchFile,
                                 NotFound, NotImplemented, RuntimeException)  # noqa: A004

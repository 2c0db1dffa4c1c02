"""The exceptions of the package, with onnxruntime's names."""


class ForethoughtError(RuntimeError):
    """What all of them are: RuntimeErrors, since code written for onnxruntime may catch those."""


class Fail(ForethoughtError):
    """Something failed that none of the others tells; also a run that was asked to stop."""


class InvalidArgument(ForethoughtError):
    """A feed, a name or an option is wrong; the message tells what was expected and what came."""


class NoSuchFile(ForethoughtError):
    """There is no such model file."""


class NoModel(ForethoughtError):
    """No model was given."""


class EngineError(ForethoughtError):
    """Kept for code that catches it."""


class RuntimeException(ForethoughtError):
    """Memory is out (then an OutOfMemory), or a bug of ours was noticed in time."""


class OutOfMemory(RuntimeException, MemoryError):
    """A limit on memory was reached, or the system has no more."""


class InvalidProtobuf(ForethoughtError):
    """The bytes are no ONNX model."""


class ModelLoaded(ForethoughtError):
    """Kept for code that catches it."""


class NotImplemented(ForethoughtError):  # noqa: A001 (onnxruntime's name)
    """A valid model or value that is not supported here."""


class InvalidGraph(ForethoughtError):
    """The model breaks a rule of ONNX."""


class EPFail(ForethoughtError):
    """An execution provider failed."""


class NotFound(ForethoughtError):
    """Something that was named is not there."""


class ModelLoadCanceled(ForethoughtError):
    """Kept for code that catches it."""


class ModelRequiresCompilation(ForethoughtError):
    """Kept for code that catches it."""


class DeviceReset(ForethoughtError):
    """Kept for code that catches it."""

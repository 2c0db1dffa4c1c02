"""An onnx.backend for onnx's own test runner and for code written against that interface."""
import numpy as np
import onnx
import onnx.backend.base

import forethought


class ForethoughtRep(onnx.backend.base.BackendRep):
    """A model that is ready to run."""

    def __init__(self, session: forethought.InferenceSession):
        self.session = session

    def run(self, inputs, **kwargs) -> tuple:
        """Runs once: a list of values in the order of the inputs, {name: value}, or the only input itself."""
        if isinstance(inputs, np.ndarray):
            inputs = [inputs]
        if not isinstance(inputs, dict):
            names = [a.name for a in self.session.get_inputs()]
            names += [a.name for a in self.session.get_overridable_initializers()]
            if len(inputs) > len(names):
                raise forethought.InvalidArgument(f"the model has {len(names)} inputs; {len(inputs)} came")
            inputs = dict(zip(names, inputs))
        return tuple(self.session.run(None, inputs, kwargs.get("run_options")))


class ForethoughtBackend(onnx.backend.base.Backend):
    """Loads models and runs them on the CPU."""

    @classmethod
    def is_compatible(cls, model, device: str = "CPU", **kwargs) -> bool:
        """True if the model loads."""
        try:
            cls.prepare(model, device, **kwargs)
        except forethought.ForethoughtError:
            return False
        return True

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """True for the CPU."""
        return device.split(":")[0] == "CPU"

    @classmethod
    def prepare(cls, model, device: str = "CPU", **kwargs) -> ForethoughtRep:
        """A session of a ModelProto, bytes, a path, or a session."""
        if not cls.supports_device(device):
            raise forethought.InvalidArgument(f"there is no device {device}; there is CPU")
        if isinstance(model, forethought.InferenceSession):
            return ForethoughtRep(model)
        if isinstance(model, onnx.ModelProto):
            model = model.SerializeToString()
        return ForethoughtRep(forethought.InferenceSession(model, kwargs.get("sess_options")))

    @classmethod
    def run_model(cls, model, inputs, device: str = "CPU", **kwargs) -> tuple:
        """Loads and runs once."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(cls, node, inputs, device: str = "CPU", outputs_info=None, **kwargs) -> tuple:
        """Runs one node on arrays."""
        opset = onnx.helper.make_opsetid(node.domain, kwargs.get("opset_version", onnx.defs.onnx_opset_version()))
        given = [(n, np.asarray(a)) for n, a in zip((n for n in node.input if n), inputs, strict=True)]
        typed = [
            onnx.helper.make_tensor_value_info(n, onnx.helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in given
        ]
        graph = onnx.helper.make_graph([node], "node", typed, [onnx.ValueInfoProto(name=n) for n in node.output if n])
        model = onnx.helper.make_model(graph, opset_imports=[opset])
        return cls.run_model(model, dict(given), device)


is_compatible = ForethoughtBackend.is_compatible
prepare = ForethoughtBackend.prepare
run = ForethoughtBackend.run_model
run_model = ForethoughtBackend.run_model
run_node = ForethoughtBackend.run_node
supports_device = ForethoughtBackend.supports_device

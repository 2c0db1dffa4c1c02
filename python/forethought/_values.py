"""Values that Python holds between runs, and memory bound to inputs and outputs; with onnxruntime's names."""
import numpy as np

from forethought import _core, _dtypes
from forethought._errors import InvalidArgument


def _element_type(element_type) -> int:
    """A number of TensorProto.DataType from such a number, or from anything that NumPy takes for a dtype."""
    if isinstance(element_type, (int, np.integer)) and not isinstance(element_type, bool):
        return int(element_type)
    dtype = np.dtype(element_type)
    if dtype not in _dtypes.NUMBER_OF:
        raise InvalidArgument(f"NumPy's type {dtype} has no ONNX type")
    return _dtypes.NUMBER_OF[dtype]


def _check_device(device_type: str, device_id: int = 0) -> None:
    if device_type.lower() != "cpu":
        raise InvalidArgument(f"there is no device {device_type}:{device_id}; there is cpu:0")


class OrtDevice:
    """A device: the CPU."""

    def __init__(self, device_type: str = "cpu", device_id: int = 0):
        _check_device(device_type, device_id)

    @staticmethod
    def make(ort_device_name: str, device_id: int, vendor_id: int = -1) -> "OrtDevice":
        """The device of this name and number."""
        return OrtDevice(ort_device_name, device_id)

    def device_id(self) -> int:
        """Its number."""
        return 0

    def device_type(self) -> int:
        """0: the CPU."""
        return 0


class OrtValue:
    """A tensor or sequence that runs take and give without a copy."""

    def __init__(self, held: "_core.HeldValue"):
        self._held = held

    @classmethod
    def ortvalue_from_numpy(cls, numpy_obj, /, device_type="cpu", device_id=0, vendor_id=-1) -> "OrtValue":
        """Shares the memory of a contiguous array."""
        _check_device(device_type, device_id)
        return cls(_core.value_from_python(np.asarray(numpy_obj)))

    @classmethod
    def ortvalue_from_numpy_with_onnx_type(cls, data: np.ndarray, /, onnx_element_type: int) -> "OrtValue":
        """Shares the memory of a contiguous array, whose elements are taken as another type of the same width."""
        dtype = _dtypes.BY_NUMBER[onnx_element_type]
        if dtype.itemsize != data.dtype.itemsize:
            raise InvalidArgument(f"elements of {data.dtype} cannot be taken as {dtype}: their widths differ")
        return cls.ortvalue_from_numpy(data.view(dtype))

    @classmethod
    def ortvalue_from_shape_and_type(cls, shape, element_type=np.float32, device_type="cpu", device_id=0,
                                     vendor_id=-1) -> "OrtValue":
        """A tensor of zeros with memory of its own."""
        _check_device(device_type, device_id)
        return cls(_core.value_of_shape(list(shape), _element_type(element_type)))

    @classmethod
    def ort_value_from_sequence(cls, arrays) -> "OrtValue":
        """A sequence of tensors; ours."""
        return cls(_core.value_from_python(list(arrays)))

    def data_ptr(self) -> int:
        """The address of the first element."""
        return self._held.data_ptr()

    def device_name(self) -> str:
        """Where it lives."""
        return "cpu"

    def shape(self) -> list[int]:
        """The dims of a tensor."""
        return self._held.shape()

    def data_type(self) -> str:
        """Such as tensor(float)."""
        return self._held.data_type()

    def element_type(self) -> int:
        """The number of TensorProto.DataType of a tensor."""
        return self._held.element_type()

    def tensor_size_in_bytes(self) -> int:
        """Bytes of a tensor's elements."""
        return self._held.bytes()

    def has_value(self) -> bool:
        """False for an absent optional."""
        return self._held.has_value()

    def is_tensor(self) -> bool:
        """True for tensors."""
        return self._held.is_tensor()

    def is_sparse_tensor(self) -> bool:
        """True for sparse tensors."""
        return self._held.is_sparse()

    def is_tensor_sequence(self) -> bool:
        """True for sequences."""
        return self._held.is_sequence()

    def numpy(self):
        """The tensor as an array that shares its memory; a sequence as a list of arrays."""
        return self._held.to_python()

    def __array__(self, dtype=None, copy=None):
        array = self._held.to_python()
        return np.asarray(array, dtype=dtype) if copy is None else np.array(array, dtype=dtype, copy=copy)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        """A DLPack capsule over the tensor's memory, which the capsule keeps; versioned if max_version is (1, 0) or more.

        `stream` has no meaning for memory of the CPU. Memory that must not be written leaves in versioned capsules only.
        """
        return self._held.to_dlpack(max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        """(1, 0): the CPU."""
        return 1, 0

    def to_dlpack(self):
        """A DLPack capsule of the form from before versions."""
        return self.__dlpack__()

    @classmethod
    def from_dlpack(cls, data, /) -> "OrtValue":
        """Shares the memory of a capsule, which can be used once, or of any object with __dlpack__.

        Memory with strides, and elements that are not aligned, are copied once; `copied_bytes` tells.
        """
        return cls(_core.value_from_dlpack(data))

    @property
    def copied_bytes(self) -> int:
        """Bytes copied when the value was made; 0: it shares the memory it was made from. Ours."""
        return self._held.copied_bytes()

    def update_inplace(self, data) -> None:
        """Copies an array or OrtValue of the same type and shape into the tensor."""
        if not isinstance(data, (np.ndarray, OrtValue)):
            raise TypeError("data must be a numpy.ndarray or an OrtValue.")
        self._held.update_inplace(data._held if isinstance(data, OrtValue) else data)


class IOBinding:
    """Inputs and outputs of a session, bound to memory once and used by many runs."""

    def __init__(self, session):
        self._session = session
        self._inputs: dict[str, object] = {}
        self._outputs: dict[str, object] = {}
        self._results: list[OrtValue] = []
        self._donations: dict[str, str] = {}  # output → input
        self._rebound: set[str] = set()  # inputs that were bound after the last run: the next reads that
        self._turning = False  # the results are to be donated before the next run

    def _check_name(self, name: str, args) -> None:
        if name not in {a.name for a in args}:
            raise InvalidArgument(f"the model has no '{name}'; it has {', '.join(repr(a.name) for a in args)}")

    def _check_input(self, name: str) -> None:
        self._check_name(name, [*self._session.get_inputs(), *self._session.get_overridable_initializers()])

    def bind_cpu_input(self, name: str, arr_on_cpu) -> None:
        """Binds an array, whose memory is shared if it is contiguous."""
        self.bind_ortvalue_input(name, OrtValue.ortvalue_from_numpy(arr_on_cpu))

    def bind_input(self, name, device_type, device_id, element_type, shape, buffer_ptr) -> None:
        """Binds memory at an address, which the caller keeps."""
        _check_device(device_type, device_id)
        self._check_input(name)
        self._bind_input(name, _core.value_at(buffer_ptr, list(shape), _element_type(element_type)))

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        """Binds a value."""
        self._check_input(name)
        self._bind_input(name, ortvalue._held)

    def _bind_input(self, name: str, held) -> None:
        self._inputs[name] = held
        self._rebound.add(name)

    def bind_output(self, name, device_type="cpu", device_id=0, element_type=None, shape=None, buffer_ptr=None) -> None:
        """Asks for an output: in memory at an address that the caller keeps, or in memory of the session."""
        _check_device(device_type, device_id)
        self._check_name(name, self._session.get_outputs())
        if buffer_ptr is None:
            self._outputs[name] = None
            return
        if element_type is None or shape is None:
            raise ValueError("`element_type` and `shape` are to be provided if pre-allocated memory is provided")
        self._outputs[name] = _core.value_at(buffer_ptr, list(shape), _element_type(element_type))

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Asks for an output in the memory of a value."""
        self._check_name(name, self._session.get_outputs())
        self._outputs[name] = ortvalue._held

    def synchronize_inputs(self) -> None:
        """Returns when inputs are where they are needed: at once, on the CPU."""

    def synchronize_outputs(self) -> None:
        """Returns when outputs are where they are needed: at once, on the CPU."""

    def get_outputs(self) -> list[OrtValue]:
        """The results of the last run, in the order of binding."""
        return list(self._results)

    def copy_outputs_to_cpu(self) -> list:
        """The results of the last run as arrays."""
        return [value.numpy() for value in self._results]

    def donate(self, output: str, input: str) -> None:  # noqa: A002 (as in C++)
        """From the next run on, each run's input is what the run before gave as output, with no copy. Ours.

        The first run takes what is bound to the input. If the output is bound to memory, the two change places between
        runs; else the memory of a state that was read goes back before the run after.
        """
        self._check_name(output, self._session.get_outputs())
        self._check_input(input)
        for o, i in self._donations.items():
            if o == output or i == input:
                raise InvalidArgument(f"output '{o}' is given to input '{i}' already; one output goes to one input")
        if output not in self._outputs:
            raise InvalidArgument(f"output '{output}' is not bound: call bind_output for it first")
        self._donations[output] = input

    def _turn(self) -> None:
        """Makes outputs of the last run inputs."""
        results = dict(zip(self._outputs, self._results)) if self._turning else {}
        for output, into in self._donations.items():
            if output not in results or into in self._rebound:
                continue
            if self._outputs[output] is not None:
                self._outputs[output] = self._inputs[into]
            self._inputs[into] = results[output]._held
        self._rebound.clear()
        self._turning = False

    def clear_binding_inputs(self) -> None:
        """Forgets all inputs."""
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        """Forgets all outputs."""
        self._outputs.clear()
        self._donations.clear()
        self._results = []

    def _run(self, core, cancel) -> None:
        if not self._outputs:
            raise InvalidArgument("no output is bound: call bind_output for those that are wanted")
        self._turn()
        self._results = []  # their memory serves this run, unless somebody holds it
        held = core.run_values(list(self._outputs), self._inputs, list(self._outputs.values()), cancel)
        self._results = [OrtValue(h) for h in held]
        self._turning = True


class SessionIOBinding(IOBinding):
    """The form of onnxruntime's core: devices are OrtDevice, and bind_input takes an array, too."""

    def bind_input(self, name, array_or_device, element_type=None, shape=None, buffer_ptr=None) -> None:
        """Binds an array; or memory of a device at an address, which the caller keeps."""
        if isinstance(array_or_device, OrtDevice):
            super().bind_input(name, "cpu", 0, element_type, shape, buffer_ptr)
        else:
            self.bind_cpu_input(name, array_or_device)

    def bind_output(self, name, device, element_type=None, shape=None, buffer_ptr=None) -> None:
        """Asks for an output in memory of the session, or at an address that the caller keeps."""
        super().bind_output(name, "cpu", 0, element_type, shape, buffer_ptr)

"""Values that Python holds between runs, and memory bound to inputs and outputs; with onnxruntime's names."""
import collections

import numpy as np

from forethought import _core, _dtypes
from forethought._errors import InvalidArgument
from forethought._numbers import whole, whole_list


def _element_type(element_type) -> int:
    """A number of TensorProto.DataType from such a number, or from anything that NumPy takes for a dtype."""
    if isinstance(element_type, (int, np.integer)) and not isinstance(element_type, bool):
        return int(element_type)
    dtype = np.dtype(element_type)
    if dtype not in _dtypes.NUMBER_OF:
        raise InvalidArgument(f"NumPy's type {dtype} has no ONNX type")
    return _dtypes.NUMBER_OF[dtype]


def _check_device(device_type: str, device_id: int = 0) -> None:
    if not isinstance(device_type, str):
        raise TypeError(f"the type of a device is a str, not {type(device_type).__name__}")
    if device_type.lower() != "cpu" or whole(device_id, "the number of a device") != 0:
        raise InvalidArgument(f"there is no device {device_type}:{device_id}; there is cpu:0")


def _held_by(ortvalue) -> "_core.HeldValue":
    if not isinstance(ortvalue, OrtValue):
        raise TypeError(f"an OrtValue is wanted, not {type(ortvalue).__name__}")
    return ortvalue._held


def _memory_at(buffer_ptr, shape, element_type) -> "_core.HeldValue":
    """A tensor over memory that the caller keeps."""
    address = whole(buffer_ptr, "buffer_ptr")
    if address < 0:
        raise InvalidArgument(f"the address of the memory is {address}; give array.ctypes.data")
    return _core.value_at(address, whole_list(shape, "a dim"), _element_type(element_type))


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

    def device_mem_type(self) -> int:
        """0: plain memory."""
        return 0

    def device_vendor_id(self) -> int:
        """0: none in particular."""
        return 0


class OrtValue:
    """A tensor or sequence that runs take and give without a copy."""

    def __init__(self, held: "_core.HeldValue"):
        if not isinstance(held, _core.HeldValue):
            raise TypeError(f"OrtValues are made by OrtValue.ortvalue_from_numpy, not of a {type(held).__name__}")
        self._held = held

    @classmethod
    def ortvalue_from_numpy(cls, numpy_obj, /, device_type="cpu", device_id=0, vendor_id=-1) -> "OrtValue":
        """Shares the memory of a contiguous array."""
        _check_device(device_type, device_id)
        return cls(_core.value_from_python(np.asarray(numpy_obj)))

    @classmethod
    def ortvalue_from_numpy_with_onnx_type(cls, data: np.ndarray, /, onnx_element_type: int) -> "OrtValue":
        """Shares the memory of a contiguous array, whose elements are taken as another type of the same width."""
        number = _element_type(onnx_element_type)
        dtype = _dtypes.BY_NUMBER[number] if 0 < number < len(_dtypes.BY_NUMBER) else None
        if dtype is None or dtype.kind == "O":
            raise InvalidArgument(f"elements of an array cannot be taken as ONNX element type {number}")
        if dtype.itemsize != data.dtype.itemsize:
            raise InvalidArgument(f"elements of {data.dtype} cannot be taken as {dtype}: their widths differ")
        return cls.ortvalue_from_numpy(data.view(dtype))

    @classmethod
    def ortvalue_from_shape_and_type(cls, shape, element_type=np.float32, device_type="cpu", device_id=0,
                                     vendor_id=-1) -> "OrtValue":
        """A tensor of zeros with memory of its own."""
        _check_device(device_type, device_id)
        return cls(_core.value_of_shape(whole_list(shape, "a dim"), _element_type(element_type)))

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


class OrtValueVector(collections.UserList):
    """OrtValues in a row, with the names of onnxruntime's vector of them."""

    def push_back(self, value) -> None:
        """Appends an OrtValue, or one over the memory of a DLPack capsule."""
        self.append(value if isinstance(value, OrtValue) else OrtValue.from_dlpack(value))

    def push_back_batch(self, tensors, data_ptrs, element_types, shapes, devices) -> None:
        """Appends values over memory at these addresses, which `tensors` keep and the values keep them."""
        for tensor, address, element_type, shape, _ in zip(tensors, data_ptrs, element_types, shapes, devices, strict=True):
            value = OrtValue(_memory_at(address, shape, element_type))
            value._source = tensor
            self.append(value)

    def reserve(self, count: int) -> None:
        """Kept for compatibility."""
        whole(count, "the number of values")

    def shrink_to_fit(self) -> None:
        """Kept for compatibility."""

    def element_type_at(self, index: int) -> int:
        """The number of TensorProto.DataType of the tensor there."""
        return self[index].element_type()

    def dlpack_at(self, index: int):
        """A DLPack capsule over the tensor there."""
        return self[index].to_dlpack()

    def to_dlpacks(self, to_tensor=None) -> list:
        """Capsules of all tensors, or what `to_tensor` makes of each."""
        capsules = [value.to_dlpack() for value in self]
        return capsules if to_tensor is None else [to_tensor(capsule) for capsule in capsules]


class IOBinding:
    """Inputs and outputs of a session, bound to memory once and used by many runs."""

    def __init__(self, session):
        self._session = session
        self._inputs: dict[str, object] = {}
        self._outputs: dict[str, object] = {}
        self._results: dict[str, OrtValue] = {}
        self._donations: dict[str, str] = {}  # output → input
        # Bound by the caller after the last run: the next takes these as they are, and turns nothing into them.
        self._new_inputs: set[str] = set()
        self._new_outputs: set[str] = set()
        self._turning = False  # the results are to be donated before the next run

    def _check_name(self, name: str, args) -> None:
        if name not in {a.name for a in args}:
            raise InvalidArgument(f"the model has no '{name}'; it has {', '.join(repr(a.name) for a in args)}")

    def _check_input(self, name: str) -> None:
        self._check_name(name, [*self._session.get_inputs(), *self._session.get_overridable_initializers()])

    def bind_cpu_input(self, name: str, arr_on_cpu) -> None:
        """Binds an array, whose memory is shared if it is contiguous; else a copy in memory of the session."""
        self._check_input(name)
        self._bind_input(name, self._session._core.value_for_input(name, np.asarray(arr_on_cpu)))

    def bind_input(self, name, device_type, device_id, element_type, shape, buffer_ptr) -> None:
        """Binds memory at an address, which the caller keeps."""
        _check_device(device_type, device_id)
        self._check_input(name)
        self._bind_input(name, _memory_at(buffer_ptr, shape, element_type))

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        """Binds a value."""
        self._check_input(name)
        self._bind_input(name, _held_by(ortvalue))

    def _bind_input(self, name: str, held) -> None:
        self._inputs[name] = held
        self._new_inputs.add(name)

    def _bind_output(self, name: str, held) -> None:
        self._outputs[name] = held
        self._new_outputs.add(name)

    def bind_output(self, name, device_type="cpu", device_id=0, element_type=None, shape=None, buffer_ptr=None) -> None:
        """Asks for an output: in memory at an address that the caller keeps, or in memory of the session."""
        _check_device(device_type, device_id)
        self._check_name(name, self._session.get_outputs())
        if buffer_ptr is None:
            self._bind_output(name, None)
            return
        if element_type is None or shape is None:
            raise ValueError("`element_type` and `shape` are to be provided if pre-allocated memory is provided")
        self._bind_output(name, _memory_at(buffer_ptr, shape, element_type))

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Asks for an output in the memory of a value."""
        self._check_name(name, self._session.get_outputs())
        self._bind_output(name, _held_by(ortvalue))

    def synchronize_inputs(self) -> None:
        """Returns when inputs are where they are needed: at once, on the CPU."""

    def synchronize_outputs(self) -> None:
        """Returns when outputs are where they are needed: at once, on the CPU."""

    def get_outputs(self) -> list[OrtValue]:
        """The results of the last run, in the order of binding."""
        return list(self._results.values())

    def get_outputs_as_ortvaluevector(self) -> OrtValueVector:
        """The same as a vector, for run_with_ortvaluevector."""
        return OrtValueVector(self._results.values())

    def copy_outputs_to_cpu(self) -> list:
        """The results of the last run as arrays."""
        return [value.numpy() for value in self._results.values()]

    def donate(self, output: str, input: str) -> None:  # noqa: A002 (as in C++)
        """From the next run on, each run's input is what the run before gave as output, with no copy. Ours.

        The first run takes what is bound to the input. If the output is bound to memory, the two change places between
        runs; else the memory of a state that was read goes back before the run after. What is bound to either after a
        run is what the next run uses.
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
        results = self._results if self._turning else {}
        turning = {o: i for o, i in self._donations.items() if o in results and i not in self._new_inputs}
        for output, into in self._donations.items():
            fresh = output in turning and output in self._new_outputs
            if self._outputs[output] is not None and self._inputs.get(into) is None and not fresh:
                raise InvalidArgument(
                    f"output '{output}' is bound to memory, and is to change places with what is bound to input '{into}' "
                    f"after each run, but nothing is: bind memory to '{into}' too, or '{output}' to none")
        for output, into in turning.items():
            if self._outputs[output] is not None and output not in self._new_outputs:
                self._outputs[output] = self._inputs[into]
            self._inputs[into] = results[output]._held
        self._new_inputs.clear()
        self._new_outputs.clear()
        self._turning = False

    def clear_binding_inputs(self) -> None:
        """Forgets all inputs."""
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        """Forgets all outputs, and what was to be done with them."""
        self._outputs.clear()
        self._donations.clear()
        self._new_outputs.clear()
        self._results = {}

    def _run(self, core, cancel) -> None:
        if not self._outputs:
            raise InvalidArgument("no output is bound: call bind_output for those that are wanted")
        self._turn()
        self._session._check_feed(self._inputs)
        self._results = {}  # their memory serves this run, unless somebody holds it
        held = core.run_values(list(self._outputs), self._inputs, list(self._outputs.values()), cancel)
        self._results = {name: OrtValue(h) for name, h in zip(self._outputs, held)}
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

"""InferenceSession: a model, loaded, rewritten and planned once, then run; with onnxruntime's names and behaviour."""
import collections.abc
import copy
import json
import os
import time
import warnings

from forethought import _core
from forethought._errors import InvalidArgument
from forethought._memory import MemoryStats
from forethought._numbers import whole, whole_list
from forethought._options import RunOptions, SessionOptions
from forethought._plan import MemoryPlan
from forethought._values import IOBinding, OrtValue, _check_device, _element_type, _held_by

_PROVIDERS = ["CPUExecutionProvider"]


def get_available_providers() -> list[str]:
    """The execution providers of this build, best first."""
    return list(_PROVIDERS)


class NodeArg:
    """An input or output as the model declares it; a dim is a number, a name, or None if nothing is known."""

    __slots__ = ("name", "type", "shape")

    def __init__(self, name: str, type: str, shape: list):  # noqa: A002 (onnxruntime's name)
        self.name, self.type, self.shape = name, type, shape

    def __repr__(self) -> str:
        return f"NodeArg(name={self.name!r}, type={self.type!r}, shape={self.shape})"


class ModelMetadata:
    """What the model's file says about itself."""

    def __init__(self, facts: dict):
        self.producer_name: str = facts["producer_name"]
        self.producer_version: str = facts["producer_version"]
        self.graph_name: str = facts["graph_name"]
        self.domain: str = facts["domain"]
        self.description: str = facts["description"]
        self.graph_description: str = ""
        self.version: int = facts["version"]
        self.ir_version: int = facts["ir_version"]
        self.opsets: dict[str, int] = facts["opsets"]
        self.custom_metadata_map: dict[str, str] = facts["custom_metadata_map"]


def _normalize_providers(providers, provider_options) -> list[tuple[str, dict[str, str]]]:
    """Pairs of name and options, in order, from onnxruntime's ways of writing them."""
    if providers is None:
        return []
    if isinstance(providers, str) or not isinstance(providers, collections.abc.Sequence):
        raise ValueError("'providers' should be a sequence.")
    pairs = []
    if provider_options is not None:
        if not isinstance(provider_options, collections.abc.Sequence):
            raise ValueError("'provider_options' should be a sequence.")
        if len(providers) != len(provider_options):
            raise ValueError("'providers' and 'provider_options' should be the same length if both are given.")
        if not all(isinstance(p, str) for p in providers):
            raise ValueError("Only string values for 'providers' are supported if 'provider_options' is given.")
        if not all(isinstance(o, dict) for o in provider_options):
            raise ValueError("'provider_options' values must be dicts.")
        pairs = list(zip(providers, provider_options))
    else:
        for p in providers:
            if isinstance(p, str):
                pairs.append((p, {}))
            elif isinstance(p, tuple) and len(p) == 2 and isinstance(p[0], str) and isinstance(p[1], dict):
                pairs.append(p)
            else:
                raise ValueError("'providers' values must be either strings or (string, dict) tuples.")
    unique: dict[str, dict[str, str]] = {}
    for name, options in pairs:
        if name in unique:
            warnings.warn(f"Duplicate provider '{name}' encountered, ignoring.", stacklevel=4)
            continue
        unique[name] = {str(k): str(v) for k, v in options.items()}
    return list(unique.items())


def _strings(names, what: str) -> list[str]:
    """A list of str, from any iterable but a str itself."""
    if isinstance(names, (str, bytes)) or not hasattr(names, "__iter__"):
        raise TypeError(f"{what} are a list of str, not one {type(names).__name__}: {names!r}")
    names = list(names)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"{what} are a list of str; one of them is a {type(name).__name__}: {name!r}")
    return names


class InferenceSession:
    """A model that is ready to run. Any number of threads may run it at once.

    `path_or_bytes` is a file's path or the bytes of a model. A provider that is not there is an error, unless
    `allow_fallback=True` is given (ours): then it is warned of, and the CPU does the work.
    """

    def __init__(self, path_or_bytes, sess_options=None, providers=None, provider_options=None, **kwargs):
        unknown = set(kwargs) - {"allow_fallback", "enable_fallback", "disabled_optimizers", "read_config_from_model"}
        if unknown:
            raise TypeError(f"InferenceSession has no argument {', '.join(map(repr, sorted(unknown)))}")
        if not isinstance(path_or_bytes, (str, os.PathLike, bytes, bytearray, memoryview)):
            raise TypeError(f"Unable to load from type '{type(path_or_bytes)}'")
        if sess_options is not None and not isinstance(sess_options, SessionOptions):
            raise TypeError(f"sess_options wants SessionOptions, not {type(sess_options).__name__}")
        self._start_ns = time.monotonic_ns()
        self._sess_options = SessionOptions() if sess_options is None else copy.deepcopy(sess_options)
        self._source = path_or_bytes
        self._allow_fallback = bool(kwargs.get("allow_fallback", False))
        self._disabled = _strings(kwargs.get("disabled_optimizers") or (), "disabled_optimizers")
        self._load(providers, provider_options)

    def _load(self, providers, provider_options) -> None:
        pairs = _normalize_providers(providers, provider_options)
        options = self._sess_options._core_options(pairs, self._allow_fallback)
        options.disable_rewrites(self._disabled)
        if isinstance(self._source, (str, os.PathLike)):
            path = os.fsdecode(self._source)
            self._core = _core.load_path(os.fsencode(path), options)
            self._title = os.path.basename(path)
        else:
            self._core = _core.load_bytes(bytes(self._source), options)
            self._title = self._core.metadata()["graph_name"] or "model"
        self._provider_options = {name: dict(pairs).get(name, {}) for name in self._core.providers()}
        args = self._core.inputs()
        self._inputs = [NodeArg(*a[:3]) for a in args if not a[3]]
        self._overridable = [NodeArg(*a[:3]) for a in args if a[3]]
        self._outputs = [NodeArg(*a[:3]) for a in self._core.outputs()]
        self._required = {a.name for a in self._inputs if not a.type.startswith("optional")}

    # --- what the model says

    def get_inputs(self) -> list[NodeArg]:
        """The inputs that must be fed."""
        return self._inputs

    def get_outputs(self) -> list[NodeArg]:
        """The outputs."""
        return self._outputs

    def get_overridable_initializers(self) -> list[NodeArg]:
        """The inputs that have a default in the model."""
        return self._overridable

    def get_modelmeta(self) -> ModelMetadata:
        """What the file says about itself."""
        return ModelMetadata(self._core.metadata())

    def get_session_options(self) -> SessionOptions:
        """The options that the session was made with."""
        return self._sess_options

    def get_providers(self) -> list[str]:
        """The execution providers, in order of priority."""
        return self._core.providers()

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """The options of each provider."""
        return self._provider_options

    def set_providers(self, providers=None, provider_options=None) -> None:
        """Loads the model anew, with these execution providers. Not while runs go on."""
        self._load(providers, provider_options)

    def disable_fallback(self) -> None:
        """Kept for compatibility: a run that fails says so, and is not tried elsewhere."""

    def enable_fallback(self) -> None:
        """Kept for compatibility, as disable_fallback."""

    # --- running

    def _check_feed(self, input_feed) -> None:
        if not isinstance(input_feed, collections.abc.Mapping):
            raise TypeError(f"the feed is a dict from names to values, not {type(input_feed).__name__}")
        missing = self._required - input_feed.keys()
        if missing:
            names = [a.name for a in self._inputs if a.name in missing]
            raise ValueError(f"Required inputs ({names}) are missing from input feed ({list(input_feed)}).")

    def _cancel(self, run_options):
        if run_options is None:
            return None
        if not isinstance(run_options, RunOptions):
            raise TypeError(f"run_options wants RunOptions, not {type(run_options).__name__}")
        return run_options._cancel

    def run(self, output_names, input_feed, run_options=None) -> list:
        """Runs once: {name: array} in, the named outputs (all, if no names are given) out.

        Contiguous arrays of the right type are read where they are; others are copied into memory of the session. A result
        is an array over memory of the runtime, which the array keeps; or a list for a sequence, an array of str for
        strings, None for an absent optional. A name that is there twice gives two arrays, each with memory of its own.
        """
        self._check_feed(input_feed)
        feed = {k: v._held if isinstance(v, OrtValue) else v for k, v in input_feed.items()}
        return self._core.run(_strings(output_names or (), "the names of outputs"), feed, self._cancel(run_options))

    def run_with_ort_values(self, output_names, input_dict_ort_values, run_options=None) -> list[OrtValue]:
        """The same with OrtValues in and out."""
        self._check_feed(input_dict_ort_values)
        feed = {k: _held_by(v) for k, v in input_dict_ort_values.items()}
        return [OrtValue(h) for h in self._core.run_values(_strings(output_names or (), "the names of outputs"), feed, [], self._cancel(run_options))]

    def run_with_ortvaluevector(self, run_options, feed_names, feeds, fetch_names, fetches, fetch_devices) -> None:
        """The same with vectors: `fetches` is filled with the results, or, if it has values, they are written there."""
        names = _strings(feed_names, "the names of inputs")
        if len(names) != len(feeds):
            raise ValueError(f"{len(names)} names of inputs and {len(feeds)} values came")
        feed = {k: _held_by(v) for k, v in zip(names, feeds)}
        self._check_feed(feed)
        wanted = _strings(fetch_names, "the names of outputs")
        if fetches and len(fetches) != len(wanted):
            raise ValueError(f"{len(wanted)} names of outputs and {len(fetches)} values for them came")
        bound = [_held_by(v) for v in fetches]
        results = self._core.run_values(wanted, feed, bound, self._cancel(run_options))
        fetches[:] = [OrtValue(h) for h in results]

    def create_ortvalue_from_shape_and_type(self, shape, element_type, device_type="cpu", device_id=0,
                                            vendor_id=-1) -> OrtValue:
        """A tensor of zeros in memory of the session's I/O arena, which counts it as long as it lives."""
        _check_device(device_type, device_id)
        return OrtValue(self._core.value_of_shape(whole_list(shape, "a dim"), _element_type(element_type)))

    def run_async(self, output_names, input_feed, callback, user_data, run_options=None) -> None:
        """Runs on a thread of the session's, which then calls callback(results, user_data, error): "" if all went well.

        The feed is taken before this returns; arrays that are read where they are must not change until the callback.
        An exception of the callback is shown by sys.unraisablehook. RunOptions.terminate cancels the run.
        """
        self._check_feed(input_feed)
        if not callable(callback):
            raise TypeError(f"the callback is to be callable with (results, user_data, error), not {type(callback).__name__}")
        feed = {k: v._held if isinstance(v, OrtValue) else v for k, v in input_feed.items()}
        self._core.run_async(_strings(output_names or (), "the names of outputs"), feed, callback, user_data, self._cancel(run_options))

    def io_binding(self) -> IOBinding:
        """An empty binding of this session."""
        return IOBinding(self)

    def run_with_iobinding(self, iobinding: IOBinding, run_options=None) -> None:
        """Runs once with bound inputs and outputs."""
        if not isinstance(iobinding, IOBinding):
            raise TypeError(f"an IOBinding is wanted, not {type(iobinding).__name__}")
        if iobinding._session is not self:
            raise ValueError("IOBinding must be used with the session that created it.")
        iobinding._run(self._core, self._cancel(run_options))

    def end_profiling(self) -> str:
        """Writes the times of all steps since the last call as a Chrome trace; the file's name, or "" if not enabled."""
        if not self._sess_options.enable_profiling:
            return ""
        events = [{
            "name": name, "cat": "Node", "ph": "X", "pid": os.getpid(), "tid": thread, "ts": (begin - self._start_ns) / 1e3,
            "dur": (end - begin) / 1e3, "args": {"step": step, "depth": depth}
        } for name, step, depth, begin, end, thread in self._core.take_profile()]
        path = f"{self._sess_options.profile_file_prefix}{time.strftime('%Y-%m-%d_%H-%M-%S')}_{self._start_ns}.json"
        with open(path, "w", encoding="utf-8") as file:
            json.dump(events, file)
        return path

    def get_profiling_start_time_ns(self) -> int:
        """When the profile's time 0 was, by time.monotonic_ns()."""
        return self._start_ns

    # --- memory (ours)

    def memory_stats(self) -> MemoryStats:
        """Bytes by use: live + retained + padding are what is mapped; planned, unplanned, leased, weights and packed are
        what is live; peak is the most that was mapped, limit what may be (0: no limit). execution_cap, io_cap and side_cap
        are what the arenas keep at most between runs, instance_cache the same of kernels;
        memory_report()["caps"] says what they follow from."""
        return MemoryStats(self._core.memory_stats())

    def memory_report(self, input_shapes=None) -> dict:
        """Who holds the memory, largest first, the least limit that works, what bounds the memory that is kept and what
        those caps follow from, and what lies outside all accounts; "text" has all of it for people. It is for the shapes
        seen last ("least_limit" is 0 if none were), or before any run for {name: shape}, as in memory_plan()."""
        return self._core.memory_report(None if input_shapes is None else self._shapes(input_shapes))

    def trim(self, target: int = 0) -> int:
        """Gives back what is kept between runs until at most `target` bytes are; by how much `retained` fell."""
        target = whole(target, "the target")
        if target < 0:
            raise InvalidArgument(f"what is kept cannot be brought down to {target} bytes; 0 gives all of it back")
        return self._core.trim(target)

    def set_memory_limit(self, limit: int) -> None:
        """Bytes that the session may take, 0: no limit. What is kept above it goes back; what is in use must fit."""
        self._core.set_memory_limit(whole(limit, "the memory limit"))

    def set_retention(self, execution: int = -1, io: int = -1, side: int = -1) -> None:
        """Bytes kept between runs, of plans, outputs and unplanned buffers; -1: what is planned and a quarter more."""
        self._core.set_retention(*whole_list((execution, io, side), "what an arena keeps"))

    # --- what the runtime decided (ours)

    def summary(self) -> dict:
        """Nodes, bytes, times and counts of the session so far: of plans (plan_hits, plan_misses …) and of what kernels made
        for shapes (instances, instance_bytes, instances_made …); docs/memory.md says what each is."""
        return self._core.summary()

    def stages(self) -> dict:
        """The stages from file to plan, the journal of rewrites, and why each node runs where it runs."""
        return self._core.stages()

    def _shapes(self, input_shapes) -> list[list[int]]:
        """One shape an input of the core, from {name: shape} and what the model declares."""
        given, inputs = dict(input_shapes or {}), self._core.largest_inputs()
        if unknown := given.keys() - {name for name, *_ in inputs}:
            raise InvalidArgument(f"the model has no input {', '.join(map(repr, sorted(unknown, key=str)))}")
        shapes = []
        for name, _, declared, _ in inputs:
            shape = given.get(name)
            if shape is not None:
                shapes.append(whole_list(shape, f"a dim of input '{name}'"))
            elif all(isinstance(d, int) for d in declared):
                shapes.append(declared)
            else:
                raise InvalidArgument(f"the shape {declared} of input '{name}' is not fixed: give one in input_shapes")
        return shapes

    def memory_plan(self, input_shapes=None) -> MemoryPlan:
        """The memory plan for {name: shape}. Where the model declares numbers, or dims have bounds (add_max_dimension), shapes
        need not be given: the plan is for the largest then."""
        return MemoryPlan(json.loads(self._core.plan(self._shapes(input_shapes), True)), self._title)

    def plan_text(self, input_shapes=None) -> str:
        """The memory plan as text for people."""
        return self._core.plan(self._shapes(input_shapes), False)

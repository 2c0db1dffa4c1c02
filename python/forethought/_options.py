"""Options of sessions and of runs, with onnxruntime's names and values."""
import difflib
import enum
import os

from forethought import _core
from forethought._errors import InvalidArgument
from forethought._numbers import whole


class GraphOptimizationLevel(enum.IntEnum):
    """How much the graph is rewritten at load."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(enum.IntEnum):
    """Kept for compatibility: the plan decides how steps run."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(enum.IntEnum):
    """Kept for compatibility: the planner decides the order."""

    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


def _typed(name: str, kind: type, default, doc: str) -> property:
    """A property that takes only values of `kind`; for int, whatever is a whole number."""
    slot = "_" + name

    def read(self):
        return getattr(self, slot, default)

    def write(self, value):
        if kind is int:
            setattr(self, slot, whole(value, f"{type(self).__name__}.{name}"))
            return
        if not isinstance(value, kind):
            raise TypeError(f"{type(self).__name__}.{name} wants {kind.__name__}, not {type(value).__name__}")
        setattr(self, slot, value)

    return property(read, write, doc=doc)


class _Allocator:
    """A pair of functions for memory. Copies of options share it."""

    def __init__(self, pair, what: str):
        if not isinstance(pair, (tuple, list)) or len(pair) != 2 or not all(callable(f) for f in pair):
            raise TypeError(f"{what} wants a pair of callables, allocate(bytes, alignment) and free(address), or None; not "
                            f"{type(pair).__name__}")
        self.pair = tuple(pair)

    def __deepcopy__(self, memo):
        return self


def _allocator(name: str, doc: str) -> property:
    """A property that takes a pair of callables, or None."""
    slot = "_" + name

    def read(self):
        kept = getattr(self, slot, None)
        return kept and kept.pair

    def write(self, pair):
        setattr(self, slot, None if pair is None else _Allocator(pair, f"{type(self).__name__}.{name}"))

    return property(read, write, doc=doc)


def _int32(value: int) -> int:
    """The nearest number that a C int holds: what lies beyond is refused as that is, or as good as it."""
    return max(-2**31, min(value, 2**31 - 1))


class _ConfigEntries:
    """String settings by key. An attribute that the class does not have is an error, as with onnxruntime."""

    def __init__(self):
        self._config: dict[str, str] = {}

    def __setattr__(self, name, value):
        kind = type(self)
        if not name.startswith("_") and not hasattr(kind, name) and kind.__module__ == __name__:
            near = difflib.get_close_matches(name, [n for n in dir(kind) if not n.startswith("_")], 1)
            raise AttributeError(f"{kind.__name__} has no '{name}'" + (f"; did you mean '{near[0]}'?" if near else ""))
        super().__setattr__(name, value)

    def _add(self, key: str, value: str) -> None:
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError("config entries are pairs of str")
        self._config[key] = value

    def _get(self, key: str) -> str:
        if key not in self._config:
            raise RuntimeError(f"{type(self).__name__} does not have configuration with key: {key}")
        return self._config[key]


PLAN_MODES = ("packed", "exact", "slots", "off")


class SessionOptions(_ConfigEntries):
    """What a session is made with. A session takes a copy of it."""

    graph_optimization_level = _typed(
        "graph_optimization_level", GraphOptimizationLevel, GraphOptimizationLevel.ORT_ENABLE_ALL,
        "How much the graph is rewritten.")
    intra_op_num_threads = _typed("intra_op_num_threads", int, 0, "Threads of a run; 0: one for each core available.")
    inter_op_num_threads = _typed("inter_op_num_threads", int, 0, "Kept; steps of one run do not overlap.")
    execution_mode = _typed("execution_mode", ExecutionMode, ExecutionMode.ORT_SEQUENTIAL, "Kept; the plan decides.")
    execution_order = _typed("execution_order", ExecutionOrder, ExecutionOrder.DEFAULT, "Kept; the planner decides.")
    enable_mem_pattern = _typed("enable_mem_pattern", bool, True, "False: a buffer for each value, nothing packed.")
    enable_mem_reuse = _typed("enable_mem_reuse", bool, True, "The same as enable_mem_pattern: both must be true to pack.")
    enable_cpu_mem_arena = _typed("enable_cpu_mem_arena", bool, True, "Kept; the slab of a plan is always pooled.")
    enable_profiling = _typed("enable_profiling", bool, False, "Record the time of each step; see end_profiling.")
    profile_file_prefix = _typed("profile_file_prefix", str, "forethought_profile_", "How the profile's file name begins.")
    log_severity_level = _typed("log_severity_level", int, -1, "Kept; set_default_logger_severity is for the process.")
    log_verbosity_level = _typed("log_verbosity_level", int, 0, "Kept.")
    logid = _typed("logid", str, "", "Kept.")
    use_deterministic_compute = _typed("use_deterministic_compute", bool, False, "Kept; results are always so.")
    use_per_session_threads = _typed("use_per_session_threads", bool, True, "Kept; each session has its threads.")
    memory_limit = _typed("memory_limit", int, 0, "Ours: bytes that the session may take, weights included; 0: no limit.")
    device_memory_limit = _typed("device_memory_limit", int, 0, "Ours: the same on each device with memory of its own.")
    retain_execution = _typed("retain_execution", int, -1, "Ours: bytes of planned memory kept between runs; -1: the "
                              "planned peak and a quarter more.")
    retain_io = _typed("retain_io", int, -1, "Ours: the same of buffers of outputs.")
    retain_side = _typed("retain_side", int, -1, "Ours: the same of buffers whose size only a run tells.")
    idle_trim_ms = _typed("idle_trim_ms", int, 0, "Ours: after so long without a run all that is kept goes back; 0: never.")
    plan_mode = _typed(
        "plan_mode", str, "packed",
        "Ours: how values share memory: packed (or what FORETHOUGHT_PLAN says), exact, and to compare slots and off.")
    plan_cache_capacity = _typed("plan_cache_capacity", int, 32, "Ours: plans kept for input shapes seen before, at least 1.")

    execution_allocator = _allocator("execution_allocator", "Ours: where memory of plans comes from, if not from the system: a "
                                     "pair of callables, allocate(bytes, alignment) that gives an address as int (0: there is "
                                     "none) and free(address). They are called on any thread, free also after the session is "
                                     "gone; allocate may raise.")
    io_allocator = _allocator("io_allocator", "Ours: the same for outputs, and for inputs that have to be copied. Each buffer "
                              "comes back once, when nobody holds it.")

    def __init__(self):
        super().__init__()
        self._optimized_model_filepath = ""
        self._free_dimensions: dict[str, int] = {}
        self._max_dimensions: dict[str, int] = {}
        self._providers: list[tuple[str, dict[str, str]]] = []

    @property
    def optimized_model_filepath(self) -> str:
        """Where the graph is saved after the passes; empty: nowhere. Large tensors go to a file beside it, named with
        ".data". An old file is replaced as a whole; links are followed; a device or FIFO gets all bytes itself."""
        return self._optimized_model_filepath

    @optimized_model_filepath.setter
    def optimized_model_filepath(self, path) -> None:
        self._optimized_model_filepath = os.fsdecode(path)

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Sets an entry; the session keeps and shows them."""
        self._add(key, value)

    def get_session_config_entry(self, key: str) -> str:
        """The entry, or a RuntimeError."""
        return self._get(key)

    def add_free_dimension_override_by_name(self, name: str, value: int) -> None:
        """Binds the symbolic dimension `name` to a number."""
        if not isinstance(name, str):
            raise TypeError("a free dimension is a name and a number")
        self._free_dimensions[name] = whole(value, f"the free dimension '{name}'")

    def add_max_dimension(self, name: str, value: int) -> None:
        """Ours: bounds the symbolic dimension `name`; all shapes within bounds run in the memory of one plan."""
        if not isinstance(name, str):
            raise TypeError("a bound is the name of a dimension and a number")
        self._max_dimensions[name] = whole(value, f"the bound of dimension '{name}'")

    def add_provider(self, name: str, options: dict[str, str]) -> None:
        """Adds an execution provider, in order of priority."""
        if not isinstance(name, str):
            raise TypeError(f"the name of a provider is a str, not {type(name).__name__}")
        self._providers.append((name, {str(k): str(v) for k, v in options.items()}))

    def has_providers(self) -> bool:
        """True after add_provider."""
        return bool(self._providers)

    def _core_options(self, providers, allow_fallback: bool) -> "_core.Options":
        o = _core.Options()
        level = int(self.graph_optimization_level)
        o.optimization_level = 99 if level == GraphOptimizationLevel.ORT_ENABLE_LAYOUT else level
        if self.plan_mode not in PLAN_MODES:
            raise InvalidArgument(f"plan_mode is {self.plan_mode!r}; it is one of {', '.join(PLAN_MODES)}")
        o.plan = self.plan_mode if self.enable_mem_pattern and self.enable_mem_reuse else "off"
        if self.inter_op_num_threads < 0:
            raise InvalidArgument(f"inter_op_num_threads is {self.inter_op_num_threads}; it is at least 0")
        o.intra_op_threads = _int32(self.intra_op_num_threads)
        o.allow_fallback = allow_fallback
        o.memory_limit = self.memory_limit
        o.device_memory_limit = self.device_memory_limit
        o.set_retention(self.retain_execution, self.retain_io, self.retain_side)
        o.set_allocators(self.execution_allocator, self.io_allocator)
        o.idle_trim_ms = _int32(self.idle_trim_ms)
        o.plan_cache_capacity = _int32(self.plan_cache_capacity)
        o.set_dimensions(self._free_dimensions, self._max_dimensions)
        external_data = self._config.get("session.model_external_initializers_file_folder_path", "")
        o.set_paths(os.fsencode(self._optimized_model_filepath), os.fsencode(external_data))
        o.profiling = self.enable_profiling
        o.set_config(self._config)
        for name, options in providers or self._providers:
            o.add_provider(name, options)
        return o


class RunOptions(_ConfigEntries):
    """What one run is made with."""

    log_severity_level = _typed("log_severity_level", int, -1, "Kept.")
    log_verbosity_level = _typed("log_verbosity_level", int, 0, "Kept.")
    logid = _typed("logid", str, "", "Kept.")
    only_execute_path_to_fetches = _typed("only_execute_path_to_fetches", bool, False, "Kept.")

    def __init__(self):
        super().__init__()
        self._cancel = _core.CancelFlag()

    @property
    def terminate(self) -> bool:
        """True asks the runs with these options to stop, from any thread."""
        return self._cancel.cancelled()

    @terminate.setter
    def terminate(self, stop: bool) -> None:
        if not isinstance(stop, bool):
            raise TypeError(f"RunOptions.terminate wants bool, not {type(stop).__name__}")
        if stop:
            self._cancel.cancel()
        else:
            self._cancel.reset()

    def add_run_config_entry(self, key: str, value: str) -> None:
        """Sets an entry."""
        self._add(key, value)

    def get_run_config_entry(self, key: str) -> str:
        """The entry, or a RuntimeError."""
        return self._get(key)

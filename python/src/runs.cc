// Runs from Python: feeds in, results out, now or behind the caller's back.
#include "runs.h"

#include <nanobind/stl/vector.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "allocator.h"
#include "errors.h"
#include "interrupt.h"
#include "values.h"

namespace forethought::python {
namespace {

const ValueType& type_of_input(const Session& session, std::string_view name) {
  static const ValueType unknown;
  for (const NodeArg& a : session.inputs())
    if (a.name == name) return a.type;
  return unknown;
}

// One run from Python: what was fed, what comes out, and what must live until the arrays are made.
struct Call {
  Feeding feeding;
  absl::InlinedVector<nb::object, 8> texts;  // whose bytes the names are
  absl::InlinedVector<NamedValue, 4> feeds;
  absl::InlinedVector<std::string_view, 4> names;
  absl::InlinedVector<Value, 4> outputs;

  std::string_view name(nb::handle text) {
    texts.emplace_back();
    return bytes_of(text, &texts.back());
  }
};

// Bytes that are copied of those inputs that come after the first `done`.
int64_t bytes_to_copy_after(nb::dict inputs, size_t done) {
  int64_t bytes = 0;
  for (auto [name, object] : inputs)
    if (done > 0) {
      --done;
    } else {
      bytes += bytes_to_copy(object);
    }
  return bytes;
}

// Gives each input, under its name, to `take`.
template <typename Take>
void each_input(PythonSession& self, nb::dict inputs, Call* call, Take take) {
  size_t done = 0;
  Feeding& feeding = call->feeding;
  feeding.session = self.session.get();
  feeding.lends = true;
  feeding.to_come = [&] { return bytes_to_copy_after(inputs, done); };
  for (auto [name, object] : inputs) {
    ++done;
    feeding.name = call->name(name);
    take(feeding.name, from_python(object, type_of_input(*self.session, feeding.name), &feeding));
  }
  feeding.to_come = nullptr;
  self.input_copies += feeding.copies;
  self.input_copied_bytes += feeding.copied_bytes;
}

void feed(PythonSession& self, nb::dict inputs, Call* call) {
  each_input(self, inputs, call, [&](std::string_view name, Value value) {
    call->feeds.push_back({name, std::move(value)});
  });
}

void ask(const Session& session, nb::handle names, Call* call) {
  for (nb::handle name : names) call->names.push_back(call->name(name));
  call->outputs.resize(call->names.empty() ? session.outputs().size() : call->names.size());
}

void execute(PythonSession& self, Call* call, const CancelFlag* cancel) {
  Interruptible interruptible(cancel);
  RunOptions options{interruptible.flag(), {}, nullptr};
  if (self.session->options().profiling) options.sink = &self.profile;
  Status status;
  {
    nb::gil_scoped_release release;
    status = self.session->run({call->feeds.data(), call->feeds.size()}, {call->names.data(), call->names.size()},
                               {call->outputs.data(), call->outputs.size()}, options);
  }
  interruptible.finish();
  check_run(*self.session, status);
}

// What a run behind the caller's back keeps, and whom it tells when it is over.
struct AsyncCall {
  std::vector<PythonOwner> keep;  // the session, and arrays that are read where they are
  PythonOwner callback, user_data;
};

void tell(const AsyncCall& call, AsyncRun run) {
  if (!interpreter_runs()) return;
  nb::gil_scoped_acquire lock;
  const nb::handle callback(call.callback.object);
  try {
    const Status status = run.wait();
    nb::list results;
    for (const Value& v : run.outputs())
      if (status.ok()) results.append(to_python(v));
    if (nb::object failure = allocator_failure(*nb::cast<PythonSession&>(nb::handle(call.keep[0].object)).session);
        failure.is_valid()) {
      PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(failure.ptr())), failure.ptr());
      PyErr_WriteUnraisable(call.keep[0].object);
    }
    callback(results, nb::handle(call.user_data.object), text({status.message().data(), status.message().size()}));
  } catch (nb::python_error& e) {
    e.restore();
    PyErr_WriteUnraisable(callback.ptr());
  }
}

}  // namespace

PythonSession::~PythonSession() {
  nb::gil_scoped_release release;  // what the session waits for may want the lock to give memory back
  session.reset();
}

HeldValue value_for_input(PythonSession& self, nb::handle name, nb::handle object) {
  Call call;
  Feeding feeding;
  feeding.session = self.session.get();
  feeding.name = call.name(name);
  HeldValue held = value_from_python(object, std::move(feeding));
  self.input_copies += held.copied_bytes > 0;
  self.input_copied_bytes += std::exchange(held.copied_bytes, 0);  // the session's own: it may be written
  return held;
}

HeldValue session_value(PythonSession& self, nb::handle shape, int dtype) {
  if (!is_valid_dtype(dtype) || bit_width(static_cast<DType>(dtype)) == 0)
    raise_named("InvalidArgument", "the session has no memory for ONNX element type " + std::to_string(dtype));
  const Dims dims = dims_of(shape);
  StatusOr<Tensor> room;
  {
    nb::gil_scoped_release release;
    room = self.session->take_io(static_cast<DType>(dtype), dims, "a value made by the caller");
  }
  check_run(*self.session, room.status());
  Tensor t = *std::move(room);
  if (t.bytes() > 0) std::memset(t.data, 0, static_cast<size_t>(t.bytes()));
  return {std::move(t)};
}

nb::list run(PythonSession& self, nb::handle names, nb::dict inputs, const CancelFlag* cancel) {
  Call call;
  ask(*self.session, names, &call);
  feed(self, inputs, &call);
  execute(self, &call, cancel);
  nb::list out;
  for (const Value& v : call.outputs) out.append(to_python(v));
  return out;
}

nb::list run_values(PythonSession& self, nb::handle names, nb::dict inputs, nb::list bound, const CancelFlag* cancel) {
  Call call;
  ask(*self.session, names, &call);
  feed(self, inputs, &call);
  for (size_t i = 0; i < bound.size() && i < call.outputs.size(); ++i)
    if (!bound[i].is_none()) call.outputs[i] = writable(nb::cast<const HeldValue&>(bound[i]), call.names[i]);
  execute(self, &call, cancel);
  nb::list out;
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    const bool in_place = i < bound.size() && !bound[i].is_none();
    out.append(in_place ? nb::object(bound[i]) : nb::cast(HeldValue{owned(call.outputs[i])}));
  }
  return out;
}

void run_async(nb::handle session, nb::handle names, nb::dict inputs, nb::handle callback, nb::handle user_data,
               const CancelFlag* cancel) {
  auto& self = nb::cast<PythonSession&>(session);
  auto call = std::make_shared<AsyncCall>(AsyncCall{{}, PythonOwner(callback), PythonOwner(user_data)});
  call->keep.emplace_back(session);
  AsyncRequest request;
  request.options = {
      cancel ? *cancel : CancelFlag::never(), {}, self.session->options().profiling ? &self.profile : nullptr};
  Call fed;
  for (nb::handle name : names) request.output_names.emplace_back(fed.name(name));
  each_input(self, inputs, &fed,
             [&](std::string_view name, Value value) { request.feeds.emplace_back(name, std::move(value)); });
  for (const nb::object& array : fed.feeding.keep) call->keep.emplace_back(array);
  Status started;
  {
    nb::gil_scoped_release release;
    started =
        self.session->run_async(std::move(request), [call](AsyncRun run) { tell(*call, std::move(run)); }).status();
  }
  check(started, During::run);
}

}  // namespace forethought::python

// Runs behind the caller's back, on those of the inner session.
#include "forethought/async.h"

#include "api/rep.h"
#include "session/async_run.h"

namespace forethought::v1 {

struct AsyncRun::Rep {
  ::forethought::AsyncRun run;
};

bool AsyncRun::over() const { return rep_->run.over(); }
Status AsyncRun::wait() const {
  return guarded([&] { return rep_->run.wait(); });
}
bool AsyncRun::wait_for(std::chrono::nanoseconds time) const { return rep_->run.wait_for(time); }
void AsyncRun::cancel() const { rep_->run.cancel(); }

Result<std::vector<Value>> AsyncRun::outputs() const {
  std::vector<Value> values;
  const Status s = guarded([&]() -> ::forethought::Status {
    RETURN_IF_ERROR(rep_->run.wait());
    for (const ::forethought::Value& v : rep_->run.outputs()) values.push_back(public_value(v));
    return absl::OkStatus();
  });
  if (!s.ok()) return s;
  return values;
}

Result<AsyncRun> Session::run_async(std::span<const NamedValue> inputs, std::span<const std::string_view> outputs,
                                    AsyncRun::Callback callback, const Cancel* cancel) const {
  std::shared_ptr<AsyncRun::Rep> handle;
  const Status s = guarded([&]() -> ::forethought::Status {
    handle = std::make_shared<AsyncRun::Rep>();
    AsyncRequest request;
    for (const auto& [name, value] : inputs)
      if (!value.is_absent()) request.feeds.emplace_back(std::string(name), inner_value(value));
    request.output_names.assign(outputs.begin(), outputs.end());
    request.options = {cancel ? cancel->rep()->flag : CancelFlag::never(), {}, nullptr};
    // What the callback gets is made now: when the run is over, nobody could be told that there is no memory.
    std::shared_ptr<AsyncRun::Rep> given = callback ? std::make_shared<AsyncRun::Rep>() : nullptr;
    // The run keeps its session.
    ASSIGN_OR_RETURN(
        handle->run,
        rep_->session->run_async(std::move(request), [session = rep_, given = std::move(given),
                                                      callback = std::move(callback)](::forethought::AsyncRun run) {
          if (!callback) return;
          given->run = std::move(run);
          callback(AsyncRun(given));
        }));
    return absl::OkStatus();
  });
  if (!s.ok()) return s;
  return AsyncRun(std::move(handle));
}

}  // namespace forethought::v1

// Runs behind the caller's back, on those of the inner session.
#include "forethought/async.h"

#include "api/rep.h"
#include "session/async_run.h"

namespace forethought::v1 {

struct AsyncRun::Rep {
  ::forethought::AsyncRun run;
};

bool AsyncRun::over() const { return rep_->run.over(); }
Status AsyncRun::wait() const { return public_status(rep_->run.wait()); }
bool AsyncRun::wait_for(std::chrono::nanoseconds time) const { return rep_->run.wait_for(time); }
void AsyncRun::cancel() const { rep_->run.cancel(); }

Result<std::vector<Value>> AsyncRun::outputs() const {
  if (Status s = wait(); !s.ok()) return s;
  std::vector<Value> values;
  for (const ::forethought::Value& v : rep_->run.outputs()) values.push_back(public_value(v));
  return values;
}

Result<AsyncRun> Session::run_async(std::span<const NamedValue> inputs, std::span<const std::string_view> outputs,
                                    AsyncRun::Callback callback, const Cancel* cancel) const {
  AsyncRequest request;
  for (const auto& [name, value] : inputs)
    if (!value.is_absent()) request.feeds.emplace_back(std::string(name), inner_value(value));
  request.output_names.assign(outputs.begin(), outputs.end());
  request.options = {cancel ? cancel->rep()->flag : CancelFlag::never(), {}, nullptr};
  // The run keeps its session.
  auto started = rep_->session->run_async(
      std::move(request), [session = rep_, callback = std::move(callback)](::forethought::AsyncRun run) {
        if (callback) callback(AsyncRun(std::make_shared<AsyncRun::Rep>(AsyncRun::Rep{std::move(run)})));
      });
  if (!started.ok()) return public_status(started.status());
  return AsyncRun(std::make_shared<AsyncRun::Rep>(AsyncRun::Rep{std::move(*started)}));
}

}  // namespace forethought::v1

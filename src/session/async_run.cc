#include "session/async_run.h"

#include <atomic>
#include <new>

#include "base/mutex.h"
#include "session/session.h"

namespace forethought {

class AsyncRun::State final : public Runner::Job, public std::enable_shared_from_this<AsyncRun::State> {
 public:
  State(std::shared_ptr<Runner::Core> core, Session& session, AsyncRequest request, Callback callback)
      : core_(std::move(core)), session_(&session), request_(std::move(request)), callback_(std::move(callback)) {
    if (!request_.options.cancel.raw()) request_.options.cancel = CancelFlag();
    cancel_ = request_.options.cancel;
  }

  void run() noexcept override {
    Status status = run_session();
    std::exchange(request_.feeds, {});  // they go before anybody hears of the end
    std::exchange(request_.outputs, {});
    session_ = nullptr;
    const Callback callback = std::exchange(callback_, nullptr);
    AsyncRun own = std::exchange(for_callback_, {});
    {
      std::vector<Value> dropped;
      const std::lock_guard lock(mutex_);
      status_ = std::move(status);
      if (!held_) dropped.swap(outputs_);
      over_.store(true, std::memory_order_release);
    }
    changed_.notify_all();
    if (callback && !exiting_.load()) callback(std::move(own));
  }
  // The callback gets a handle, too. An empty one: the run does not begin.
  void keep_for_callback(AsyncRun run) {
    if (callback_) for_callback_ = std::move(run);
  }
  // The last handle is gone, and with it go the outputs; the thread of the run may keep this object a moment longer.
  void leave() {
    if (Runner::inherited(*core_)) return;
    std::vector<Value> dropped;  // after the lock
    const std::lock_guard lock(mutex_);
    held_ = false;
    if (over()) dropped.swap(outputs_);
  }
  void hurry(bool exiting) noexcept override {
    if (exiting) exiting_ = true;
    cancel_.cancel();
  }

  bool over() const { return over_.load(std::memory_order_acquire); }
  Status wait() {
    if (Runner::inherited(*core_)) {
      if (over()) return status_;
      return invalid("the run goes on in the process that this one was forked from; wait for it there");
    }
    if (!over()) Runner::help(*core_, shared_from_this());
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return over(); });
    return status_;
  }
  bool wait_for(std::chrono::nanoseconds time) const {
    if (Runner::inherited(*core_)) return over();
    std::unique_lock lock(mutex_);
    return changed_.wait_until(lock, std::chrono::system_clock::now() + time, [&] { return over(); });
  }
  void cancel() const { cancel_.cancel(); }
  std::vector<Value>& outputs() { return outputs_; }

 private:
  Status run_session() noexcept {
    try {
      if (cancel_.cancelled()) return cancelled("the run was cancelled before it began");
      std::vector<NamedValue> feeds;
      for (const auto& [name, value] : request_.feeds) feeds.push_back({name, value});
      const std::vector<std::string_view> names(request_.output_names.begin(), request_.output_names.end());
      const size_t count = names.empty() ? session_->outputs().size() : names.size();
      outputs_ = std::move(request_.outputs);
      if (outputs_.size() > count) return invalid("there is memory for more outputs than are asked for");
      outputs_.resize(count);
      Status status = session_->run(feeds, names, outputs_, request_.options);
      if (!status.ok()) outputs_.assign(count, Value());
      return status;
    } catch (const std::bad_alloc&) {
      return exhausted("the system has no more memory for a run");
    }
  }

  const std::shared_ptr<Runner::Core> core_;
  // Of the thread that runs it.
  Session* session_;
  AsyncRequest request_;
  Callback callback_;
  AsyncRun for_callback_;
  std::vector<Value> outputs_;

  CancelFlag cancel_;
  std::atomic<bool> exiting_{false};
  mutable Mutex mutex_;
  mutable Condition changed_;
  Status status_;
  std::atomic<bool> over_{false};  // last: then the status and the outputs are there
  bool held_ = true;
};

struct AsyncRun::Handle {
  explicit Handle(std::shared_ptr<State> s) : state(std::move(s)) {}
  ~Handle() { state->leave(); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  const std::shared_ptr<State> state;
};

AsyncRun::AsyncRun(const std::shared_ptr<State>& state) : handle_(std::make_shared<const Handle>(state)) {}

StatusOr<AsyncRun> AsyncRun::start(Runner& runner, Session& session, AsyncRequest request, Callback callback) {
  auto state = std::make_shared<State>(runner.core(), session, std::move(request), std::move(callback));
  AsyncRun run(state);
  state->keep_for_callback(run);
  Status begun;
  try {
    begun = runner.start(state);
  } catch (const std::bad_alloc&) {
    begun = exhausted("the system has no more memory for a run");
  }
  if (begun.ok()) return run;
  state->keep_for_callback({});  // else the two would keep each other
  return begun;
}

bool AsyncRun::over() const { return handle_->state->over(); }
Status AsyncRun::wait() const { return handle_->state->wait(); }
bool AsyncRun::wait_for(std::chrono::nanoseconds time) const { return handle_->state->wait_for(time); }
void AsyncRun::cancel() const { handle_->state->cancel(); }
std::vector<Value>& AsyncRun::outputs() const { return handle_->state->outputs(); }

}  // namespace forethought

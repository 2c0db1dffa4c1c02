// A handler for SIGINT in front of Python's, which sets the flag of the main thread's run and then calls Python's.
#include "interrupt.h"

#include <signal.h>
#include <time.h>

#include <atomic>

namespace nb = nanobind;

namespace forethought::python {
namespace {

std::atomic<const CancelFlag*> current{nullptr};  // of the main thread's run
std::atomic<int> handlers{0};                     // that look at it right now, on whatever thread
std::atomic<bool> came{false};
struct sigaction pythons {};

void on_interrupt(int number, siginfo_t* information, void* context) {
  handlers.fetch_add(1);
  if (const CancelFlag* flag = current.load()) {
    came.store(true);
    flag->cancel();
  }
  handlers.fetch_sub(1);
  if (pythons.sa_flags & SA_SIGINFO) {
    pythons.sa_sigaction(number, information, context);
  } else if (pythons.sa_handler != SIG_DFL && pythons.sa_handler != SIG_IGN) {
    pythons.sa_handler(number);
  }
}

bool on_main_thread() {
  thread_local const bool main = [] {
    nb::module_ threading = nb::module_::import_("threading");
    return threading.attr("main_thread")().attr("ident").equal(threading.attr("get_ident")());
  }();
  return main;
}

// Puts the handler in place, or back in place: signal.signal() replaces it. Notebooks do so for each cell.
bool in_place() {
  static int64_t looked = -1;  // guarded by the interpreter's lock, as all that follows
  static bool ready = false;
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  const int64_t hundredths = int64_t{now.tv_sec} * 100 + now.tv_nsec / 10'000'000;
  if (hundredths == looked) return ready;
  looked = hundredths;
  struct sigaction have {};
  if (sigaction(SIGINT, nullptr, &have) != 0) return ready = false;
  if ((have.sa_flags & SA_SIGINFO) && have.sa_sigaction == on_interrupt) return ready = true;
  nb::module_ signals = nb::module_::import_("signal");
  if (!signals.attr("getsignal")(SIGINT).is(signals.attr("default_int_handler"))) return ready = false;
  pythons = have;
  struct sigaction ours = have;
  ours.sa_flags |= SA_SIGINFO;
  ours.sa_sigaction = on_interrupt;
  return ready = sigaction(SIGINT, &ours, nullptr) == 0;
}

const CancelFlag& never() {
  static const CancelFlag flag = CancelFlag::never();
  return flag;
}
// What cancels a run of the main thread that nobody else can cancel.
const CancelFlag& of_main_thread() {
  static const CancelFlag flag;
  return flag;
}

}  // namespace

Interruptible::Interruptible(const CancelFlag* asked) : flag_(asked ? asked : &never()) {
  if (!on_main_thread() || current.load() || !in_place()) return;
  if (!asked) flag_ = &of_main_thread();
  was_cancelled_ = flag_->cancelled();
  listening_ = true;
  came.store(false);
  current.store(flag_);
}

bool Interruptible::stop() {
  if (!listening_) return false;
  listening_ = false;
  current.store(nullptr);
  while (handlers.load() != 0) {
  }
  if (!came.load()) return false;
  if (!was_cancelled_) flag_->reset();
  return true;
}

Interruptible::~Interruptible() { stop(); }

void Interruptible::finish() {
  if (stop() && PyErr_CheckSignals() != 0) throw nb::python_error();
}

}  // namespace forethought::python

// Memory of sessions and of the process, as the public API shows it.
#include "forethought/memory.h"

#include <algorithm>
#include <new>

#include "absl/strings/str_cat.h"
#include "api/rep.h"
#include "memory/budget.h"
#include "memory/system.h"
#include "session/bounds.h"
#include "session/memory_report.h"

namespace forethought::v1 {
namespace {

MemoryStats public_stats(const ::forethought::MemoryStatistics& s) {
  MemoryStats m;
  m.live = s.live;
  m.retained = s.retained;
  m.padding = s.padding;
  m.mapped = s.mapped;
  m.peak = s.peak;
  m.limit = s.limit;
  m.planned = s.of(MemoryRole::planned).live;
  m.unplanned = s.of(MemoryRole::unplanned).live;
  m.leased = s.of(MemoryRole::leased).live;
  m.weights = s.of(MemoryRole::weights).live;
  m.packed = s.of(MemoryRole::packed).live;
  for (const ::forethought::DeviceMemory& d : s.devices)
    m.devices.push_back({d.device, d.live, d.retained, d.peak, d.limit});
  return m;
}

std::vector<MemoryCap> public_caps(std::vector<::forethought::MemoryCap> caps) {
  std::vector<MemoryCap> all;
  for (::forethought::MemoryCap& c : caps)
    all.push_back({std::move(c.name), std::move(c.unit), c.most, c.kept, std::move(c.follows)});
  return all;
}

MemoryReport public_report(const ::forethought::MemoryReport& r) {
  MemoryReport out;
  out.session = public_stats(r.session);
  out.process = public_stats(r.process);
  out.least_limit = ::forethought::least_limit(r);
  out.unplanned_values = r.unplanned_values;
  out.unplanned_most = r.unplanned_most;
  out.unbounded = r.unbounded;
  for (const ::forethought::MemoryHolder& h : r.holders)
    out.holders.push_back({h.value, h.node, ::forethought::name(h.role), h.bytes, h.buffers});
  out.caps = public_caps(r.caps);
  out.outside = r.outside;
  out.weights = r.weights;
  out.text = to_string(r);
  return out;
}

class AllocatorSource final : public MemorySource {
 public:
  explicit AllocatorSource(std::shared_ptr<Allocator> allocator) : allocator_(std::move(allocator)) {}
  void* allocate(size_t bytes, size_t alignment) override { return allocator_->allocate(bytes, alignment); }
  void release(void* data, size_t bytes) override { allocator_->deallocate(data, bytes); }

 private:
  std::shared_ptr<Allocator> allocator_;
};

}  // namespace

::forethought::RetentionCaps inner_caps(const RetentionCaps& caps) { return {caps.execution, caps.io, caps.side}; }

std::shared_ptr<MemorySource> inner_source(std::shared_ptr<Allocator> allocator) {
  return allocator ? std::make_shared<AllocatorSource>(std::move(allocator)) : nullptr;
}

MemoryStats Session::memory_stats() const {
  MemoryStats stats = public_stats(rep_->session->memory_statistics());
  stats.caps = public_caps(rep_->session->memory_caps());
  return stats;
}

MemoryReport Session::memory_report() const { return public_report(rep_->session->memory_report()); }

Result<MemoryReport> Session::memory_report(const std::map<std::string, std::vector<int64_t>>& shapes) const {
  const ::forethought::Session& session = *rep_->session;
  MemoryReport out;
  const Status made = guarded([&]() -> ::forethought::Status {
    ASSIGN_OR_RETURN(const auto bounds, dimension_bounds(session.options(), session.info(), session.inputs()));
    for (const auto& [name, shape] : shapes)
      if (std::ranges::find(session.inputs(), name, &NodeArg::name) == session.inputs().end())
        return invalid(absl::StrCat("the model has no input '", name, "'"));
    std::vector<Dims> dims;
    for (const NodeArg& input : session.inputs()) {
      SymShape declared = input.shape;
      put_numbers(bounds, &declared);
      const auto numbers = declared.numbers();
      if (const auto given = shapes.find(input.name); given != shapes.end()) {
        dims.emplace_back(given->second.begin(), given->second.end());
      } else if (numbers) {
        dims.emplace_back(numbers->begin(), numbers->end());
      } else {
        return invalid(
            absl::StrCat("the shape ", to_string(input.shape), " of input '", input.name, "' is not fixed: give one"));
      }
    }
    ASSIGN_OR_RETURN(const auto program, session.plan_for(dims));
    out = public_report(session.memory_report(*program));
    return absl::OkStatus();
  });
  if (!made.ok()) return made;
  return out;
}

int64_t Session::trim(int64_t target) const {
  const int64_t before = rep_->session->memory_statistics().retained;
  try {
    return rep_->session->trim(target);
  } catch (const std::bad_alloc&) {  // for its lists: some of it went
    return before - rep_->session->memory_statistics().retained;
  }
}
Status Session::set_memory_limit(int64_t bytes) const {
  return guarded([&] { return rep_->session->set_memory_limit(bytes); });
}
Status Session::set_retention(const RetentionCaps& caps) const {
  return guarded([&] { return rep_->session->set_retention(inner_caps(caps)); });
}

MemoryStats memory_stats() { return public_stats(process_memory_statistics()); }
Status set_memory_limit(int64_t bytes) {
  return guarded([&] { return set_process_memory_limit(bytes); });
}
Status set_device_memory_limit(int64_t bytes) {
  return guarded([&] { return set_process_device_memory_limit(bytes); });
}

}  // namespace forethought::v1

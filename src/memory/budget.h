// Who uses how much memory, and the limit that holds for all of it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"

namespace forethought {

// What memory is for; each role is counted apart.
enum class MemoryRole : uint8_t {
  planned,    // slabs: values and scratch at planned offsets
  unplanned,  // side arena: sizes that only a run tells, elements of objects
  leased,     // I/O pool: outputs that were handed out, copied inputs
  weights,    // mapped files of models, and copies of constants
  packed,     // weights in the form that kernels want
};
constexpr int kMemoryRoles = 5;
const char* name(MemoryRole role);

struct MemoryUse {
  int64_t live = 0;      // somebody asked for these bytes and uses them now
  int64_t retained = 0;  // kept for the next use, never reported as live
  int64_t padding = 0;   // beyond what was asked for: rest of a page, of a size class
  int64_t mapped() const { return live + retained + padding; }
};

// What is held on one device that has memory of its own. It counts in none of the sums below: no byte of it is of the
// host's memory.
struct DeviceMemory {
  std::string device;  // "gpu:1"
  int64_t live = 0, retained = 0;
  int64_t peak = 0;   // the highest live + retained so far
  int64_t limit = 0;  // of live + retained; 0: none
  bool operator==(const DeviceMemory&) const = default;
};

// One moment's counts in bytes. They add up: mapped == live + retained + padding, over each role and over all of them,
// and live == planned + unplanned + leased + weights + packed. While other threads allocate, the roles may be of
// slightly different moments.
struct MemoryStatistics {
  std::array<MemoryUse, kMemoryRoles> roles;
  int64_t live = 0, retained = 0, padding = 0;  // over all roles
  int64_t mapped = 0;                           // what memory/ holds from the system: mapped files, pages, blocks
  int64_t peak = 0;                             // the highest `mapped` so far
  int64_t limit = 0;                            // of `mapped`; 0: none
  int64_t system_calls = 0;                     // times that memory was asked of the system or given back to it
  std::vector<DeviceMemory> devices;            // beside all that

  const MemoryUse& of(MemoryRole role) const { return roles[static_cast<int>(role)]; }
};

// The statistics under the names that every face of the runtime uses: live, retained, padding, mapped, peak, limit,
// then the live bytes of each role: planned, unplanned, leased, weights, packed; for each device "gpu:1 live", "gpu:1
// retained", "gpu:1 peak", "gpu:1 limit".
std::vector<std::pair<std::string, int64_t>> named(const MemoryStatistics& statistics);
std::string to_string(
    const MemoryStatistics& statistics);    // one line: "planned 3.1 MiB, leased 4.0 KiB (+1.0 KiB kept)"
std::string readable_bytes(int64_t bytes);  // "3.1 MiB", "17 bytes"

// Bytes that are live in an account under a name: a constant's, "the model's file net.onnx".
struct NamedUse {
  MemoryRole role = MemoryRole::weights;
  int64_t bytes = 0;
  std::string who;
};

// A limit as people write it: bytes, or a number followed by K, M, G or T for the powers of 1024 ("1.5G"). An error for
// anything else, for negative numbers and for what no machine has. "" and "0" stand for no limit: 0.
StatusOr<int64_t> parse_memory_size(std::string_view text);

// An account with a limit: of the host's memory, or of one device's. Sessions have one each, whose parent is the
// process's: what a session reserves holds in both or in neither. Thread safe; counting takes no lock. Pools and leases
// keep an account alive, so it is made with std::make_shared.
class MemoryBudget {
 public:
  static constexpr int64_t kUnlimited = 0;
  explicit MemoryBudget(int64_t limit = kUnlimited, std::shared_ptr<MemoryBudget> parent = nullptr,
                        std::string device = {});
  ~MemoryBudget();
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  // The account of the whole process. Its limit comes from FORETHOUGHT_MEMORY_LIMIT at the first use, if that is a size
  // (Session::load refuses what is none), and from set_limit().
  static const std::shared_ptr<MemoryBudget>& process();

  // An account that finds out how much something would take: without limit or parent, and what several sessions share
  // is counted in it as if it were taken, but not in the process's account.
  static std::shared_ptr<MemoryBudget> probe(std::string device = {});
  bool is_probe() const { return is_probe_; }
  // Bytes counted here that the process's account held already.
  void note_in_process(int64_t bytes) { in_process_.fetch_add(bytes, std::memory_order_relaxed); }
  int64_t in_process() const { return in_process_.load(std::memory_order_relaxed); }

  // Before memory is asked of the system: counts it as retained, or refuses. Before it refuses, the account that is
  // full gives back what is kept in it (see set_reclaim). `who` reads like "the execution slab". The status of a
  // refusal has a Refusal that refusal_of() finds.
  Status reserve(MemoryRole role, int64_t bytes, std::string_view who);
  void release(MemoryRole role, int64_t bytes);  // after it was given back (not in use)

  // Moves bytes between retained and live, with what rounding adds.
  void use(MemoryRole role, int64_t bytes, int64_t padding) {
    account(role).live.fetch_add(bytes, std::memory_order_relaxed);
    account(role).padding.fetch_add(padding, std::memory_order_relaxed);
  }
  void unuse(MemoryRole role, int64_t bytes, int64_t padding) { use(role, -bytes, -padding); }

  // Counts in this account alone, as live, what another account (the process's) holds and several sessions use
  // together.
  Status reserve_share(MemoryRole role, int64_t bytes, int64_t padding, std::string_view who);
  void release_share(MemoryRole role, int64_t bytes, int64_t padding);

  struct Refusal {
    bool of_process = false;  // whose limit it is: the parent's
    int64_t bytes = 0;        // that were asked for
    int64_t limit = 0;
    int64_t mapped = 0;  // that were held already
    std::string device;  // empty: the host
    std::string who;
  };
  static std::optional<Refusal> refusal_of(const Status& status);
  static Status as_refusal(Status status, const Refusal& refusal);  // so that refusal_of() finds it

  // Called, with no lock of this room held, to give kept memory back before a reservation is refused, and when the
  // limit falls below what is held. After set_reclaim(nullptr) returns it is not running and never called again.
  void set_reclaim(std::function<void()> give_back);

  // Files that are mapped from now on are charged to nobody: runs reserve what they read of them at once. In a probe
  // and in an account of a session.
  void stream_files(bool on) { streams_files_.store(on, std::memory_order_relaxed); }
  bool streams_files() const { return streams_files_.load(std::memory_order_relaxed); }

  // Whether so many bytes more can be had now without anything being given back.
  bool has_room(int64_t bytes) const {
    return (limit() <= 0 || bytes <= limit() - mapped()) && (!parent_ || parent_->has_room(bytes));
  }

  void set_limit(int64_t limit);  // 0: none; at once gives back what is kept above it
  int64_t limit() const { return limit_.load(std::memory_order_relaxed); }
  bool is_limited() const { return limit() > 0 || (parent_ && parent_->is_limited()); }
  int64_t mapped() const { return total_.load(std::memory_order_relaxed); }
  MemoryStatistics statistics() const;
  // What shares, counted blocks and adopted blocks use (below, memory/system.h): of a session's account, all of its
  // weights and packed forms.
  std::vector<NamedUse> named_uses() const;
  // Compares the counts with each other, also those of the children: an error says which of them cannot be, because
  // something was counted twice or not at all. To be asked while nobody takes or returns memory.
  Status audit() const;
  const std::shared_ptr<MemoryBudget>& parent() const { return parent_; }
  const std::string& device() const { return device_; }  // "gpu:1"; empty: the host

 private:
  friend class ListedUse;
  struct Account {
    std::atomic<int64_t> reserved{0}, live{0}, padding{0};  // reserved holds both, and the children's reservations
    std::atomic<int64_t> shared_live{0}, shared_padding{0};
  };
  Account& account(MemoryRole role) { return accounts_[static_cast<int>(role)]; }
  bool grow(int64_t bytes);               // total_, unless the limit forbids it
  MemoryBudget* grow_all(int64_t bytes);  // here and in the parents; null, or whose limit forbids it
  void reclaim();                         // of this account and its children
  Status refuse(const MemoryBudget& full, int64_t bytes, std::string_view who) const;

  const std::shared_ptr<MemoryBudget> parent_;
  const std::string device_;
  std::array<Account, kMemoryRoles> accounts_;
  std::atomic<int64_t> total_{0}, peak_{0}, limit_, system_calls_{0}, in_process_{0};
  bool is_probe_ = false;
  std::atomic<bool> streams_files_{false};
  Mutex reclaim_mutex_;  // guards give_back_ and is held while it runs
  std::function<void()> give_back_;
  mutable Mutex children_mutex_;
  std::vector<MemoryBudget*> children_;
  mutable std::mutex named_mutex_;
  std::list<NamedUse> named_;
};

// One of an account's named uses, as long as it lives. The account must live longer.
class ListedUse {
 public:
  ListedUse() = default;
  ListedUse(MemoryBudget* account, MemoryRole role, int64_t bytes, std::string_view who);
  ListedUse(ListedUse&& o) noexcept { swap(o); }
  ListedUse& operator=(ListedUse&& o) noexcept {
    swap(o);
    return *this;
  }
  ~ListedUse();

 private:
  void swap(ListedUse& o) {
    std::swap(account_, o.account_);
    std::swap(at_, o.at_);
  }
  MemoryBudget* account_ = nullptr;
  std::list<NamedUse>::iterator at_;
};

// Bytes that each arena of a session keeps for later runs; what was freed longest ago goes first. kRetainPlanned: what
// was needed since the last trim to nothing. Of slabs: what one run takes at its largest, times the most runs at once,
// and a quarter more. Of outputs: the same, or what the shapes take together that come by turns (exec/turns.h) where
// that is more. Of the side arena, whose sizes no plan knows: twice the most that was live at once. Of the last two it
// is never less than kRetainAlways: small models alternate between shapes for free.
constexpr int64_t kRetainPlanned = -1;
constexpr int64_t kRetainAlways = 1 << 20;
struct RetentionCaps {
  int64_t execution = kRetainPlanned;  // slabs
  int64_t io = kRetainPlanned;         // outputs that came back
  int64_t side = kRetainPlanned;       // buffers of sizes that only a run tells
};

// A share that ends with its holder.
class MemoryShare {
 public:
  MemoryShare() = default;
  static StatusOr<MemoryShare> take(std::shared_ptr<MemoryBudget> budget, MemoryRole role, int64_t bytes,
                                    int64_t padding, std::string_view who);
  MemoryShare(MemoryShare&& o) noexcept { *this = std::move(o); }
  MemoryShare& operator=(MemoryShare&& o) noexcept {
    std::swap(budget_, o.budget_);
    std::swap(role_, o.role_);
    std::swap(bytes_, o.bytes_);
    std::swap(padding_, o.padding_);
    std::swap(listed_, o.listed_);
    return *this;
  }
  explicit operator bool() const { return budget_ != nullptr; }
  ~MemoryShare() {
    if (budget_) budget_->release_share(role_, bytes_, padding_);
  }

 private:
  std::shared_ptr<MemoryBudget> budget_;
  MemoryRole role_ = MemoryRole::weights;
  int64_t bytes_ = 0, padding_ = 0;
  ListedUse listed_;
};

}  // namespace forethought

// Handles, leases and arenas against a model of what they promise: every reachable state of three handles and two
// arenas, and a long random script; statistics are compared after each operation.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "memory/block_pool.h"
#include "memory/slab.h"
#include "memory/system.h"

namespace forethought {
namespace {

constexpr int kArenas = 2;
constexpr MemoryRole kRoles[kArenas] = {MemoryRole::leased, MemoryRole::unplanned};
constexpr int kReach[kArenas] = {0, 16};  // of blocks that can be cut

int class_number(int64_t bytes) {
  static const std::vector<int64_t> sizes = [] {
    std::vector<int64_t> all;
    for (int64_t b = 1; b <= (1 << 22); b = BlockPool::class_bytes(b) + 1) all.push_back(BlockPool::class_bytes(b));
    return all;
  }();
  return static_cast<int>(std::ranges::lower_bound(sizes, bytes) - sizes.begin());
}

// What is promised, in terms of blocks by address.
struct Block {
  void* address = nullptr;
  int64_t bytes = 0;
  int64_t asked = 0, used = 0;  // while it is live; used: of the class of what was asked for
  int64_t over() const { return bytes - used; }
};
struct ArenaModel {
  bool alive = true;
  int64_t cap = 0;
  std::deque<Block> kept;  // freed longest ago first
  std::deque<Block> live;  // taken longest ago first

  int64_t live_bytes() const { return sum(live, &Block::used); }
  int64_t asked() const { return sum(live, &Block::asked); }
  int64_t over() const { return sum(live, &Block::bytes) - live_bytes(); }
  int64_t retained() const { return sum(kept, &Block::bytes) + over(); }
  // What is over of live blocks goes first.
  int64_t evict_down_to(int64_t bytes) {
    const int64_t before = retained();
    for (Block& b : live)
      if (b.over() > 0 && retained() > bytes) b.bytes = b.used;
    while (!kept.empty() && retained() > bytes) kept.pop_front();
    return before - retained();
  }
  // The kept block that a request must get; null address: a new one.
  Block take_kept(int64_t wanted, int reach) {
    const int first = class_number(wanted);
    if (kind_of_block(wanted) != BlockKind::pages) reach = 0;
    auto best = kept.end();
    for (auto it = kept.begin(); it != kept.end(); ++it) {
      const int c = class_number(it->bytes);
      if (c < first || c > first + reach) continue;
      if (best == kept.end() || it->bytes <= best->bytes) best = it;  // of equal ones the newest
    }
    if (best == kept.end()) return {};
    const Block b = *best;
    kept.erase(best);
    return b;
  }
  // The kept block whose pages a new one takes over, where it would push kept ones out: the smallest that is larger,
  // else the largest.
  void recast(int64_t wanted) {
    if (kind_of_block(wanted) != BlockKind::pages || retained() + wanted <= cap) return;
    auto best = kept.end();
    for (auto it = kept.begin(); it != kept.end(); ++it) {
      if (kind_of_block(it->bytes) != BlockKind::pages) continue;
      const bool larger = it->bytes > wanted, best_larger = best != kept.end() && best->bytes > wanted;
      if (best == kept.end() || (larger != best_larger ? larger : larger == (it->bytes <= best->bytes))) best = it;
    }
    if (best != kept.end()) kept.erase(best);
  }
  void give_back(const void* address) {
    const auto found = std::ranges::find(live, address, &Block::address);
    ASSERT_NE(found, live.end());
    const Block b = *found;
    live.erase(found);
    if (!alive || b.bytes > cap) return;
    kept.push_back(b);
    evict_down_to(cap);
  }

 private:
  static int64_t sum(const std::deque<Block>& blocks, int64_t Block::*member) {
    int64_t all = 0;
    for (const Block& b : blocks) all += b.*member;
    return all;
  }
};

// A handle: a lease, or after share() some references to the same block.
struct Handle {
  Lease lease;
  std::vector<BufferRef> references;
  int arena = 0;
  void* address = nullptr;
  bool empty() const { return !lease && references.empty(); }
};

class World {
 public:
  World(int handles, int64_t cap) : handles_(handles) {
    for (int a = 0; a < kArenas; ++a) {
      budgets_[a] = std::make_shared<MemoryBudget>(0, parent_);
      model_[a].cap = cap;
    }
    pools_[0] = std::make_unique<IoPool>(budgets_[0], cap);
    pools_[1] = std::make_unique<SideArena>(budgets_[1], cap);
  }
  ~World() {
    for (size_t h = 0; h < handles_.size(); ++h) {
      while (!handles_[h].empty()) drop(h);
    }
    for (auto& pool : pools_) pool.reset();
    EXPECT_EQ(parent_->mapped(), 0);
    EXPECT_EQ(obtained_bytes(), obtained_before_);
  }

  size_t handles() const { return handles_.size(); }
  const Handle& handle(size_t h) const { return handles_[h]; }
  bool alive(int a) const { return model_[a].alive; }
  const ArenaModel& model(int a) const { return model_[a]; }

  void take(size_t h, int a, int64_t bytes) {
    Handle& handle = handles_[h];
    auto lease = pools_[a]->take(bytes, "a value");
    ASSERT_TRUE(lease.ok()) << lease.status();
    const int64_t size = BlockPool::class_bytes(bytes);
    const Block kept = model_[a].take_kept(size, kReach[a]);
    handle.lease = std::move(*lease);
    handle.arena = a;
    handle.address = handle.lease.data();
    ASSERT_EQ(handle.lease.capacity(), size);
    if (kept.address) {
      ASSERT_EQ(handle.address, kept.address);
    } else {
      model_[a].recast(size);
    }
    model_[a].live.push_back({handle.address, kept.address ? kept.bytes : size, bytes, size});
  }
  void share(size_t h) {
    handles_[h].references.push_back(std::move(handles_[h].lease).share());
    ASSERT_FALSE(handles_[h].lease);
    ASSERT_EQ(handles_[h].lease.data(), nullptr);
  }
  void copy(size_t h) { handles_[h].references.push_back(handles_[h].references.front()); }
  // One reference, or the lease.
  void drop(size_t h) {
    Handle& handle = handles_[h];
    if (handle.lease) {
      handle.lease.release();
    } else {
      handle.references.pop_back();
    }
    if (handle.empty()) model_[handle.arena].give_back(handle.address);
  }
  void move(size_t from, size_t to) {
    if (from != to && !handles_[to].empty()) {
      handles_[to].references.clear();
      handles_[to].lease.release();
      model_[handles_[to].arena].give_back(handles_[to].address);
    }
    Handle& a = handles_[from];
    Handle& b = handles_[to];
    void* const data = a.lease.data();
    b.lease = std::move(a.lease);
    ASSERT_EQ(b.lease.data(), data);
    if (from == to) return;
    ASSERT_EQ(a.lease.data(), nullptr);
    ASSERT_EQ(a.lease.capacity(), 0);
    b.references = std::move(a.references);
    a.references.clear();
    b.arena = a.arena;
    b.address = a.address;
  }
  void trim(int a, int64_t keep) {
    const int64_t before = budgets_[a]->statistics().retained;
    const int64_t freed = pools_[a]->trim(keep);
    ASSERT_EQ(freed, model_[a].evict_down_to(keep));
    ASSERT_EQ(before - budgets_[a]->statistics().retained, freed);
  }
  void set_cap(int a, int64_t cap) {
    pools_[a]->set_retained_cap(cap);
    model_[a].cap = cap;
    model_[a].evict_down_to(cap);
  }
  void close(int a) {
    pools_[a].reset();
    model_[a].alive = false;
    model_[a].evict_down_to(0);
  }

  void check() {
    int64_t mapped = 0;
    for (int a = 0; a < kArenas; ++a) {
      const ArenaModel& m = model_[a];
      const MemoryStatistics s = budgets_[a]->statistics();
      ASSERT_EQ(s.of(kRoles[a]).live, m.asked());
      ASSERT_EQ(s.of(kRoles[a]).padding, m.live_bytes() - m.asked());
      ASSERT_EQ(s.of(kRoles[a]).retained, m.retained());
      ASSERT_EQ(s.mapped, m.live_bytes() + m.retained());
      ASSERT_GE(s.peak, s.mapped);
      ASSERT_LE(m.retained(), m.cap);
      for (const Block& b : m.live) ASSERT_LE(b.used - b.asked, std::max<int64_t>(b.asked < 1 ? 64 : 63, b.asked / 8));
      most_over_ = std::max(most_over_, m.over());
      mapped += s.mapped;
      if (!m.alive) continue;
      ASSERT_EQ(pools_[a]->live_bytes(), m.live_bytes());
      ASSERT_EQ(pools_[a]->live_blocks(), static_cast<int64_t>(m.live.size()));
      ASSERT_EQ(pools_[a]->retained_bytes(), m.retained());
    }
    const MemoryStatistics all = parent_->statistics();
    ASSERT_EQ(all.mapped, mapped + extra_);
    ASSERT_EQ(all.live, model_[0].asked() + model_[1].asked() + extra_live_);
    ASSERT_EQ(obtained_bytes() - obtained_before_, mapped + extra_);
  }
  int64_t most_over() const { return most_over_; }  // of live blocks, at any check
  // Of a slab beside the arenas.
  const std::shared_ptr<MemoryBudget>& parent() const { return parent_; }
  void set_extra(int64_t mapped, int64_t live) {
    extra_ = mapped;
    extra_live_ = live;
  }

 private:
  const int64_t obtained_before_ = obtained_bytes();
  std::shared_ptr<MemoryBudget> parent_ = std::make_shared<MemoryBudget>();
  std::array<std::shared_ptr<MemoryBudget>, kArenas> budgets_;
  std::array<std::unique_ptr<BlockPool>, kArenas> pools_;
  std::array<ArenaModel, kArenas> model_;
  std::vector<Handle> handles_;
  int64_t extra_ = 0, extra_live_ = 0, most_over_ = 0;
};

// --- every state

constexpr int64_t kBlock = 4096, kAsked = 4000;
constexpr size_t kHandles = 3;

enum class Op : uint8_t { take, share, copy, drop, move, trim, cap, close };
struct Action {
  Op op;
  int a = 0, b = 0;
};

void apply(World& w, const Action& action) {
  const auto h = static_cast<size_t>(action.a);
  switch (action.op) {
    case Op::take:
      return w.take(h, action.b, kAsked);
    case Op::share:
      return w.share(h);
    case Op::copy:
      return w.copy(h);
    case Op::drop:
      return w.drop(h);
    case Op::move:
      return w.move(h, static_cast<size_t>(action.b));
    case Op::trim:
      return w.trim(action.a, action.b * kBlock);
    case Op::cap:
      return w.set_cap(action.a, action.b * kBlock);
    case Op::close:
      return w.close(action.a);
  }
}

// Two worlds with equal text behave alike: handles are interchangeable, and so are kept blocks of one size.
std::string describe(const World& w) {
  std::string text;
  for (int a = 0; a < kArenas; ++a) {
    const ArenaModel& m = w.model(a);
    text += m.alive ? static_cast<char>('0' + m.cap / kBlock) : 'x';
    text += static_cast<char>('0' + m.kept.size());
  }
  std::vector<std::string> handles;
  for (size_t h = 0; h < w.handles(); ++h) {
    const Handle& handle = w.handle(h);
    handles.push_back(handle.empty() ? "--"
                                     : std::string(1, static_cast<char>('a' + handle.arena)) +
                                           static_cast<char>('0' + handle.references.size()));
  }
  std::ranges::sort(handles);
  for (const std::string& h : handles) text += h;
  return text;
}

std::vector<Action> actions(const World& w) {
  std::vector<Action> all;
  bool taken = false;
  for (int h = 0; h < static_cast<int>(w.handles()); ++h) {
    const Handle& handle = w.handle(static_cast<size_t>(h));
    if (handle.empty()) {
      for (int a = 0; a < kArenas && !taken; ++a)
        if (w.alive(a)) all.push_back({Op::take, h, a});
      taken = true;
      continue;
    }
    if (handle.lease) all.push_back({Op::share, h});
    if (handle.references.size() == 1) all.push_back({Op::copy, h});
    all.push_back({Op::drop, h});
    for (int to = 0; to < static_cast<int>(w.handles()); ++to) all.push_back({Op::move, h, to});
  }
  for (int a = 0; a < kArenas; ++a) {
    if (!w.alive(a)) continue;
    for (int blocks : {0, 1}) all.push_back({Op::trim, a, blocks});
    for (int blocks : {0, 1, 3}) all.push_back({Op::cap, a, blocks});
    all.push_back({Op::close, a});
  }
  return all;
}

TEST(MemoryModel, Check19EveryStateOfThreeHandlesAndTwoArenas) {
  std::map<std::string, std::vector<Action>> paths;  // the first way to each state
  std::deque<std::string> open;
  {
    const World start(kHandles, 3 * kBlock);
    open.push_back(describe(start));
    paths[open.front()] = {};
  }
  int64_t edges = 0;
  while (!open.empty()) {
    const std::vector<Action> path = paths.at(open.front());
    open.pop_front();
    std::vector<Action> next;
    {
      World w(kHandles, 3 * kBlock);
      for (const Action& action : path) apply(w, action);
      next = actions(w);
    }
    for (const Action& action : next) {
      World w(kHandles, 3 * kBlock);
      for (const Action& before : path) apply(w, before);
      apply(w, action);
      w.check();
      if (testing::Test::HasFatalFailure()) return;
      ++edges;
      const std::string state = describe(w);
      if (paths.contains(state)) continue;
      paths[state] = path;
      paths[state].push_back(action);
      open.push_back(state);
    }
  }
  EXPECT_GT(paths.size(), 2000u);
  EXPECT_GT(edges, 20000);
  RecordProperty("states", static_cast<int>(paths.size()));
}

// --- a long script

TEST(MemoryModel, Check20TenThousandRandomOperations) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    World w(20, 200000);
    auto slab_budget = std::make_shared<MemoryBudget>(0, w.parent());
    Slab slab(slab_budget);
    int64_t slab_asked = 0;
    bool slab_used = false;
    std::mt19937_64 random(seed);
    const auto pick = [&](uint64_t n) { return random() % n; };
    for (int step = 0; step < 10000; ++step) {
      const size_t h = pick(w.handles());
      const int a = static_cast<int>(pick(kArenas));
      const uint64_t dice = pick(100);
      if (dice < 40) {
        if (w.handle(h).empty()) w.take(h, a, static_cast<int64_t>(pick(uint64_t{1} << pick(18))));
      } else if (dice < 50) {
        if (w.handle(h).lease) w.share(h);
      } else if (dice < 55) {
        if (!w.handle(h).references.empty()) w.copy(h);
      } else if (dice < 80) {
        if (!w.handle(h).empty()) w.drop(h);
      } else if (dice < 90) {
        w.move(h, pick(w.handles()));
      } else if (dice < 92) {
        w.trim(a, static_cast<int64_t>(pick(200000)));
      } else if (dice < 94) {
        w.set_cap(a, static_cast<int64_t>(pick(300000)));
      } else if (dice < 97) {
        slab_used = pick(2) != 0;
        slab.set_in_use(slab_used);
      } else if (!slab_used || dice < 99) {
        slab_asked = static_cast<int64_t>(pick(100000));
        ASSERT_TRUE(slab.ensure(slab_asked).ok());
      } else {
        slab.set_in_use(slab_used = false);
        slab.trim();
        slab_asked = 0;
      }
      w.set_extra(slab.capacity(), slab_used ? slab_asked : 0);
      w.check();
      if (HasFatalFailure()) return;
    }
    slab.set_in_use(false);
    slab.trim();
    w.set_extra(0, 0);
    w.check();
    EXPECT_GT(w.most_over(), kPageBlock);
  }
}

}  // namespace
}  // namespace forethought

// The cache of instances: exact keys, a bound in bytes, least recently used out, counts.
#include "kernel_api/instance_cache.h"

#include <gtest/gtest.h>

#include "kernel_api/run_ctx.h"

namespace forethought {
namespace {

struct Nothing final : Runnable {
  Status run(RunCtx&) const override { return absl::OkStatus(); }
};

using Made = StatusOr<std::shared_ptr<const Runnable>>;

InstanceKey key_of(int n) {
  InstanceKey key("nothing");
  key.add(n);
  return key;
}

std::shared_ptr<const Runnable> get(InstanceCache& cache, int n, int64_t bytes) {
  auto got = cache.get(key_of(n), bytes, [] { return Made(std::make_shared<Nothing>()); });
  EXPECT_TRUE(got.ok());
  return *got;
}

TEST(InstanceCache, KeepsUpToItsBytesAndDropsTheLeastRecentlyUsed) {
  InstanceCache cache(10'000);
  const auto first = get(cache, 1, 4000);
  get(cache, 2, 4000);
  EXPECT_EQ(get(cache, 1, 4000), first);
  get(cache, 3, 4000);  // drops 2
  InstanceCache::Counts c = cache.counts();
  EXPECT_EQ(c.evicted, 1);
  EXPECT_EQ(c.size, 2);
  EXPECT_LE(c.bytes, 10'000);
  EXPECT_GE(c.bytes, 8000);
  EXPECT_EQ(get(cache, 1, 4000), first);
  get(cache, 2, 4000);
  c = cache.counts();
  EXPECT_EQ(c.hits, 2);
  EXPECT_EQ(c.misses, 4);
}

TEST(InstanceCache, WhatIsLargerThanAllOfItIsNotKept) {
  InstanceCache cache(10'000);
  get(cache, 1, 4000);
  get(cache, 2, 20'000);
  EXPECT_EQ(cache.counts().size, 1);
  EXPECT_EQ(cache.counts().evicted, 0);
}

TEST(InstanceCache, AnErrorIsNotKept) {
  InstanceCache cache;
  EXPECT_FALSE(cache.get(key_of(1), 100, [] { return Made(unsupported("no")); }).ok());
  EXPECT_EQ(cache.counts().size, 0);
  get(cache, 1, 100);
  EXPECT_EQ(cache.counts().size, 1);
}

TEST(InstanceCache, TimeOfNestedMakersCountsOnce) {
  InstanceCache cache;
  const auto outer = cache.get(key_of(1), 100, [&]() -> Made {
    for (int i = 2; i < 40; ++i) get(cache, i, 100);
    return Made(std::make_shared<Nothing>());
  });
  ASSERT_TRUE(outer.ok());
  EXPECT_EQ(cache.counts().misses, 39);
  EXPECT_GT(cache.counts().making_ns, 0);
}

}  // namespace
}  // namespace forethought

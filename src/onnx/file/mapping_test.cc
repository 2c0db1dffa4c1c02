// Mapped files, and which files a model may name (external data paths).
#include "onnx/file/mapping.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace forethought {
namespace {

namespace fs = std::filesystem;

class MappingTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / ("forethought_mapping_" + std::to_string(::getpid()));
    fs::remove_all(root_);
    fs::create_directories(root_ / "model");
    fs::create_directories(root_ / "blobs");
    write(root_ / "model/m.onnx", "model");
    write(root_ / "model/inside.bin", "0123456789");
    write(root_ / "outside.bin", "secret");
  }
  void TearDown() override { fs::remove_all(root_); }
  static void write(const fs::path& p, std::string_view text) { std::ofstream(p) << text; }
  fs::path root_;
};

TEST_F(MappingTest, MapsAFile) {
  auto source = map_file((root_ / "model/inside.bin").string());
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ(source->bytes, "0123456789");
  EXPECT_EQ(map_file((root_ / "none").string()).status().code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(map_file(root_.string()).ok());
  EXPECT_FALSE(map_file("/dev/zero").ok());
}

TEST_F(MappingTest, P23ExternalPathsStayInside) {
  fs::create_symlink("../outside.bin", root_ / "model/link.bin");
  fs::create_symlink("inside.bin", root_ / "model/good_link.bin");
  fs::create_symlink("/dev/zero", root_ / "model/zero");
  fs::create_directories(root_ / "model/sub");
  write(root_ / "model/sub/deep.bin", "deep");
  auto files = ExternalFiles::beside((root_ / "model/m.onnx").string());
  ASSERT_TRUE(files.ok()) << files.status();
  for (const char* good : {"inside.bin", "good_link.bin", "sub/deep.bin", "./inside.bin"}) {
    EXPECT_TRUE(files->open(good).ok()) << good;
  }
  const std::string absolute = (root_ / "model/inside.bin").string();
  for (const std::string& bad :
       {std::string("../outside.bin"), absolute, std::string("/dev/zero"), std::string("zero"), std::string("link.bin"),
        std::string("sub/../../outside.bin"), std::string("missing.bin"), std::string("*/_ORT_MEM_ADDR_/*"),
        std::string(), std::string("."), std::string("inside.bin\0x", 12)}) {
    EXPECT_FALSE(files->open(bad).ok()) << bad;
  }
  EXPECT_FALSE(ExternalFiles().open("inside.bin").ok());
}

TEST_F(MappingTest, P23SharedBlobFolderWorks) {
  write(root_ / "blobs/aaaa", "model");
  write(root_ / "blobs/bbbb", "weights");
  fs::create_directories(root_ / "snapshots/1");
  fs::create_symlink("../../blobs/aaaa", root_ / "snapshots/1/m.onnx");
  fs::create_symlink("../../blobs/bbbb", root_ / "snapshots/1/m.onnx.data");
  fs::create_symlink("../../outside.bin", root_ / "snapshots/1/evil");
  auto files = ExternalFiles::beside((root_ / "snapshots/1/m.onnx").string());
  ASSERT_TRUE(files.ok()) << files.status();
  auto data = files->open("m.onnx.data");
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->bytes, "weights");
  EXPECT_FALSE(files->open("evil").ok());
}

}  // namespace
}  // namespace forethought

#include "engine/model/gguf_file.h"

#include <functional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/temp_folder.h"

namespace thresher {
namespace {

using testing::GgufBuilder;
using testing::TempFolder;

constexpr std::uint32_t kF32 = 0, kQ8_0 = 8;

GgufBuilder Sample() {
  GgufBuilder builder;
  builder.AddString("general.architecture", "llama");
  builder.Add("u8", GgufType::kUint8, GgufBuilder::Bytes<std::uint8_t>(200));
  builder.Add("i8", GgufType::kInt8, GgufBuilder::Bytes<std::int8_t>(-3));
  builder.Add("u16", GgufType::kUint16, GgufBuilder::Bytes<std::uint16_t>(65535));
  builder.Add("i16", GgufType::kInt16, GgufBuilder::Bytes<std::int16_t>(-300));
  builder.AddInt("u32", 4000000000u);
  builder.Add("i32", GgufType::kInt32, GgufBuilder::Bytes<std::int32_t>(-7));
  builder.Add("u64", GgufType::kUint64, GgufBuilder::Bytes<std::uint64_t>(1ull << 40));
  builder.Add("too_big", GgufType::kUint64, GgufBuilder::Bytes<std::uint64_t>(1ull << 63));
  builder.Add("i64", GgufType::kInt64, GgufBuilder::Bytes<std::int64_t>(-(1ll << 40)));
  builder.AddFloat("f32", 0.5f);
  builder.Add("f64", GgufType::kFloat64, GgufBuilder::Bytes(0.25));
  builder.AddBool("yes", true);
  builder.AddStrings("strings", {"a", "", "\xc4\xa0the"});
  builder.AddArray("ints", GgufType::kInt32, 2,
                   GgufBuilder::Bytes<std::int32_t>(5) + GgufBuilder::Bytes<std::int32_t>(-6));
  builder.AddArray("floats", GgufType::kFloat32, 2,
                   GgufBuilder::Bytes(1.5f) + GgufBuilder::Bytes(-2.5f));
  const std::string inner = GgufBuilder::Bytes<std::uint32_t>(0) +
                            GgufBuilder::Bytes<std::uint64_t>(2) + "xy";  // two uint8
  builder.AddArray("nested", GgufType::kArray, 2, inner + inner);
  builder.AddTensor("a", {4, 2}, kF32, std::string(32, 'a'));
  builder.AddTensor("b", {32}, kQ8_0, std::string(34, 'b'));
  builder.AddTensor("c", {2, 1, 3}, kF32, std::string(24, 'c'));
  return builder;
}

TEST(GgufFile, ReadsEveryKindOfMetadata) {
  const TempFolder folder;
  auto file = GgufFile::Open(folder.Write("m.gguf", Sample().Build()));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->String("general.architecture"), "llama");
  EXPECT_EQ((*file)->Int("u8"), 200);
  EXPECT_EQ((*file)->Int("i8"), -3);
  EXPECT_EQ((*file)->Int("u16"), 65535);
  EXPECT_EQ((*file)->Int("i16"), -300);
  EXPECT_EQ((*file)->Int("u32"), 4000000000);
  EXPECT_EQ((*file)->Int("i32"), -7);
  EXPECT_EQ((*file)->Int("u64"), 1ll << 40);
  EXPECT_EQ((*file)->Int("i64"), -(1ll << 40));
  EXPECT_EQ((*file)->Int("yes"), 1);
  EXPECT_EQ((*file)->Float("f32"), 0.5);
  EXPECT_EQ((*file)->Float("f64"), 0.25);
  EXPECT_EQ((*file)->Float("i8"), -3.0);
  EXPECT_EQ((*file)->Strings("strings"), (std::vector<std::string_view>{"a", "", "\xc4\xa0the"}));
  EXPECT_EQ((*file)->Ints("ints"), (std::vector<std::int64_t>{5, -6}));
  EXPECT_EQ((*file)->Floats("floats"), (std::vector<float>{1.5f, -2.5f}));
}

TEST(GgufFile, AbsentOrOfAnotherTypeIsNoValue) {
  const TempFolder folder;
  auto file = GgufFile::Open(folder.Write("m.gguf", Sample().Build()));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->Int("none"), std::nullopt);
  EXPECT_EQ((*file)->Int("f32"), std::nullopt);
  EXPECT_EQ((*file)->Int("too_big"), std::nullopt);
  EXPECT_EQ((*file)->Int("general.architecture"), std::nullopt);
  EXPECT_EQ((*file)->Int("ints"), std::nullopt);
  EXPECT_EQ((*file)->String("u8"), std::nullopt);
  EXPECT_EQ((*file)->Strings("ints"), std::nullopt);
  EXPECT_EQ((*file)->Ints("strings"), std::nullopt);
  EXPECT_EQ((*file)->Ints("floats"), std::nullopt);
  EXPECT_EQ((*file)->Floats("nested"), std::nullopt);
}

TEST(GgufFile, FindsTensorsWithShapesOutermostFirst) {
  const TempFolder folder;
  for (const std::uint32_t version : {2u, 3u}) {
    GgufBuilder builder = Sample();
    builder.version = version;
    auto file = GgufFile::Open(folder.Write("m.gguf", builder.Build()));
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_EQ((*file)->tensors().size(), 3u);
    const GgufTensor* a = (*file)->FindTensor("a");
    ASSERT_NE(a, nullptr);
    EXPECT_EQ(a->shape, (std::vector<std::int64_t>{2, 4}));
    EXPECT_EQ(a->format, WeightFormat::kF32);
    const GgufTensor* b = (*file)->FindTensor("b");
    ASSERT_NE(b, nullptr);
    EXPECT_EQ(b->format, WeightFormat::kQ8_0);
    ASSERT_EQ(b->bytes.size(), 34u);
    EXPECT_EQ(std::to_integer<char>(b->bytes.front()), 'b');
    EXPECT_EQ(std::to_integer<char>(b->bytes.back()), 'b');
    (*file)->ReleasePages();
    EXPECT_EQ((*file)->FindTensor("c")->shape, (std::vector<std::int64_t>{3, 1, 2}));
    EXPECT_EQ(std::to_integer<char>((*file)->FindTensor("c")->bytes[0]), 'c');
    EXPECT_EQ((*file)->FindTensor("d"), nullptr);
  }
}

TEST(GgufFile, HonoursTheFilesAlignment) {
  const TempFolder folder;
  GgufBuilder builder;
  builder.alignment = 256;
  builder.AddInt("general.alignment", 256);
  builder.AddTensor("a", {1}, kF32, "1234");
  builder.AddTensor("b", {1}, kF32, "5678");
  auto file = GgufFile::Open(folder.Write("m.gguf", builder.Build()));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(std::to_integer<char>((*file)->FindTensor("b")->bytes[0]), '5');
}

TEST(GgufFile, RefusesEveryTruncation) {
  const std::string whole = Sample().Build();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    // A copy of just this size, so that AddressSanitizer sees a read past its end.
    const std::vector<char> part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    ASSERT_EQ(ParseGguf(std::as_bytes(std::span(part))).status().code(),
              absl::StatusCode::kInvalidArgument)
        << size;
  }
}

TEST(GgufFile, SaysWhichPathIsMissingOrNoFile) {
  const TempFolder folder;
  const auto missing = GgufFile::Open(folder.path() + "/none.gguf").status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_NE(std::string(missing.message()).find("none.gguf"), std::string::npos);
  EXPECT_EQ(GgufFile::Open(folder.path()).status().code(), absl::StatusCode::kInvalidArgument);
}

struct Damage {
  const char* name;
  std::function<void(GgufBuilder&)> make;
  const char* message;  // a part of it
};

const Damage kDamages[] = {
    {"magic", [](GgufBuilder& b) { b.magic = 0x47475546; }, "does not start"},
    {"version 1", [](GgufBuilder& b) { b.version = 1; }, "version 1"},
    {"big-endian", [](GgufBuilder& b) { b.version = 0x03000000; }, "big-endian"},
    {"entries 2^62", [](GgufBuilder& b) { b.claimed_entries = 1ll << 62; }, "claims"},
    {"tensors 2^40", [](GgufBuilder& b) { b.claimed_tensors = 1ll << 40; }, "claims"},
    {"one more entry", [](GgufBuilder& b) { b.claimed_entries = 2; }, ""},
    {"string 2^62",
     [](GgufBuilder& b) {
       b.Add("k", GgufType::kString, GgufBuilder::Bytes<std::uint64_t>(1ull << 62));
     },
     "metadata 'k'"},
    {"string 2^64-1",
     [](GgufBuilder& b) {
       b.Add("k", GgufType::kString, GgufBuilder::Bytes<std::uint64_t>(~0ull));
     },
     "metadata 'k'"},
    {"array 2^60", [](GgufBuilder& b) { b.AddArray("k", GgufType::kUint8, 1ull << 60, "x"); },
     "metadata 'k'"},
    {"array of strings 2^61",
     [](GgufBuilder& b) { b.AddArray("k", GgufType::kString, 1ull << 61, ""); }, "metadata 'k'"},
    {"arrays nested without end",
     [](GgufBuilder& b) {
       std::string value;
       for (int i = 0; i < 100; ++i) {
         value += GgufBuilder::Bytes<std::uint32_t>(9) + GgufBuilder::Bytes<std::uint64_t>(1);
       }
       b.Add("k", GgufType::kArray, value);
     },
     "nested"},
    {"value type 13",
     [](GgufBuilder& b) { b.Add("k", static_cast<GgufType>(13), std::string(64, '\0')); },
     "type 13"},
    {"bool 2", [](GgufBuilder& b) { b.Add("k", GgufType::kBool, std::string(1, '\2')); }, "bool"},
    {"empty key", [](GgufBuilder& b) { b.AddInt("", 1); }, "key"},
    {"key twice",
     [](GgufBuilder& b) {
       b.AddInt("k", 1);
       b.AddInt("k", 2);
     },
     "'k' appears twice"},
    {"rank 0", [](GgufBuilder& b) { b.AddTensor("t", {}, kF32, "1234"); }, "0 dimensions"},
    {"rank 5",
     [](GgufBuilder& b) {
       b.AddTensor("t", {1, 1, 1, 1, 1}, kF32, "1234");
     },
     "5 dimensions"},
    {"zero dimension",
     [](GgufBuilder& b) {
       b.AddTensor("t", {4, 0}, kF32, "1234");
     },
     "dimension 1 is 0"},
    {"product overflows",
     [](GgufBuilder& b) {
       b.AddTensor("t", {1ull << 33, 1ull << 33}, kF32, "1234");
     },
     "dimension 1"},
    {"format unknown", [](GgufBuilder& b) { b.AddTensor("t", {256}, 10, "1234"); }, "ggml type 10"},
    {"half a block", [](GgufBuilder& b) { b.AddTensor("t", {16}, kQ8_0, "1234"); },
     "multiple of 32"},
    {"past the end", [](GgufBuilder& b) { b.AddTensor("t", {64}, kF32, "1234"); }, "'t' needs 256"},
    {"offset past the end", [](GgufBuilder& b) { b.AddTensor("t", {1}, kF32, "1234", 1ll << 40); },
     "'t' needs 4"},
    {"offset 2^63", [](GgufBuilder& b) { b.AddTensor("t", {1}, kF32, "1234", INT64_MAX - 31); },
     "'t'"},
    {"offset unaligned", [](GgufBuilder& b) { b.AddTensor("t", {1}, kF32, "1234567", 1); },
     "multiple"},
    {"overlap",
     [](GgufBuilder& b) {
       b.AddTensor("t", {16}, kF32, std::string(64, 't'));
       b.AddTensor("u", {1}, kF32, "1234", 32);
     },
     "overlap"},
    {"tensor twice",
     [](GgufBuilder& b) {
       b.AddTensor("t", {1}, kF32, "1234");
       b.AddTensor("t", {1}, kF32, "1234");
     },
     "'t' appears twice"},
    {"alignment 0", [](GgufBuilder& b) { b.AddInt("general.alignment", 0); }, "is 0"},
    {"alignment 3", [](GgufBuilder& b) { b.AddInt("general.alignment", 3); }, "is 3"},
    {"alignment 4", [](GgufBuilder& b) { b.AddInt("general.alignment", 4); }, "is 4"},
    {"alignment 2^31", [](GgufBuilder& b) { b.AddInt("general.alignment", 1u << 31); }, "is 2147"},
    {"alignment a string", [](GgufBuilder& b) { b.AddString("general.alignment", "32"); },
     "not a uint32"},
};

TEST(GgufFile, RefusesDamageNamingThePlace) {
  const TempFolder folder;
  for (const Damage& damage : kDamages) {
    GgufBuilder builder;
    builder.AddInt("first", 1);
    damage.make(builder);
    const std::string path = folder.Write("damaged.gguf", builder.Build());
    const absl::Status status = GgufFile::Open(path).status();
    EXPECT_TRUE(status.code() == absl::StatusCode::kInvalidArgument ||
                status.code() == absl::StatusCode::kUnimplemented)
        << damage.name << ": " << status;
    const std::string message(status.message());
    EXPECT_NE(message.find(damage.message), std::string::npos) << damage.name << ": " << message;
    EXPECT_NE(message.find(path), std::string::npos) << damage.name << ": " << message;
  }
}

}  // namespace
}  // namespace thresher

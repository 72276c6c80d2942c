#include <cstdint>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/model/safetensors_file.h"
#include "engine/model/safetensors_folder.h"
#include "gtest/gtest.h"
#include "tests/support/temp_folder.h"

namespace thresher {
namespace {

using nlohmann::json;
using testing::TempFolder;

std::string Length(std::uint64_t length) {
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes;
}

std::string FileOf(const std::string& header, const std::string& data) {
  return Length(header.size()) + header + data;
}

// "a" is F32 [2, 3] in bytes 0 to 24, "b" BF16 [4] in 24 to 32.
json Header() {
  return json{{"__metadata__", {{"format", "pt"}}},
              {"a", {{"dtype", "F32"}, {"shape", {2, 3}}, {"data_offsets", {0, 24}}}},
              {"b", {{"dtype", "BF16"}, {"shape", {4}}, {"data_offsets", {24, 32}}}}};
}

const std::string kData = std::string(24, 'a') + std::string(8, 'b');

TEST(SafetensorsFile, FindsTensors) {
  const TempFolder folder;
  // Writers pad the header with spaces.
  auto file =
      SafetensorsFile::Open(folder.Write("m.safetensors", FileOf(Header().dump() + "   ", kData)));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->tensors().size(), 2u);
  const SafetensorsTensor* a = (*file)->Find("a");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(a->format, WeightFormat::kF32);
  EXPECT_EQ(a->shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(a->bytes.size(), 24u);
  (*file)->ReleasePages();
  EXPECT_EQ(std::to_integer<char>((*file)->Find("b")->bytes[0]), 'b');
  EXPECT_EQ((*file)->Find("c"), nullptr);
}

TEST(SafetensorsFile, RefusesEveryTruncation) {
  const TempFolder folder;
  const std::string whole = FileOf(Header().dump(), kData);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    auto file = SafetensorsFile::Open(folder.Write("m.safetensors", whole.substr(0, size)));
    ASSERT_EQ(file.status().code(), absl::StatusCode::kInvalidArgument) << size;
  }
}

struct Damage {
  const char* name;
  std::function<void(json&)> make;
  const char* message;
};

const Damage kDamages[] = {
    {"shape grows",
     [](json& h) {
       h["a"]["shape"] = {2, 4};
     },
     "'a': has 24 bytes"},
    {"dtype shrinks", [](json& h) { h["a"]["dtype"] = "F16"; }, "'a': has 24 bytes"},
    {"dtype unknown", [](json& h) { h["a"]["dtype"] = "F8_E4M3"; }, "'F8_E4M3'"},
    {"dtype no string", [](json& h) { h["a"]["dtype"] = 4; }, "'a': lacks"},
    {"offsets reversed",
     [](json& h) {
       h["a"]["data_offsets"] = {24, 0};
     },
     "'a': data_offsets"},
    {"offsets past the end",
     [](json& h) {
       h["b"]["data_offsets"] = {28, 36};
     },
     "'b': ends"},
    {"offsets 2^63",
     [](json& h) {
       h["b"]["data_offsets"] = {24, 1ull << 63};
     },
     "'b': ends"},
    {"offsets negative",
     [](json& h) {
       h["a"]["data_offsets"] = {-24, 0};
     },
     "'a': data_offsets"},
    {"three offsets",
     [](json& h) {
       h["a"]["data_offsets"] = {0, 12, 24};
     },
     "'a': data_offsets"},
    {"overlap",
     [](json& h) {
       h["b"]["data_offsets"] = {16, 24};
     },
     "overlaps"},
    {"hole",
     [](json& h) {
       h["b"]["shape"] = {2};
       h["b"]["data_offsets"] = {28, 32};
     },
     "'b': leaves a hole"},
    {"tail",
     [](json& h) {
       h["b"]["shape"] = {2};
       h["b"]["data_offsets"] = {24, 28};
     },
     "4 bytes after"},
    {"shape negative",
     [](json& h) {
       h["a"]["shape"] = {2, -3};
     },
     "'a': has a shape"},
    {"shape overflows",
     [](json& h) {
       h["a"]["shape"] = {1ull << 40, 1ull << 40};
     },
     "'a': has a shape"},
    {"shape fraction",
     [](json& h) {
       h["a"]["shape"] = {1.5, 4};
     },
     "'a': has a shape"},
    {"shape of rank 9",
     [](json& h) {
       h["a"]["shape"] = json::array({1, 1, 1, 1, 1, 1, 1, 2, 3});
     },
     "'a': has more"},
    {"no shape", [](json& h) { h["a"].erase("shape"); }, "'a': lacks"},
    {"entry a number", [](json& h) { h["a"] = 1; }, "'a': lacks"},
};

TEST(SafetensorsFile, RefusesDamageNamingTheTensor) {
  const TempFolder folder;
  for (const Damage& damage : kDamages) {
    json header = Header();
    damage.make(header);
    const std::string path = folder.Write("m.safetensors", FileOf(header.dump(), kData));
    const absl::Status status = SafetensorsFile::Open(path).status();
    EXPECT_FALSE(status.ok()) << damage.name;
    const std::string message(status.message());
    EXPECT_NE(message.find(damage.message), std::string::npos) << damage.name << ": " << message;
    EXPECT_NE(message.find(path), std::string::npos) << damage.name << ": " << message;
  }
}

TEST(SafetensorsFile, RefusesBadHeaders) {
  const TempFolder folder;
  const std::string header = Header().dump();
  const std::string twice = R"({"a":{"dtype":"F32","shape":[8],"data_offsets":[0,32]},)"
                            R"("a":{"dtype":"F32","shape":[8],"data_offsets":[0,32]}})";
  for (const std::string& bytes :
       {std::string(8, '\xff') + header, Length(0) + header + kData,
        Length(header.size() + 8 + kData.size()) + header + kData, Length(1ull << 40) + header,
        FileOf("[]", kData), FileOf(" " + header, kData), FileOf("{\"a\"", kData),
        FileOf("{\"\xff\": 1}", kData), FileOf(twice, kData), std::string("PK\3\4 a zip file"),
        FileOf("{" + std::string(100000, '['), kData)}) {
    const absl::Status status =
        SafetensorsFile::Open(folder.Write("m.safetensors", bytes)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  }
}

std::string OneTensor(const std::string& name) {
  return FileOf(json{{name, {{"dtype", "F32"}, {"shape", {1}}, {"data_offsets", {0, 4}}}}}.dump(),
                "1234");
}

TEST(SafetensorsFolder, ReadsASingleFileAndShards) {
  const TempFolder folder;
  folder.Write("x1.safetensors", OneTensor("a"));
  folder.Write("x2.safetensors", OneTensor("b"));
  folder.Write("model.safetensors.index.json",
               R"({"weight_map": {"a": "x1.safetensors", "b": "x2.safetensors"}})");
  auto sharded = SafetensorsFolder::Open(folder.path());
  ASSERT_TRUE(sharded.ok()) << sharded.status();
  EXPECT_EQ(sharded->tensors().size(), 2u);
  EXPECT_TRUE(sharded->tensors().contains("b"));

  folder.Write("model.safetensors", OneTensor("c"));
  auto single = SafetensorsFolder::Open(folder.path());
  ASSERT_TRUE(single.ok()) << single.status();
  EXPECT_EQ(single->tensors().size(), 1u);
}

TEST(SafetensorsFolder, NamesWhatIsMissing) {
  const TempFolder folder;
  absl::Status status = SafetensorsFolder::Open(folder.path()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  folder.Write("x1.safetensors", OneTensor("a"));
  folder.Write("model.safetensors.index.json",
               R"({"weight_map": {"a": "x1.safetensors", "b": "x2.safetensors"}})");
  status = SafetensorsFolder::Open(folder.path()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_NE(std::string(status.message()).find("x2.safetensors"), std::string::npos) << status;

  folder.Write("model.safetensors.index.json",
               R"({"weight_map": {"a": "x1.safetensors", "b": "x1.safetensors"}})");
  status = SafetensorsFolder::Open(folder.path()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(std::string(status.message()).find("'b'"), std::string::npos) << status;
}

TEST(SafetensorsFolder, RefusesABadIndex) {
  const TempFolder folder;
  folder.Write("x1.safetensors", OneTensor("a"));
  for (const char* index :
       {"", "[]", "{}", R"({"weight_map": []})", R"({"weight_map": {"a": 3}})",
        R"({"weight_map": {"a": "../x1.safetensors"}})", R"({"weight_map": {"a": "/etc/passwd"}})",
        R"({"weight_map": {"a": ".."}})", R"({"weight_map": {"a": ""}})"}) {
    folder.Write("model.safetensors.index.json", index);
    EXPECT_EQ(SafetensorsFolder::Open(folder.path()).status().code(),
              absl::StatusCode::kInvalidArgument)
        << index;
  }
}

}  // namespace
}  // namespace thresher

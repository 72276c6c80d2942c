#include "kernels/cpu/onednn_matmul.h"

#ifdef THRESHER_ONEDNN

#include <compare>
#include <cstring>
#include <list>
#include <map>
#include <oneapi/dnnl/dnnl.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/aligned_buffer.h"
#include "kernels/cpu/half_float.h"

namespace thresher {
namespace {

using dnnl::memory;

// oneDNN chose the same layout for every number of rows from 1 to 512; a product is compiled for
// the layout fixed with this one.
constexpr std::int64_t kLayoutRows = 64;

dnnl::engine CpuEngine() { return dnnl::engine(dnnl::engine::kind::cpu, 0); }

memory::desc RowMajor(std::int64_t rows, std::int64_t cols, memory::data_type type) {
  return memory::desc({rows, cols}, type, memory::format_tag::ab);
}

dnnl::matmul::primitive_desc Describe(const dnnl::engine& engine, std::int64_t num_rows,
                                      const memory::desc& weight, bool bias) {
  const memory::dims dims = weight.dims();  // [cols, rows]
  const memory::desc x = RowMajor(num_rows, dims[0], weight.data_type());
  const memory::desc out = RowMajor(num_rows, dims[1], memory::data_type::f32);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (!bias) return {dnnl::matmul::desc(x, weight, out), attributes, engine};
  const memory::desc added = RowMajor(1, dims[1], memory::data_type::f32);
  return {dnnl::matmul::desc(x, weight, added, out), attributes, engine};
}

// Everything that calls oneDNN goes through here: its exceptions end where they arise.
template <typename Call>
absl::Status Guarded(const char* what, const Call& call) {
  try {
    return call();
  } catch (const dnnl::error& error) {
    return absl::InternalError(absl::StrCat("oneDNN ", what, ": ", error.what()));
  }
}

void WriteDense(std::span<const WeightRows> parts, bool bf16, std::byte* dense, ThreadTeam& team) {
  std::int64_t first_row = 0;
  for (const WeightRows& part : parts) {
    const std::int64_t cols = part.cols();
    const auto write = [&](std::int64_t begin, std::int64_t end, int /*thread*/) {
      std::vector<float> values(static_cast<std::size_t>(cols));
      for (std::int64_t row = begin; row < end; ++row) {
        part.Dequantize(row, values.data());
        const std::int64_t first = (first_row + row) * cols;
        if (!bf16) {
          std::memcpy(dense + first * 4, values.data(), values.size() * 4);
          continue;
        }
        auto* out = reinterpret_cast<std::uint16_t*>(dense) + first;
        for (std::int64_t col = 0; col < cols; ++col) {
          out[col] = FloatToBf16(values[static_cast<std::size_t>(col)]);
        }
      }
    };
    team.ParallelRanges(part.rows(), cols, write);
    first_row += part.rows();
  }
}

}  // namespace

bool OneDnnMultipliesF32() { return true; }

bool OneDnnMultipliesBf16() {
  const int isa = static_cast<int>(dnnl::get_effective_cpu_isa());
  const int wanted = static_cast<int>(dnnl::cpu_isa::avx512_core_bf16);
  return (isa & wanted) == wanted;
}

struct OneDnnWeight::Layout {
  memory::desc desc;  // [cols, rows]
  std::shared_ptr<std::byte> bytes;
  memory weights;  // of these bytes; any number of products may read it at once
};

OneDnnWeight::OneDnnWeight(std::unique_ptr<Layout> layout) : layout_(std::move(layout)) {}
OneDnnWeight::~OneDnnWeight() = default;

std::int64_t OneDnnWeight::num_bytes() const {
  return static_cast<std::int64_t>(layout_->desc.get_size());
}

absl::StatusOr<std::unique_ptr<OneDnnWeight>> OneDnnWeight::Pack(std::span<const WeightRows> parts,
                                                                 bool bf16, WeightArena& arena,
                                                                 ThreadTeam& team) {
  const std::int64_t cols = parts.front().cols();
  std::int64_t rows = 0;
  for (const WeightRows& part : parts) rows += part.rows();
  absl::StatusOr<AlignedBuffer> dense = AllocateAligned(rows * cols * (bf16 ? 2 : 4));
  if (!dense.ok()) return dense.status();
  WriteDense(parts, bf16, dense->get(), team);
  auto layout = std::make_unique<Layout>();
  absl::Status status = Guarded("cannot pack a weight", [&] {
    const memory::data_type type = bf16 ? memory::data_type::bf16 : memory::data_type::f32;
    const dnnl::engine engine = CpuEngine();
    const memory::desc any({cols, rows}, type, memory::format_tag::any);
    layout->desc = Describe(engine, kLayoutRows, any, false).weights_desc();
    absl::StatusOr<std::shared_ptr<std::byte>> bytes =
        arena.Allocate(static_cast<std::int64_t>(layout->desc.get_size()));
    if (!bytes.ok()) return bytes.status();
    layout->bytes = *std::move(bytes);
    memory from({{cols, rows}, type, memory::format_tag::ba}, engine, dense->get());
    memory to(layout->desc, engine, layout->bytes.get());
    dnnl::stream stream(engine);
    dnnl::reorder(from, to).execute(stream, from, to);
    stream.wait();
    layout->weights = std::move(to);
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return std::unique_ptr<OneDnnWeight>(new OneDnnWeight(std::move(layout)));
}

struct OneDnnProducts::Cache {
  struct Key {
    std::int64_t num_rows, rows, cols;
    bool bf16, bias;
    auto operator<=>(const Key&) const = default;
  };
  struct Entry {
    dnnl::matmul::primitive_desc desc;
    dnnl::matmul primitive;
    memory x, out, bias, scratchpad;  // their bytes are those of the last call
    std::list<Key>::iterator age;
  };

  Entry& Find(std::int64_t num_rows, const memory::desc& weight, bool bias) {
    const memory::dims dims = weight.dims();
    const Key key{num_rows, dims[1], dims[0], weight.data_type() == memory::data_type::bf16, bias};
    const auto found = entries.find(key);
    if (found != entries.end()) {
      ages.splice(ages.end(), ages, found->second.age);
      return found->second;
    }
    Entry entry;
    entry.desc = Describe(engine, num_rows, weight, bias);
    entry.primitive = dnnl::matmul(entry.desc);
    entry.x = memory(entry.desc.src_desc(), engine, DNNL_MEMORY_NONE);
    entry.out = memory(entry.desc.dst_desc(), engine, DNNL_MEMORY_NONE);
    if (bias) entry.bias = memory(entry.desc.bias_desc(), engine, DNNL_MEMORY_NONE);
    entry.scratchpad = memory(entry.desc.scratchpad_desc(), engine, DNNL_MEMORY_NONE);
    const auto bytes = static_cast<std::int64_t>(entry.desc.scratchpad_desc().get_size());
    if (bytes > scratchpad_bytes) {
      scratchpad.reset();
      absl::StatusOr<AlignedBuffer> larger = AllocateAligned(bytes);
      if (!larger.ok()) throw dnnl::error(dnnl_out_of_memory, "scratchpad");
      scratchpad = *std::move(larger);
      scratchpad_bytes = bytes;
    }
    if (entries.size() >= kMaxProducts) {
      entries.erase(ages.front());
      ages.pop_front();
    }
    entry.age = ages.insert(ages.end(), key);
    return entries.emplace(key, std::move(entry)).first->second;
  }

  dnnl::engine engine = CpuEngine();
  dnnl::stream stream{engine};
  std::map<Key, Entry> entries;
  std::list<Key> ages;  // least recently used first
  AlignedBuffer scratchpad;
  std::int64_t scratchpad_bytes = 0;
};

OneDnnProducts::OneDnnProducts() = default;
OneDnnProducts::~OneDnnProducts() = default;

absl::Status OneDnnProducts::Multiply(const void* x, std::int64_t num_rows,
                                      const OneDnnWeight& weight, const float* bias, float* out) {
  return Guarded("cannot multiply", [&] {
    if (cache_ == nullptr) cache_ = std::make_unique<Cache>();
    const OneDnnWeight::Layout& layout = *weight.layout_;
    Cache::Entry& entry = cache_->Find(num_rows, layout.desc, bias != nullptr);
    // oneDNN takes all memory as mutable; it writes to the output and the scratchpad only.
    entry.x.set_data_handle(const_cast<void*>(x));
    entry.out.set_data_handle(out);
    entry.scratchpad.set_data_handle(cache_->scratchpad.get());
    // The C interface takes the arguments as they lie here; the C++ one wants a map.
    dnnl_exec_arg_t arguments[5] = {{DNNL_ARG_SRC, entry.x.get()},
                                    {DNNL_ARG_WEIGHTS, layout.weights.get()},
                                    {DNNL_ARG_DST, entry.out.get()},
                                    {DNNL_ARG_SCRATCHPAD, entry.scratchpad.get()}};
    int num_arguments = 4;
    if (bias != nullptr) {
      entry.bias.set_data_handle(const_cast<float*>(bias));
      arguments[num_arguments++] = {DNNL_ARG_BIAS, entry.bias.get()};
    }
    dnnl::error::wrap_c_api(dnnl_primitive_execute(entry.primitive.get(), cache_->stream.get(),
                                                   num_arguments, arguments),
                            "the product failed");
    cache_->stream.wait();
    return absl::OkStatus();
  });
}

}  // namespace thresher

#else  // No oneDNN in this build: it serves nothing, so nothing is ever packed for it.

namespace thresher {

struct OneDnnWeight::Layout {};
struct OneDnnProducts::Cache {};

bool OneDnnMultipliesF32() { return false; }
bool OneDnnMultipliesBf16() { return false; }

absl::StatusOr<std::unique_ptr<OneDnnWeight>> OneDnnWeight::Pack(std::span<const WeightRows>, bool,
                                                                 WeightArena&, ThreadTeam&) {
  return absl::UnimplementedError("this build has no oneDNN");
}
OneDnnWeight::~OneDnnWeight() = default;
std::int64_t OneDnnWeight::num_bytes() const { return 0; }

OneDnnProducts::OneDnnProducts() = default;
OneDnnProducts::~OneDnnProducts() = default;
absl::Status OneDnnProducts::Multiply(const void*, std::int64_t, const OneDnnWeight&, const float*,
                                      float*) {
  return absl::UnimplementedError("this build has no oneDNN");
}

}  // namespace thresher

#endif

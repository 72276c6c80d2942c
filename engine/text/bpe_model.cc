// The order of merges, ties and unknown code points follow Hugging Face's tokenizers.
#include "engine/text/bpe_model.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/text/byte_alphabet.h"
#include "engine/text/utf8.h"

namespace thresher {
namespace {

std::uint64_t PairKey(TokenId left, TokenId right) {
  return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32) |
         static_cast<std::uint32_t>(right);
}

absl::StatusOr<TokenId> FindMergePart(const Vocabulary& vocabulary, std::string_view part,
                                      std::size_t rank) {
  const std::optional<TokenId> id = vocabulary.Find(part);
  if (id.has_value()) return *id;
  return absl::InvalidArgumentError(
      absl::StrCat("merge ", rank, " needs token '", std::string(part), "', which is not there"));
}

}  // namespace

struct BpeModel::Rule {
  const absl::flat_hash_map<std::uint64_t, Merge>& merges;

  bool Find(const MergeSymbol& left, const MergeSymbol& right, std::uint32_t& rank,
            TokenId& merged) const {
    const auto found = merges.find(PairKey(left.id, right.id));
    if (found == merges.end()) return false;
    rank = found->second.rank;
    merged = found->second.merged;
    return true;
  }
};

absl::StatusOr<std::unique_ptr<BpeModel>> BpeModel::Create(const Vocabulary& vocabulary,
                                                           const Merges& merges,
                                                           const BpeOptions& options) {
  auto model = std::unique_ptr<BpeModel>(new BpeModel(options));
  std::string merged_text;
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    merged_text.assign(merges[rank].first).append(merges[rank].second);
    const absl::StatusOr<TokenId> left = FindMergePart(vocabulary, merges[rank].first, rank);
    if (!left.ok()) return left.status();
    const absl::StatusOr<TokenId> right = FindMergePart(vocabulary, merges[rank].second, rank);
    if (!right.ok()) return right.status();
    const absl::StatusOr<TokenId> merged = FindMergePart(vocabulary, merged_text, rank);
    if (!merged.ok()) return merged.status();
    model->merges_[PairKey(*left, *right)] = {static_cast<std::uint32_t>(rank), *merged};
  }
  const ByteAlphabet alphabet;
  for (int byte = 0; byte < 256; ++byte) {
    model->bytes_[byte] =
        vocabulary.Find(alphabet.Symbol(static_cast<unsigned char>(byte))).value_or(-1);
    model->fallback_[byte] = vocabulary.Find(absl::StrFormat("<0x%02X>", byte)).value_or(-1);
  }
  for (TokenId id = 0; id < vocabulary.size(); ++id) {
    const std::string_view text = vocabulary.Text(id);
    if (text.empty() || vocabulary.Find(text) != id) continue;
    if (!options.byte_level && ReadUtf8(text).length == static_cast<int>(text.size())) {
      model->code_points_.emplace(text, id);
    }
    if (!options.ignore_merges) continue;
    if (!options.byte_level) {
      model->whole_pieces_.emplace(text, id);
    } else if (std::optional<std::string> bytes = alphabet.ToBytes(text); bytes.has_value()) {
      model->whole_pieces_.emplace(*std::move(bytes), id);
    }
  }
  return model;
}

void BpeModel::AddBytes(std::string_view piece, MergeScratch& scratch) const {
  bool previous_unknown = false;
  for (std::size_t i = 0; i < piece.size(); ++i) {
    const auto begin = static_cast<std::int32_t>(i);
    const TokenId id = bytes_[static_cast<unsigned char>(piece[i])];
    if (id >= 0) {
      scratch.AddSymbol(id, begin, begin + 1);
    } else if (options_.unknown.has_value()) {
      const bool fuses = options_.fuse_unknown && previous_unknown;
      if (fuses) {
        scratch.symbols.back().end = begin + 1;
      } else {
        scratch.AddSymbol(*options_.unknown, begin, begin + 1);
      }
    }
    previous_unknown = id < 0;
  }
}

void BpeModel::AddCodePoints(std::string_view piece, MergeScratch& scratch) const {
  // An unknown token is added only when what follows is known: it may grow until then.
  std::int32_t unknown_begin = 0, unknown_end = 0;
  const auto add_unknown = [&] {
    if (unknown_end > unknown_begin) {
      scratch.AddSymbol(*options_.unknown, unknown_begin, unknown_end);
    }
    unknown_begin = unknown_end;
  };
  std::int32_t begin = 0;
  while (begin < static_cast<std::int32_t>(piece.size())) {
    const std::int32_t length = ReadUtf8(piece.substr(begin)).length;
    const std::string_view code_point = piece.substr(begin, length);
    const std::int32_t end = begin + length;
    if (const auto found = code_points_.find(code_point); found != code_points_.end()) {
      add_unknown();
      scratch.AddSymbol(found->second, begin, end);
    } else if (options_.byte_fallback && HasFallback(code_point)) {
      for (std::int32_t i = begin; i < end; ++i) {
        scratch.AddSymbol(fallback_[static_cast<unsigned char>(piece[i])], i, i + 1);
      }
    } else if (options_.unknown.has_value()) {
      if (!options_.fuse_unknown) add_unknown();
      if (unknown_begin == unknown_end) unknown_begin = begin;
      unknown_end = end;
    }
    begin = end;
  }
  add_unknown();
}

bool BpeModel::HasFallback(std::string_view code_point) const {
  for (const char byte : code_point) {
    if (fallback_[static_cast<unsigned char>(byte)] < 0) return false;
  }
  return true;
}

void BpeModel::Encode(std::string_view piece, MergeScratch& scratch,
                      std::vector<TokenId>& ids) const {
  const bool cached = WordCache::Fits(piece);
  const std::uint64_t hash = cached ? TextHash()(piece) : 0;
  if (cached && cache_.Find(piece, hash, ids)) return;
  const std::size_t first = ids.size();
  if (const auto whole = whole_pieces_.find(piece); whole != whole_pieces_.end()) {
    ids.push_back(whole->second);
  } else {
    scratch.Clear();
    options_.byte_level ? AddBytes(piece, scratch) : AddCodePoints(piece, scratch);
    if (scratch.symbols.empty()) return;
    MergeSymbols(Rule{merges_}, scratch);
    for (std::int32_t i = 0; i >= 0; i = scratch.symbols[i].next) {
      ids.push_back(scratch.symbols[i].id);
    }
  }
  if (cached) cache_.Insert(piece, hash, ids, first);
}

}  // namespace thresher

// Field numbers are those of sentencepiece_model.proto (github.com/google/sentencepiece).
#include "engine/text/sentencepiece_spec.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/text/proto_reader.h"
#include "engine/text/vocabulary.h"

namespace thresher {
namespace {

// Calls `read(field, offset of its bytes)` for every field.
template <typename Read>
absl::Status ForEachField(std::string_view message, std::size_t offset, Read read) {
  ProtoReader reader(message, offset);
  while (!reader.AtEnd()) {
    const absl::StatusOr<ProtoField> field = reader.Next();
    if (!field.ok()) return field.status();
    if (absl::Status status = read(*field, reader.BytesOffset()); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Unsupported(std::string_view what) {
  return absl::UnimplementedError(
      absl::StrCat("SentencePiece ", std::string(what), " is not supported"));
}

absl::Status ReadPiece(std::string_view message, std::size_t offset, SentencePieceSpec& spec) {
  SentencePiece piece;
  std::uint64_t type = 1;
  absl::Status status = ForEachField(message, offset, [&](const ProtoField& field, std::size_t) {
    if (field.number == 1 && field.has_bytes) piece.text = field.bytes;
    if (field.number == 2 && !field.has_bytes) piece.score = field.AsFloat();
    if (field.number == 3 && !field.has_bytes) type = field.number_bits;
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  if (type < 1 || type > 6) {
    return absl::InvalidArgumentError(
        absl::StrCat("piece ", spec.pieces.size(), " has type ", type, "; types are 1 to 6"));
  }
  piece.type = static_cast<TokenType>(type);
  // SentencePiece merges through unused pieces and takes them apart again.
  if (piece.type == TokenType::kUnused) return Unsupported("piece of type UNUSED");
  if (spec.pieces.size() == static_cast<std::size_t>(Vocabulary::kMaxSize)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the model has more than ", Vocabulary::kMaxSize, " pieces"));
  }
  spec.pieces.push_back(std::move(piece));
  return absl::OkStatus();
}

struct TrainerSpec {
  std::uint64_t model_type = 1;
  std::int64_t bos = 1, eos = 2;
  bool byte_fallback = false;
  bool whitespace_as_suffix = false;
};

absl::Status ReadTrainerSpec(std::string_view message, std::size_t offset, TrainerSpec& trainer) {
  return ForEachField(message, offset, [&](const ProtoField& field, std::size_t) {
    if (field.has_bytes) return absl::OkStatus();
    if (field.number == 3) trainer.model_type = field.number_bits;
    if (field.number == 24) trainer.whitespace_as_suffix = field.number_bits != 0;
    if (field.number == 35) trainer.byte_fallback = field.number_bits != 0;
    if (field.number == 41) trainer.bos = static_cast<std::int32_t>(field.number_bits);
    if (field.number == 42) trainer.eos = static_cast<std::int32_t>(field.number_bits);
    return absl::OkStatus();
  });
}

absl::Status ReadNormalizerSpec(std::string_view message, std::size_t offset,
                                SentencePieceSpec& spec) {
  return ForEachField(message, offset, [&](const ProtoField& field, std::size_t) {
    if (field.number == 2 && field.has_bytes && !field.bytes.empty()) {
      return Unsupported("precompiled_charsmap");
    }
    if (field.has_bytes) return absl::OkStatus();
    if (field.number == 3) spec.add_dummy_prefix = field.number_bits != 0;
    if (field.number == 4) spec.remove_extra_whitespaces = field.number_bits != 0;
    if (field.number == 5 && field.number_bits == 0) return Unsupported("escape_whitespaces=false");
    return absl::OkStatus();
  });
}

absl::Status ApplyTrainerSpec(const TrainerSpec& trainer, SentencePieceSpec& spec) {
  switch (trainer.model_type) {
    case 1:
      return Unsupported("model type UNIGRAM");
    case 2:
      break;
    case 3:
      return Unsupported("model type WORD");
    case 4:
      return Unsupported("model type CHAR");
    default:
      return Unsupported(absl::StrCat("model type ", trainer.model_type));
  }
  if (trainer.whitespace_as_suffix) return Unsupported("treat_whitespace_as_suffix");
  spec.byte_fallback = trainer.byte_fallback;
  const auto in_range = [&](std::int64_t id) {
    return id >= 0 && id < static_cast<std::int64_t>(spec.pieces.size());
  };
  if (in_range(trainer.bos)) spec.bos = static_cast<TokenId>(trainer.bos);
  if (in_range(trainer.eos)) spec.eos = static_cast<TokenId>(trainer.eos);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SentencePieceSpec> ParseSentencePieceModel(std::string_view bytes) {
  SentencePieceSpec spec;
  TrainerSpec trainer;
  absl::Status status =
      ForEachField(bytes, 0, [&](const ProtoField& field, std::size_t offset) -> absl::Status {
        if (!field.has_bytes) return absl::OkStatus();
        if (field.number == 1) return ReadPiece(field.bytes, offset, spec);
        if (field.number == 2) return ReadTrainerSpec(field.bytes, offset, trainer);
        if (field.number == 3) return ReadNormalizerSpec(field.bytes, offset, spec);
        // The denormalizer has the normalizer's form; only its map would change decoded text.
        if (field.number == 5) {
          SentencePieceSpec unused;
          return ReadNormalizerSpec(field.bytes, offset, unused);
        }
        return absl::OkStatus();
      });
  if (!status.ok()) return status;
  if (spec.pieces.empty()) return absl::InvalidArgumentError("the model has no pieces");
  status = ApplyTrainerSpec(trainer, spec);
  if (!status.ok()) return status;
  return spec;
}

}  // namespace thresher

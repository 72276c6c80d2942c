#!/usr/bin/env python3
"""Makes tests/golden/tokenizers: small tokenizers and the hashes of their ids on hard_strings.py.

The ids are Hugging Face's tokenizers' and sentencepiece's. Run it as
  make_tokenizer_goldens.py --model SmolLM2-135M-Instruct.Q4_1.gguf
in an environment with tokenizers, sentencepiece, gguf and mistral-common (whose SentencePiece model
is read from the installed package and not stored). Without --model the hashes of SmolLM2 stay as
they are. --print NAME INDEX prints a string and its expected ids instead.
"""

import argparse
import inspect
import io
import json
import pathlib
import sys

import sentencepiece
import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers
from tokenizers import pre_tokenizers, processors, trainers

import hard_strings

OUT = pathlib.Path(__file__).parent.parent / "tokenizers"
ALL = 10000
SOME = 4000

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
TEKKEN = (rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*|\p{{N}}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
ENDING = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
GPT4O = (rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{ENDING}"
         rf"|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{ENDING}|\p{{N}}{{1,3}}"
         r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def corpus():
    """Code, English and the hard strings: enough to learn merges that matter on them."""
    source = [inspect.getsource(module) for module in (argparse, inspect, io, json)]
    return "".join(source).splitlines(keepends=True) + hard_strings.hard_strings(3000) * 2


def split(regex):
    return pre_tokenizers.Split(Regex(regex), "isolated")


def byte_level(*before, add_prefix_space=False, use_regex=False):
    return pre_tokenizers.Sequence([*before, pre_tokenizers.ByteLevel(
        add_prefix_space=add_prefix_space, use_regex=use_regex)])


def train(tokenizer, vocab_size, specials, alphabet):
    tokenizer.train_from_iterator(corpus(), trainers.BpeTrainer(
        vocab_size=vocab_size, special_tokens=specials, initial_alphabet=alphabet,
        show_progress=False))
    return tokenizer


def train_byte_level(pre_tokenizer, specials, vocab_size, **model):
    tokenizer = Tokenizer(models.BPE(**model))
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return train(tokenizer, vocab_size, specials, sorted(pre_tokenizers.ByteLevel.alphabet()))


def gpt2():
    return train_byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False), ["<|endoftext|>"],
                            1100)


def with_splits(base, *regexes):
    """The same model behind other splits, as GGUF files name them."""
    tokenizer = Tokenizer.from_str(base.to_str())
    tokenizer.pre_tokenizer = byte_level(*[split(regex) for regex in regexes])
    return tokenizer


def llama3():
    tokenizer = train_byte_level(byte_level(split(LLAMA3)),
                                 ["<|begin_of_text|>", "<|eot_id|>", "<|im_start|>"], 1000)
    state = json.loads(tokenizer.to_str())
    state["model"]["ignore_merges"] = True
    # Tokens that merges do not make are found only as whole pieces.
    vocab = state["model"]["vocab"]
    for piece in ["ĠLorem", "internationalization", "ä¸Ńæĸĩæ²¡æľīç©ºæł¼"]:
        vocab.setdefault(piece, len(vocab))
    tokenizer = Tokenizer.from_str(json.dumps(state))
    bos = "<|begin_of_text|>"
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single=f"{bos} $A", pair=f"{bos} $A {bos} $B",
                                      special_tokens=[(bos, tokenizer.token_to_id(bos))])])
    return tokenizer


def qwen2():
    tokenizer = train_byte_level(byte_level(split(QWEN2)),
                                 ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], 1000)
    tokenizer.normalizer = normalizers.NFC()
    return tokenizer


def flags(base):
    """Every option of added tokens, before and after a normalizer."""
    tokenizer = Tokenizer.from_str(base.to_str())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=False),
        pre_tokenizers.ByteLevel(add_prefix_space=True)])
    tokenizer.add_tokens([
        AddedToken("<t>", lstrip=True, normalized=False),
        AddedToken("<u>", rstrip=True, normalized=True),
        AddedToken("<v>", lstrip=True, rstrip=True, normalized=False),
        AddedToken("tok", single_word=True, normalized=False),
        AddedToken("two words", single_word=True, lstrip=True, rstrip=True, normalized=True),
        AddedToken("<é>", normalized=False),
        AddedToken("<n\u0303>", normalized=True),
        AddedToken("\n\n", normalized=False)])
    tokenizer.add_special_tokens([AddedToken("<s>", lstrip=True), AddedToken("<|im_start|>")])
    eot = ("<|endoftext|>", tokenizer.token_to_id("<|endoftext|>"))
    tokenizer.post_processor = processors.TemplateProcessing(single="$A <|endoftext|>",
                                                             special_tokens=[eot])
    return tokenizer


BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def llama2():
    """Llama 2's: no pre-tokenizer, byte fallback, spaces by the normalizer."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    train(tokenizer, 1100, ["<unk>", "<s>", "</s>", *BYTES], [])
    state = json.loads(tokenizer.to_str())
    state["added_tokens"] = [token for token in state["added_tokens"] if token["id"] < 3]
    tokenizer = Tokenizer.from_str(json.dumps(state))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"),
                                                 normalizers.Replace(" ", "▁")])
    tokenizer.pre_tokenizer = None
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(),
                                           decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])
    return tokenizer


def metaspace():
    """Steps that the big families do not use."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Replace(Regex(r"\t+"), "  "),
                                                 normalizers.Replace("…", "...")])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Metaspace(prepend_scheme="first"),
        pre_tokenizers.Split(Regex(r"[\r\n]+"), "merged_with_previous"),
        pre_tokenizers.Split(".", "merged_with_next"),
        pre_tokenizers.Split(Regex(r"\p{L}+"), "contiguous", invert=True),
        pre_tokenizers.Split("_", "removed"),
        pre_tokenizers.Digits(individual_digits=True)])
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="first")
    return train(tokenizer, 700, ["<unk>", "<s>"], [])


def sentence_piece(**options):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(line.strip("\n") for line in corpus()), model_writer=model,
        model_type="bpe", normalization_rule_name="identity", minloglevel=2, **options)
    return model.getvalue()


def sentence_piece_models():
    return {
        # As Llama 2's.
        "sentencepiece_fallback": sentence_piece(
            vocab_size=1000, byte_fallback=True, split_digits=True, remove_extra_whitespaces=False,
            allow_whitespace_only_pieces=True, user_defined_symbols=["<sym>", "\u2581\u2581\u2581"],
            control_symbols=["[INST]"]),
        # SentencePiece's defaults.
        "sentencepiece_unknown": sentence_piece(
            vocab_size=700, character_coverage=0.98, user_defined_symbols=["two words"]),
    }


def mistral_model():
    import mistral_common
    path = pathlib.Path(mistral_common.__file__).parent / "data" / "tokenizer.model.v1"
    return path.read_bytes()


def smollm2(path):
    import gguf
    fields = gguf.GGUFReader(path).fields
    tokens = fields["tokenizer.ggml.tokens"].contents()
    types = fields["tokenizer.ggml.token_type"].contents()
    merges = [tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"].contents()]
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, merges))
    tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True)
                                  for token, kind in zip(tokens, types) if kind == 3])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def hugging_face_encoder(tokenizer):
    return lambda text: tokenizer.encode(text).ids


def sentence_piece_encoder(model):
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    return processor.encode


def make_all(model_path):
    """name -> (encoder, number of strings, file to store or None)."""
    base = gpt2()
    kept = {"gpt2": (base, ALL), "llama3": (llama3(), ALL), "qwen2": (qwen2(), ALL),
            "llama2": (llama2(), ALL), "flags": (flags(base), SOME),
            "metaspace": (metaspace(), SOME)}
    made = {name: (hugging_face_encoder(tokenizer), count,
                   (f"{name}.json", tokenizer.to_str().encode("utf-8")))
            for name, (tokenizer, count) in kept.items()}
    for name, regexes in {
            "gpt2_smollm": [r"\p{N}", GPT2],
            "gpt2_tekken": [TEKKEN],
            "gpt2_gpt-4o": [GPT4O],
            "gpt2_default": [r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"],
    }.items():
        made[name] = (hugging_face_encoder(with_splits(base, *regexes)), SOME, None)
    for name, model in sentence_piece_models().items():
        made[name] = (sentence_piece_encoder(model), ALL, (f"{name}.model", model))
    made["mistral_v1"] = (sentence_piece_encoder(mistral_model()), ALL, None)
    if model_path:
        made["smollm2"] = (hugging_face_encoder(smollm2(model_path)), ALL, None)
    return made


def write_hashes(name, encode, count):
    digits = ["%06x" % hard_strings.ids_hash(encode(text))
              for text in hard_strings.hard_strings(count)]
    lines = ["".join(digits[i:i + 16]) for i in range(0, count, 16)]
    (OUT / f"{name}.hashes").write_text("\n".join(lines) + "\n", encoding="ascii")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", help="SmolLM2-135M-Instruct.Q4_1.gguf")
    parser.add_argument("--print", nargs=2, metavar=("NAME", "INDEX"), dest="shown")
    arguments = parser.parse_args()
    made = make_all(arguments.model)
    if arguments.shown:
        text = hard_strings.hard_strings(int(arguments.shown[1]) + 1)[-1]
        print(json.dumps(text))
        print(made[arguments.shown[0]][0](text))
        return
    for name, (encode, count, stored) in made.items():
        if stored:
            (OUT / stored[0]).write_bytes(stored[1])
        write_hashes(name, encode, count)
    versions = {"tokenizers": tokenizers.__version__, "sentencepiece": sentencepiece.__version__,
                "python": sys.version.split()[0]}
    (OUT / "versions.json").write_text(json.dumps(versions, indent=1) + "\n", encoding="ascii")


if __name__ == "__main__":
    main()

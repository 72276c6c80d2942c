#!/usr/bin/env python3
"""Measures llama.cpp on a GGUF file and prints JSON lines with the cases of `thresher bench offline`.

Needs the package llama-cpp-python. Each case is checked in the same run: greedy decoding of one
stream and of eight equal streams must give the same tokens.
"""
import argparse
import json
import statistics
import time

import llama_cpp as lc
import numpy as np


class Session:
    def __init__(self, path, threads, context, sequences):
        model_params = lc.llama_model_default_params()
        self.model = lc.llama_model_load_from_file(path.encode(), model_params)
        if not self.model:
            raise SystemExit(f"llama.cpp cannot load {path}")
        params = lc.llama_context_default_params()
        params.n_ctx = context
        params.n_batch = 512
        params.n_ubatch = 512
        params.n_seq_max = sequences
        params.n_threads = threads
        params.n_threads_batch = threads
        self.context = lc.llama_init_from_model(self.model, params)
        self.vocab_size = lc.llama_vocab_n_tokens(lc.llama_model_get_vocab(self.model))
        self.batch = lc.llama_batch_init(512, 0, 1)

    def clear(self):
        lc.llama_memory_clear(lc.llama_get_memory(self.context), True)

    def run(self, rows):
        """rows: (token, position, sequence, wants_logits)."""
        batch = self.batch
        batch.n_tokens = len(rows)
        for i, (token, position, sequence, wants) in enumerate(rows):
            batch.token[i] = token
            batch.pos[i] = position
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = sequence
            batch.logits[i] = wants
        if lc.llama_decode(self.context, batch) != 0:
            raise SystemExit("llama_decode failed")

    def argmax(self, row):
        logits = lc.llama_get_logits_ith(self.context, row)
        return int(np.ctypeslib.as_array(logits, (self.vocab_size,)).argmax())


def prompt_tokens(length, vocab):
    return [(i * 7919 + 13) % (vocab - 100) + 50 for i in range(length)]


def prefill(session, length):
    session.clear()
    rows = [(t, i, 0, i == length - 1) for i, t in enumerate(prompt_tokens(length, session.vocab_size))]
    start = time.perf_counter()
    session.run(rows)
    token = session.argmax(length - 1)
    return length / (time.perf_counter() - start), [token]


def decode(session, streams, prompt_length, steps):
    session.clear()
    prompt = prompt_tokens(prompt_length, session.vocab_size)
    current = []
    for s in range(streams):
        session.run([(t, i, s, i == prompt_length - 1) for i, t in enumerate(prompt)])
        current.append(session.argmax(prompt_length - 1))
    tokens = [[t] for t in current]
    start = time.perf_counter()
    for step in range(steps):
        session.run([(current[s], prompt_length + step, s, True) for s in range(streams)])
        current = [session.argmax(s) for s in range(streams)]
        for s in range(streams):
            tokens[s].append(current[s])
    return streams * steps / (time.perf_counter() - start), tokens


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=64)
    parser.add_argument("--quantize", metavar="OUT", help="write a Q4_0 file of --model and stop")
    args = parser.parse_args()
    lc.llama_backend_init()
    silence = lc.llama_log_callback(lambda *_: None)  # kept alive: C holds only a pointer
    lc.llama_log_set(silence, None)
    if args.quantize:
        params = lc.llama_model_quantize_default_params()
        params.ftype = lc.LLAMA_FTYPE_MOSTLY_Q4_0
        params.allow_requantize = True
        params.nthread = args.threads
        if lc.llama_model_quantize(args.model.encode(), args.quantize.encode(), params) != 0:
            raise SystemExit("quantisation failed")
        return
    session = Session(args.model, args.threads, 4096, 8)
    cases = {
        "prefill_512": lambda: prefill(session, 512),
        "decode_1": lambda: decode(session, 1, 32, args.steps),
        "decode_8": lambda: decode(session, 8, 32, args.steps),
    }
    for name, case in cases.items():
        case()  # warm-up
        results = [case() for _ in range(args.runs)]
        rates = [r for r, _ in results]
        same = all(tokens == results[0][1] for _, tokens in results)
        print(json.dumps({
            "bench": "offline", "case": name, "engine": "llama.cpp",
            "version": f"llama-cpp-python {lc.__version__}", "threads": args.threads,
            "value": round(statistics.median(rates), 1), "unit": "tokens/s",
            "min": round(min(rates), 1), "max": round(max(rates), 1), "runs": args.runs,
            "check": "repeatable" if same else "NOT repeatable",
        }), flush=True)


if __name__ == "__main__":
    main()

"""PyTorch's attention (cuDNN) and products on the shapes of gpu_kernels_bench, JSON lines.

Contiguous tensors; decode is replayed from a CUDA graph over caches that the second level cannot hold.
"""

import json

import torch
import torch.nn.functional as functional
from torch.nn.attention import SDPBackend, sdpa_kernel

HEADS, KV_HEADS, DIM = 32, 8, 128


def median_us(run, repeats=8):
    times = []
    for _ in range(2):
        run()
    for _ in range(repeats):
        start, end = torch.cuda.Event(True), torch.cuda.Event(True)
        start.record()
        run()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) * 1e3)
    return sorted(times)[len(times) // 2]


def graph_us(run, calls=20):
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            run()
    return median_us(graph.replay) / calls


def random(*shape):
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)


def report(bench, case, us):
    print(json.dumps({"bench": bench, "case": case, "device": torch.cuda.get_device_name(),
                      "command": "gpu_peers.py", "value": us, "unit": "us"}), flush=True)


def attend(q, k, v, causal):
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        functional.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)


def decode(batch, context):
    copies = 1 + int(200e6 / (4 * batch * KV_HEADS * context * DIM))
    q = random(batch, HEADS, 1, DIM)
    caches = [(random(batch, KV_HEADS, context, DIM), random(batch, KV_HEADS, context, DIM))
              for _ in range(copies)]
    calls = [0]

    def run():
        calls[0] += 1
        attend(q, *caches[calls[0] % copies], False)

    report("peer_attention", f"decode_{batch}x{context}", graph_us(run))


def prefill(length):
    q, k, v = random(1, HEADS, length, DIM), *(random(1, KV_HEADS, length, DIM) for _ in range(2))
    report("peer_attention", f"prefill_{length}_on_0", median_us(lambda: attend(q, k, v, True)))


def product(rows, cols, count):
    x, weight = random(count, cols), random(rows, cols)
    report("peer_gemm", f"product_{count}x{rows}x{cols}",
           graph_us(lambda: torch.mm(x, weight.T)))


def main():
    for batch, context in ((1, 4096), (1, 32768), (1, 131072), (8, 4096), (32, 4096), (32, 8192),
                           (64, 8192), (8, 32768)):
        decode(batch, context)
    for length in (2048, 4096, 8192, 16384, 32768):
        prefill(length)
    for rows, cols in ((6144, 4096), (28672, 4096), (4096, 14336)):
        for count in (1, 8, 64, 256, 2048, 8192):
            product(rows, cols, count)


if __name__ == "__main__":
    torch.manual_seed(0)
    main()

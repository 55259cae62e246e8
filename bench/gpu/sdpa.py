#!/usr/bin/env python3
"""PyTorch's scaled_dot_product_attention, timed as bench/gpu/attention.cuh times ours: the same shapes, the median of
as many runs, by events.

    sdpa.py --output=FILE

Exit status 77: there is no PyTorch, or it has no GPU.
"""

import argparse
import datetime
import json
import statistics
import sys

try:
    import torch
except ImportError:
    print("sdpa: this python3 has no PyTorch", file=sys.stderr)
    sys.exit(77)

TOKENS = 16384
COLUMNS = 2048


def median_seconds(run):
    """As many runs as take about a third of a second, at least 5 and at most 50, after three that do not count."""

    def time_each(runs):
        events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(runs)]
        for start, end in events:
            start.record()
            run()
            end.record()
        torch.cuda.synchronize()
        return statistics.median_high(1e-3 * start.elapsed_time(end) for start, end in events)

    about = time_each(3)
    return time_each(int(min(max(0.33 / about, 5), 50)))


def measure(dtype, dimension, causal, sequence):
    """Seconds of the forward and the backward pass."""
    batch, heads = TOKENS // sequence, COLUMNS // dimension

    def tensor():
        # (batch, sequence, heads, dimension) in memory, as ours; PyTorch wants heads before the sequence.
        x = torch.randn(batch, sequence, heads, dimension, dtype=dtype, device="cuda")
        return x.transpose(1, 2)

    q, k, v = (tensor().requires_grad_() for _ in range(3))
    d_out = tensor()

    def forward():
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    with torch.no_grad():
        forward_seconds = median_seconds(forward)
    out = forward()
    backward_seconds = median_seconds(lambda: torch.autograd.grad(out, (q, k, v), d_out, retain_graph=True))
    return forward_seconds, backward_seconds


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", required=True, help="write the measurements to this file, as JSON")
    output = parser.parse_args().output
    if not torch.cuda.is_available():
        print("sdpa: PyTorch finds no GPU", file=sys.stderr)
        sys.exit(77)

    try:
        with open("/sys/module/nvidia/version", encoding="ascii") as file:
            driver = file.read().strip()
    except OSError:
        driver = "of CUDA " + str(torch.version.cuda)
    report = {
        "machine": {
            "card": torch.cuda.get_device_name(),
            "driver": driver,
            "pytorch": torch.__version__,
            "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        },
        "measurements": [],
    }
    sequences = {"bf16": [2048, 4096, 8192, 16384], "f16": [8192]}
    for element, dtype in (("bf16", torch.bfloat16), ("f16", torch.float16)):
        for dimension in (64, 128, 256):
            for causal in (True, False):
                for sequence in sequences[element]:
                    flops = 4.0 * TOKENS * COLUMNS * sequence * (0.5 if causal else 1.0)
                    forward, backward = measure(dtype, dimension, causal, sequence)
                    shape = f"{element}/{dimension}/{'causal' if causal else 'full'}/{sequence}"
                    # Its backward pass promises no order of sums: it stands beside both of ours.
                    for direction, work, seconds in (
                        ("forward", flops, forward),
                        ("backward", 2.5 * flops, backward),
                        ("backward_any_order", 2.5 * flops, backward),
                    ):
                        name = f"attention/{direction}/{shape}"
                        rate = work / seconds * 1e-12
                        print(f"{name:46} {rate:10.1f} TFLOP/s", flush=True)
                        report["measurements"].append({"name": name, "value": rate, "unit": "TFLOP/s"})
                    with open(output, "w", encoding="utf-8") as file:
                        json.dump(report, file, indent=2)


if __name__ == "__main__":
    main()

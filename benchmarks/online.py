"""A stream of a six-axis robot at 1 kHz, watched for changes: samples per second on one core, and memory.

Chunks of 0.1 s; positions filtered at 20 Hz, rows at 50 Hz, an identification with error bars every two seconds of the
stream and all residuals judged. Processor time, so that other processes do not count.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

RATE_HZ = 1000.0
CHUNK = 100
PERIOD = 50_000


def resident() -> int:
    """Resident memory of this process [bytes]."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise OSError("no VmRSS in /proc/self/status")


def bench_online(samples: int = 300_000) -> dict[str, float]:
    """Samples per second after the first 40 s, for compilation and first identification; growth of memory."""
    from steelyard import Model, Preparation, read_robot
    from steelyard.model.terms import named_terms
    from steelyard.motion.random import random_fourier
    from steelyard.online.causal_filter import Chunk
    from steelyard.online.online import Online

    robot = read_robot("tx40")
    model = Model(robot, named_terms(("rotor", "viscous", "coulomb", "offset")))
    assert model.layout.nominal is not None
    rng = np.random.default_rng(3)
    q, v, a = random_fourier(robot, 5, 0.1, PERIOD / RATE_HZ, rng).at(np.arange(PERIOD) / RATE_HZ)
    tau = model.torque(q, v, a, model.layout.nominal)
    size = 0.03 * np.std(tau, axis=1, keepdims=True)
    stream = Online(model, Preparation(cutoff_hz=20.0, rate_hz=RATE_HZ), lowpass_hz=10.0, decimate=20)
    learnt = 40_000
    spent, before = 0.0, 0
    for k in range(0, learnt + samples, CHUNK):
        part = slice(k % PERIOD, k % PERIOD + CHUNK)
        noise = size * rng.standard_normal((robot.dof, CHUNK))
        chunk = Chunk((k + np.arange(CHUNK)) / RATE_HZ, q[:, part], tau[:, part] + noise)
        begun = time.process_time()
        stream.update(chunk)
        spent += time.process_time() - begun
        if k < learnt:
            spent, before = 0.0, resident()
    assert stream.phase == "watching"
    return {
        "samples": samples,
        "samples_per_second": samples / spent,
        "megabytes_grown": (resident() - before) / 1e6,
        "delay_s": stream.delay_s,
    }


def online_table(found: dict[str, float]) -> list[str]:
    return [
        f"stream of 6 axes at 1 kHz, watched    {found['samples_per_second']:8.0f} samples/s  (bar 10000)",
        f"  memory over {found['samples'] / 1e6:.1f} M samples          {found['megabytes_grown']:8.1f} MB more, "
        f"rows {found['delay_s']:.2f} s late",
    ]

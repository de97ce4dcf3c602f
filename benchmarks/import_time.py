"""Prints how long `import tidemill` takes, the start of Python itself aside. The bar is 150 ms."""

import statistics
import subprocess
import sys
import time

RUNS = 20
BAR_MS = 150


def median_ms(program: str) -> float:
    """The median time to run a program in a fresh interpreter."""
    times = []
    for _ in range(RUNS):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", program], check=True)
        times.append(time.perf_counter() - began)
    return statistics.median(times) * 1000


def main() -> None:
    """Measure, print, and fail when the bar is missed."""
    bare, full = median_ms("pass"), median_ms("import tidemill")
    print(f"python {bare:.0f} ms, with tidemill {full:.0f} ms: {full - bare:.0f} ms of {BAR_MS} ms")
    sys.exit(full - bare > BAR_MS)


main()

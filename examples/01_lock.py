"""Two processes that take turns, and a resource that knows its fence.

python examples/01_lock.py
"""

import multiprocessing
import tempfile

import tidemill


def work(url: str, name: str, turns: int) -> None:
    for _ in range(turns):
        with tidemill.Lock(url, "till") as lock:
            print(f"{name} has the lock under fence {lock.fence}", flush=True)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/store.db"
        workers = [multiprocessing.Process(target=work, args=(url, name, 3)) for name in ("ada", "bob")]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()


if __name__ == "__main__":
    main()

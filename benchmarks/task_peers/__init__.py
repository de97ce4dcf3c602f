"""What the benchmark of tasks measures: one module for each system, all with the same few functions.

`catalogue` says which systems there are and how their workers are started. `<system>_app` defines the tasks
of `body` in that system's own way, and has

    prepare()                whatever an empty store needs first
    send(i) -> id            one no-op task
    send_all(numbers) -> ids many at once; absent where the system has nothing for it
    send_slow(i)             one task of 50 ms
    call(i) -> i             one no-op task, and its result, waited for in the best way the system has
    fetch(id) -> i           the result of a task that another process sent

Settings come from the environment: `BENCH_STORE`, the address of the store; `BENCH_TRIAL`, which of
throughput, latency and kill this is; `BENCH_MARKS`, where tasks leave their marks. All of it runs in the
environment of the peers, but for our own.
"""

"""What boto3 in threads does at a load: `python -m benchmarks.client_boto3 PORT THREADS` prints rate, latency and
processor time of a request as JSON.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from statistics import fmean

SECONDS = 5.0
_WARM_UP = 1.0


def main(port: int, threads: int) -> None:
    import boto3
    from botocore.config import Config

    client = boto3.client(
        "sagemaker-runtime",
        region_name="us-east-1",
        endpoint_url=f"http://127.0.0.1:{port}",
        aws_access_key_id="none",
        aws_secret_access_key="none",
        config=Config(max_pool_connections=threads, retries={"total_max_attempts": 1}),
    )
    latencies: list[float] = []
    is_counted, is_over = threading.Event(), threading.Event()
    are_ready = threading.Barrier(threads + 1)

    def requests() -> None:
        are_ready.wait()
        while not is_over.is_set():
            sent = time.perf_counter()
            response = client.invoke_endpoint(EndpointName="x", ContentType="application/json", Body=b"{}")
            response["Body"].read()
            if is_counted.is_set():
                latencies.append(time.perf_counter() - sent)

    running = [threading.Thread(target=requests) for _ in range(threads)]
    for thread in running:
        thread.start()
    are_ready.wait()
    is_over.wait(_WARM_UP)
    is_counted.set()
    began, cpu = time.perf_counter(), time.process_time()
    is_over.wait(SECONDS)
    is_counted.clear()
    passed, spent = time.perf_counter() - began, time.process_time() - cpu
    is_over.set()
    for thread in running:
        thread.join()
    figures = {
        "rate": len(latencies) / passed,
        "latency": fmean(latencies),
        "cpu": spent / len(latencies),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))

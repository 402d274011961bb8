"""Small handlers without torch that the server's tests run in DJL's real engine."""

MANY_WAYS = """
import json, os, time
from djl_python import Output

CALLS = 0

def pieces(count, delay, exit_at):
    for number in range(count):
        if number == exit_at:
            os._exit(7)
        if delay:
            time.sleep(delay)
        yield "t%d" % number

def handle(inputs):
    global CALLS
    if inputs.is_empty():
        print("warmed up with", sorted(inputs.get_properties().items()))
        return None
    CALLS += 1
    asked = inputs.get_as_json()
    do = asked["do"]
    if do == "echo":
        return Output().add(asked["text"])
    if do == "header":
        return Output().add(inputs.get_property(asked["name"]) or "")
    if do == "count":
        return Output().add(str(CALLS))
    if do == "sleep":
        time.sleep(asked["seconds"])
        return Output().add("slept")
    if do == "stream":
        out = Output().add_property("Content-Type", "application/jsonlines")
        return out.add_stream_content(pieces(asked["count"], asked.get("delay", 0), asked.get("exit_at")))
    if do == "big":
        return Output().add(b"x" * asked["size"])
    if do == "environ":
        return Output().add_as_json(dict(os.environ))
    if do == "exit":
        os._exit(5)
    raise ValueError("do what?")
"""

BATCHED = """
from djl_python import Output

def handle(inputs):
    if inputs.is_empty():
        return None
    out = Output()
    items = inputs.get_batches()
    for number, item in enumerate(items):
        out.add("%s of %d" % (item.get_as_string("data"), len(items)), batch_index=number)
    return out
"""

ASYNC = """
import asyncio, os
from djl_python import Output
from djl_python.async_utils import create_non_stream_output, create_stream_chunk_output

WARM = False

async def handle(inputs):
    global WARM
    if not WARM:
        WARM = True
        return Output()
    asked = inputs.get_as_json()
    do = asked["do"]
    if do == "exit":
        os._exit(9)
    if do == "stream":
        return stream(asked["text"], asked["count"], asked.get("delay", 0))
    await asyncio.sleep(asked.get("seconds", 0))
    return create_non_stream_output(asked["text"])

async def stream(text, count, delay):
    for number in range(count):
        await asyncio.sleep(delay)
        yield create_stream_chunk_output("%s-%d" % (text, number), number == count - 1)
"""

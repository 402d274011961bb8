"""A handler that answers as a model would that knows tools and JSON schemas: in DJL's own form, streams as JSON lines.

The last message says what happens: `break` ends a stream with an error after two words, `die` ends the worker there,
`wait` answers once the file FILE exists.
"""

ACTING = """
import json, os, time
from djl_python import Output

CALL = {"id": "call-1", "type": "function"}
CITY = {"city": "Paris", "people": 2100000}

def choice(said, finish, key):
    return {"index": 0, key: said, "logprobs": None, "finish_reason": finish}

def lines(body, message, word):
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "/opt/ml/model"}
    calls = message.pop("tool_calls", None)
    deltas = [{"role": "assistant", "content": piece} for piece in message["content"].split("|")]
    if calls:
        name, arguments = calls[0]["function"]["name"], calls[0]["function"]["arguments"]
        deltas = [{"tool_calls": [{"index": 0, **CALL, "function": {"name": name, "arguments": ""}}]}]
        deltas += [{"tool_calls": [{"index": 0, "function": {"arguments": part}}]} for part in arguments.split(" ")]
    for number, delta in enumerate(deltas):
        if number == 2 and word == "die":
            os._exit(7)
        if number == 2 and word == "break":
            yield json.dumps({"error": {"message": "generation failed: no memory", "type": "server_error"}}) + "\\n"
            return
        yield json.dumps({**head, "choices": [choice(delta, None, "delta")]}) + "\\n"
    end = choice({}, "tool_calls" if calls else "stop", "delta")
    yield json.dumps({**head, "choices": [end]}) + "\\n"
    if (body.get("stream_options") or {}).get("include_usage"):
        usage = {"prompt_tokens": 3, "completion_tokens": len(deltas), "total_tokens": 3 + len(deltas)}
        yield json.dumps({**head, "choices": [], "usage": usage}) + "\\n"

def handle(inputs):
    if inputs.is_empty():
        return None
    body = inputs.get_as_json()
    word = body["messages"][-1]["content"]
    message = {"role": "assistant", "content": "one| two| three| four"}
    if body.get("tools"):
        function = {"name": body["tools"][0]["function"]["name"], "arguments": json.dumps({"city": "Paris"})}
        message = {"role": "assistant", "content": "", "tool_calls": [{**CALL, "function": function}]}
    if (body.get("response_format") or {}).get("type") == "json_schema":
        message["content"] = json.dumps(CITY)
    if body.get("stream"):
        out = Output().add_property("Content-Type", "application/jsonlines")
        return out.add_stream_content(lines(body, message, word), output_formatter=None)
    while word == "wait" and not os.path.exists("FILE"):
        time.sleep(0.02)
    message["content"] = message["content"].replace("|", "")
    usage = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
    finish = "tool_calls" if "tool_calls" in message else "stop"
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "/opt/ml/model"}
    response = {**head, "choices": [choice(message, finish, "message")], "usage": usage}
    return Output().add_property("Content-Type", "application/json").add_as_json(response)
"""

"""GPT-2 behind /ping and /invocations, in one process: `{"input": "amazon"}` is answered by `{"output": "..."}`.

The folder LMI_MODEL_PATH contains the tokenizer, `profile.json` and one graph: `model.plan` (TensorRT) or `model.onnx`
(onnxruntime, for a machine without a GPU). Each step gives the whole text to the graph, as it has no KV cache.
"""

import argparse
import json
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy

PLAN, ONNX, PROFILE = "model.plan", "model.onnx", "profile.json"


class BadRequest(ValueError):
    pass


class OnnxGraph:
    """The same graph on a CPU."""

    def __init__(self, path):
        import onnxruntime

        self.session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])

    def logits(self, ids):
        return self.session.run(["logits"], {"input_ids": ids})[0]


class TensorRtGraph:
    """One execution context: TensorRT's contexts are not for several threads at once."""

    def __init__(self, path):
        import tensorrt
        from cuda import cudart

        self.cudart = cudart
        runtime = tensorrt.Runtime(tensorrt.Logger(tensorrt.Logger.WARNING))
        self.engine = runtime.deserialize_cuda_engine(Path(path).read_bytes())
        if self.engine is None:
            raise RuntimeError(f"{path}: built by another version of TensorRT, or for another GPU")
        self.context = self.engine.create_execution_context()
        self.stream = self._do(cudart.cudaStreamCreate())
        self.dtype = tensorrt.nptype(self.engine.get_tensor_dtype("logits"))

    def logits(self, ids):
        ids = numpy.ascontiguousarray(ids, dtype=numpy.int32)
        self.context.set_input_shape("input_ids", ids.shape)
        result = numpy.empty(tuple(self.context.get_tensor_shape("logits")), self.dtype)
        memory = [
            (name, self._do(self.cudart.cudaMalloc(array.nbytes)), array)
            for name, array in (("input_ids", ids), ("logits", result))
        ]
        try:
            kinds = self.cudart.cudaMemcpyKind
            self._copy(memory[0][1], ids.ctypes.data, ids.nbytes, kinds.cudaMemcpyHostToDevice)
            for name, address, _ in memory:
                self.context.set_tensor_address(name, address)
            if not self.context.execute_async_v3(self.stream):
                raise RuntimeError("TensorRT could not run the graph")
            self._copy(result.ctypes.data, memory[1][1], result.nbytes, kinds.cudaMemcpyDeviceToHost)
            self._do(self.cudart.cudaStreamSynchronize(self.stream))
        finally:
            for _, address, _ in memory:
                self._do(self.cudart.cudaFree(address))
        return result

    def _copy(self, target, source, size, kind):
        self._do(self.cudart.cudaMemcpyAsync(target, source, size, kind, self.stream))

    def _do(self, returned):
        status, *values = returned
        if int(status):
            raise RuntimeError(f"CUDA: {status}")
        return values[0] if values else None


class Generator:
    def __init__(self, folder):
        from transformers import AutoTokenizer

        profile = json.loads((folder / PROFILE).read_text())
        self.longest = profile["max"][1]
        self.tokenizer = AutoTokenizer.from_pretrained(str(folder))
        plan = folder / PLAN
        self.graph = TensorRtGraph(plan) if plan.is_file() else OnnxGraph(folder / ONNX)
        self.lock = threading.Lock()

    def generate(self, text):
        """The text, and what greedy decoding adds to it, up to the longest length of the profile."""
        ids = self.tokenizer(text)["input_ids"][: self.longest - 1]
        if not ids:
            raise BadRequest("input is empty")
        with self.lock:
            while len(ids) < self.longest:
                row = self.graph.logits(numpy.array([ids], dtype=numpy.int64))[0, -1]
                ids.append(int(row.argmax()))
                if ids[-1] == self.tokenizer.eos_token_id:
                    break
        return self.tokenizer.decode(ids, skip_special_tokens=True)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    generator = None

    def do_GET(self):
        self.respond(200 if self.path == "/ping" else 404, {})

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            self.respond(200, {"output": self.generator.generate(requested_text(body))})
        except BadRequest as reason:
            self.respond(400, {"error": str(reason)})
        except Exception as reason:  # noqa: BLE001  the client gets a response whatever happened
            self.log_error("%s", reason)
            self.respond(500, {"error": str(reason)})

    def respond(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def requested_text(body):
    try:
        text = json.loads(body)["input"]
    except (ValueError, KeyError, TypeError):
        raise BadRequest('send {"input": "a text"}') from None
    if not isinstance(text, str):
        raise BadRequest("input must be a text")
    return text


def main():
    given = argparse.ArgumentParser(description="The server of the container.")
    given.add_argument("serve", nargs="?")
    given.add_argument("--host", default=os.environ.get("HOST", "127.0.0.1"))
    given.add_argument("--port", type=int, default=int(os.environ.get("SAGEMAKER_BIND_TO_PORT", "8080")))
    given.add_argument("--model-dir", default="/opt/ml/model")
    options = given.parse_args()
    folder = Path(os.environ.get("LMI_MODEL_PATH") or options.model_dir)
    # The port opens only when the graph is loaded: until then SageMaker gets no answer to /ping.
    Handler.generator = Generator(folder)
    host = "0.0.0.0" if options.serve == "serve" else options.host
    print(f"serving {folder} on {host}:{options.port}", flush=True)
    ThreadingHTTPServer((host, options.port), Handler).serve_forever()


if __name__ == "__main__":
    main()

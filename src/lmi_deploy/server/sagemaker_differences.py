"""Log messages about behaviour that differs on SageMaker: a local test run must show them."""

FAILED = (
    "the model is FAILED, as on SageMaker: /ping answers 500 and every request 503 until the server is started again "
    "(a higher retry_threshold allows more failures)"
)
LOST = "a worker was lost: as on SageMaker, the others continue; without workers, every request is refused for 60 s"
EARLY = (
    "a request arrived while the model was loading: as on SageMaker, the server refuses it and starts one more worker, "
    "even over maxWorkers"
)
ROLLING = (
    "option.rolling_batch is not disable: on SageMaker, your own handler never answers if it does not support rolling "
    "batches; this server sends it each request separately"
)
SILENT = (
    "the worker died during a stream: as on SageMaker, /ping stays Healthy and every request to this worker gets 400 "
    "until the server is started again"
)
IDLE_DEATH = (
    "the worker died between two requests: as on SageMaker, /ping stays Healthy, the server starts no other worker, "
    "and every request to this worker gets 400 until the server is started again"
)
FAST_STREAM = (
    "the handler streamed its chunks without a pause: DJLServing loses about 1 of 40 to 130 synchronous streams of "
    "this kind, and the worker with it; send fewer, larger chunks, or use option.async_mode"
)
ONE_ENGINE = (
    "one worker serves many requests at once; on a CPU, DJLServing would start a second engine under load "
    "(maxWorkers overrides this)"
)
ONE_WORKER = (
    "the adapter is registered with only one of several workers, as in DJLServing: the others do not find it until "
    "they are started again; set maxWorkers=1"
)
NO_GPU = (
    "load_on_devices names an accelerator, but this machine has none: the workers get its number and run on the CPU "
    '(DJLServing without a GPU ends with code 1, "No GPU device detected.")'
)
ANOTHER = "requests wait: as on SageMaker, another worker starts and loads the model again, up to maxWorkers"

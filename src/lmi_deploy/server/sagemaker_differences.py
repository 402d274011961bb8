"""Log messages about behaviour that differs on SageMaker: a local test run must show them."""

FAILED = (
    "model FAILED, as it would be in the cloud: /ping is 500 and every request 503 until the server is started again "
    "(a higher retry_threshold allows more failures)"
)
LOST = "worker lost: as in the cloud the others go on; with none left every request is refused for 60 s"
EARLY = (
    "a request during the load: as in the cloud it starts a worker more, over maxWorkers too, and is refused"
)
ROLLING = (
    "option.rolling_batch is not disable: a handler of one's own that knows no rolling batches never answers in "
    "the cloud; here every request is handled by itself"
)
SILENT = (
    "the worker died in mid-stream: as in the cloud, /ping stays Healthy and every request to this worker is answered "
    "400 until the server is started again"
)
IDLE_DEATH = (
    "the worker died between two requests: as in the cloud, /ping stays Healthy, no worker is started in its place, "
    "and every request to this worker is answered 400 until the server is started again"
)
FAST_STREAM = (
    "the pieces of a stream followed each other without a pause: in the real server such synchronous streams get stuck "
    "(about 1 of 40 to 130 was lost there, and its worker with it); send fewer, larger pieces, or use option.async_mode"
)
ONE_ENGINE = (
    "one worker, which serves many requests at once: under load DJLServing would start a second engine on a processor, "
    "and none on a GPU (maxWorkers says otherwise)"
)
ONE_WORKER = (
    "an adapter is registered with one of several workers, as DJLServing does it: requests to the others do not find "
    "it until they are started again (maxWorkers=1)"
)
NO_GPU = (
    "load_on_devices names an accelerator, and none is here: the workers get its number and run on the processor "
    '(DJLServing without a GPU ends with code 1, "No GPU device detected.")'
)
ANOTHER = "requests wait: as in the cloud a further worker starts and loads the model again, up to maxWorkers"

from djl_python import Output


def handle(inputs):
    return None if inputs.is_empty() else Output().add("OK")

"""In the place of NVIDIA's tensorrt: the builder's interface, as far as a script needs it to get from ONNX to a plan.

What is checked as TensorRT does: the ONNX graph is read and must be valid; every input with a dimension of unknown
length needs a profile, whose shapes must have its rank and be in order, and no other name may have one. What is not:
whether an operator exists in TensorRT, the memory of a GPU, the time. The plan contains the profile alone.
"""

import enum
import json

import onnx

__version__ = "0.0-stand-in"


class BuilderFlag(enum.IntEnum):
    FP16 = 0


class NetworkDefinitionCreationFlag(enum.IntEnum):
    EXPLICIT_BATCH = 0


class Logger:
    WARNING = 2

    def __init__(self, severity=WARNING):
        self.severity = severity


class Network:
    """`inputs`: by name, a size or None for each dimension."""

    def __init__(self):
        self.inputs = {}


class OnnxParser:
    def __init__(self, network, logger):
        self.network = network
        self.errors = []

    @property
    def num_errors(self):
        return len(self.errors)

    def get_error(self, index):
        return self.errors[index]

    def parse(self, model):
        try:
            graph = onnx.load_model_from_string(model)
            onnx.checker.check_model(graph)
        except Exception as reason:  # noqa: BLE001  protobuf's own DecodeError, or the checker's
            self.errors.append(f"ModelImporter: {reason}")
            return False
        for tensor in graph.graph.input:
            sizes = tensor.type.tensor_type.shape.dim
            self.network.inputs[tensor.name] = [size.dim_value or None for size in sizes]
        return True


class OptimizationProfile:
    def __init__(self):
        self.shapes = {}

    def set_shape(self, input, min, opt, max):
        self.shapes[input] = [list(min), list(opt), list(max)]


class BuilderConfig:
    def __init__(self):
        self.flags, self.profiles = [], []

    def set_flag(self, flag):
        self.flags.append(BuilderFlag(flag).name)

    def add_optimization_profile(self, profile):
        self.profiles.append(profile)
        return len(self.profiles) - 1


class Builder:
    def __init__(self, logger):
        self.logger = logger

    def create_network(self, flags=0):
        return Network()

    def create_builder_config(self):
        return BuilderConfig()

    def create_optimization_profile(self):
        return OptimizationProfile()

    def build_serialized_network(self, network, config):
        """None, with the reason on stderr, for what TensorRT refuses too."""
        mistake = next(mistakes(network, config), None)
        if mistake:
            print(f"[TRT] [E] IBuilder::buildSerializedNetwork: {mistake}")
            return None
        about = {
            "stand-in": __version__,
            "flags": config.flags,
            "profiles": [one.shapes for one in config.profiles],
        }
        return json.dumps(about, indent=1).encode()


def mistakes(network, config):
    dynamic = {name for name, sizes in network.inputs.items() if None in sizes}
    if dynamic and not config.profiles:
        yield "Network has dynamic or shape inputs, but no optimization profile has been defined"
    for profile in config.profiles:
        for name in sorted(dynamic - profile.shapes.keys()):
            yield f"{name}: no shape in the optimization profile"
        for name, shapes in profile.shapes.items():
            sizes = network.inputs.get(name)
            if sizes is None:
                yield f"{name}: the network has no such input"
            elif any(len(shape) != len(sizes) for shape in shapes):
                yield f"{name}: the profile has another number of dimensions than {sizes}"
            elif any(not low <= usual <= high for low, usual, high in zip(*shapes, strict=True)):
                yield f"{name}: min <= opt <= max does not hold in {shapes}"
            elif any(
                fixed not in (None, each)
                for shape in shapes
                for fixed, each in zip(sizes, shape, strict=True)
            ):
                yield f"{name}: the profile {shapes} contradicts {sizes}"

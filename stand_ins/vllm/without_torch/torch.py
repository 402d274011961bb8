"""Where no torch is installed: as much of it as DJL's own vLLM service reads, which computes nothing with it."""

float32, float16, bfloat16, int8 = "float32", "float16", "bfloat16", "int8"


class cuda:
    @staticmethod
    def device_count() -> int:
        return 0

    @staticmethod
    def is_available() -> bool:
        return False

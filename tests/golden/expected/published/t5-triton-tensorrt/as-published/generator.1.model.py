# the template triton/generator.py, byte for byte

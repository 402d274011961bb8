# the template triton/model.py, byte for byte

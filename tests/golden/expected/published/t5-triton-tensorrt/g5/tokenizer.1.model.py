# the template triton/tokenizer.py, byte for byte

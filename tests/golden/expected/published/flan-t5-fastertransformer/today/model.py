# the template text2text-generation, byte for byte

# the template text-generation, byte for byte

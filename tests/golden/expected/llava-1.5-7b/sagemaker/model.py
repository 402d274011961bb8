# the template image-text-to-text, byte for byte

# the template question-answering, byte for byte

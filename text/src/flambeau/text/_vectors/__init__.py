"""Files of word vectors: reading text, and the copy of it that is opened without reading."""

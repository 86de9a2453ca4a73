"""What becomes of other forms of data: values, Python structures, arrays, tables, shards, schemas."""

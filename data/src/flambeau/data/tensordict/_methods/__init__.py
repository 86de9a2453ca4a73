"""The methods of tensordicts, a module for each subject; `TensorDictBase` is their sum."""

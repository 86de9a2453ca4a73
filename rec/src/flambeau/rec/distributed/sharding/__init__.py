"""The ways of spreading tables over processes: by tables, by rows, by columns, by hosts, and not at all."""

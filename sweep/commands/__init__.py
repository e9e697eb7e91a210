"""One file a command. Each has `register(app)`; nothing heavy is imported before a command runs."""

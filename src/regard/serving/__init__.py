"""The HTTP server: models behind the APIs of published clients, with dynamic batching."""

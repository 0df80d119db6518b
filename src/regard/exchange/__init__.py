"""To and from other engines. Each checks first, and lists every reason why it cannot."""

"""Recording, reading and showing the wire messages of sessions."""

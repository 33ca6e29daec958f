"""What went over the wire: written down, read again, shown."""

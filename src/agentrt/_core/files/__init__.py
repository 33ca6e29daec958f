"""The files of a session's folder: checkpoints of them, and separate working trees."""

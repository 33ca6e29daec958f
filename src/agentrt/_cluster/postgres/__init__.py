"""Stores in PostgreSQL, through psycopg 3. Imported when the first one is opened."""

"""Stores in PostgreSQL, through psycopg 3. Imported when one is opened."""

-- The days of earlier rounds, in SQLite's dialect.
UPDATE ledger SET day = strftime('%Y-%m-%d', at_ms / 1000, 'unixepoch');

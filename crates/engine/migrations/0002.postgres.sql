-- The days of earlier rounds, in PostgreSQL's dialect; round ids sort by bytes here too.
UPDATE ledger SET day = to_char(to_timestamp(at_ms / 1000) AT TIME ZONE 'UTC', 'YYYY-MM-DD');
ALTER TABLE ledger ALTER COLUMN round TYPE TEXT COLLATE "C";
